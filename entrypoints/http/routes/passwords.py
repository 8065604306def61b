"""Passwords: forgotten, reset, chosen, changed."""

import msgspec

from core.domain.account_mails import AccountMail
from core.domain.errors import BadRequest, NotFound, Overloaded, RateLimited
from core.domain.secrets import Password, Token
from entrypoints.bootstrap import Services
from entrypoints.http.answers import Message
from entrypoints.http.callers import ANYONE, OWN_USER
from entrypoints.http.calls import Call
from entrypoints.http.endpoints import endpoint
from entrypoints.http.fields import email_field
from entrypoints.http.limits import AUTH, FORGOT_PASSWORD
from entrypoints.http.routes.accounts import AddressInQuestion


class Reset(msgspec.Struct, frozen=True):
    token: Token
    new_password: Password


class FirstPassword(msgspec.Struct, frozen=True):
    new_password: Password


class PasswordChange(msgspec.Struct, frozen=True):
    current_password: Password
    new_password: Password


@endpoint.post("/api/auth/forgot-password", caller=ANYONE, limit=(AUTH, FORGOT_PASSWORD), tags=("registration",))
async def forgot_password(call: Call[AddressInQuestion], services: Services) -> Message:
    """Ask for a link to choose a new password

    The answer is the same whether or not there is such an account.
    """
    email = email_field(call.body.email, services.email_syntax)
    await services.accounts.ask_for_mail(AccountMail.RESET, email, call.body.org_slug or "")
    return Message("If there is an account with this address, a mail with a link is on its way.")


@endpoint.post("/api/auth/reset-password", caller=ANYONE, limit=AUTH, refuses=(BadRequest, Overloaded), tags=("registration",))
async def reset_password(call: Call[Reset], services: Services) -> Message:
    """Choose a new password by a mailed link

    The link works once. All sessions end, and every device has to show the second factor again.
    """
    await services.account_passwords.reset(call.body.token, call.body.new_password, call.actor)
    return Message("The password is changed. You can sign in with it now.")


@endpoint.post("/api/user/set-password", caller=OWN_USER, refuses=(BadRequest, NotFound, Overloaded), tags=("account",))
async def set_password(call: Call[FirstPassword], services: Services) -> Message:
    """Choose a first password

    For an account that has none, since it signs in another way. Other sessions end.
    """
    caller = call.caller
    await services.account_passwords.set(caller.user, caller.session, call.body.new_password, call.actor)
    return Message("The password is set.")


@endpoint.post("/api/user/change-password", caller=OWN_USER, refuses=(BadRequest, NotFound, RateLimited, Overloaded), tags=("account",))
async def change_password(call: Call[PasswordChange], services: Services) -> Message:
    """Change the password

    All other sessions end, and every device has to show the second factor again. A few attempts at once, then one a minute.
    """
    caller = call.caller
    await services.account_passwords.change(caller.user, caller.session, call.body.current_password, call.body.new_password, call.actor)
    return Message("The password is changed.")
