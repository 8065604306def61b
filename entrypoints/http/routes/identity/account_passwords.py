"""Passwords: resetting a forgotten one, choosing a first one, changing one."""

from collections.abc import Sequence
from typing import Annotated
from uuid import UUID

import msgspec

from core.domain.errors import BadRequest, NotFound, Overloaded, RateLimited
from core.domain.identifiers import UserKeyId
from core.domain.identity.account_locks import MOST_RECENT
from core.domain.identity.account_mails import AccountMail
from core.domain.identity.guards.puzzles import PuzzlePurpose
from core.domain.identity.proofs import StepUp
from core.domain.identity.realms import ProviderRequired
from core.domain.secrets import Password, Token
from core.domain.services.user_keys import MOST_KEPT
from entrypoints.bootstrap import Postern
from entrypoints.http.machinery.answers import Message
from entrypoints.http.machinery.callers import ANYONE, OWN_USER
from entrypoints.http.machinery.calls import Call
from entrypoints.http.machinery.endpoints import endpoint
from entrypoints.http.machinery.fields import email_field, example
from entrypoints.http.machinery.limits import AUTH, FORGOT_PASSWORD
from entrypoints.http.routes.identity.accounts import AccountAddress
from entrypoints.http.routes.identity.program_puzzles import PUZZLE_HEADERS, solvable


class PasswordReset(msgspec.Struct, frozen=True):
    """The token from the mail, and the new password."""

    token: Annotated[Token, example("b3f1a5c2-7d0e-4d1c-9a53-2f6c1f0f8e11")]
    """The token in the mailed link. The token works once, within an hour."""
    new_password: Password
    """The new password, 8 to 128 characters."""
    keep_keys: Annotated[Sequence[UUID], msgspec.Meta(max_length=MOST_KEPT)] | None = None
    """The ids of the person's keys for the APIs of applications that stay; all others end. Ids of other keys count for nothing. Left
    out or null: the keys that the person made end, and those that applications made stay.
    """
    keep_ways: Annotated[
        Sequence[str], msgspec.Meta(max_length=MOST_RECENT), example(["passkey:019a2b3c-0000-7000-8000-000000000001"])
    ] = ()
    """For a locked account: which passkeys (`passkey:` and its id) and connected accounts (`identity:` and its id) of the last 30 days are
    the person's. All others of that time end.
    """


class FirstPassword(msgspec.Struct, frozen=True):
    """The first password of an account."""

    new_password: Password
    """The new password, 8 to 128 characters."""


class PasswordChange(msgspec.Struct, frozen=True):
    """The current password and the new one."""

    current_password: Password
    """The current password."""
    new_password: Password
    """The new password, 8 to 128 characters."""


@endpoint.post("/api/auth/forgot-password", caller=ANYONE, limit=(AUTH, FORGOT_PASSWORD), reads=PUZZLE_HEADERS, tags=("registration",))
async def request_password_reset(call: Call[AccountAddress], postern: Postern) -> Message:
    """Ask for a mail with a link to choose a new password

    The answer is the same whether or not such an account exists.
    """
    email = email_field(call.body.email, postern.foundation.email_syntax)
    async with solvable(call, postern, PuzzlePurpose.RESET, email) as solved:
        await postern.identity.accounts.ask_as_stranger(
            AccountMail.RESET, email, call.body.org_slug or "", call.request.sender, may_wait=solved, solved=solved
        )
    return Message("If there is an account with this address, a mail with a link is on its way.")


@endpoint.post(
    "/api/auth/reset-password", caller=ANYONE, limit=AUTH, refuses=(BadRequest, ProviderRequired, Overloaded), tags=("registration",)
)
async def reset_password(call: Call[PasswordReset], postern: Postern) -> Message:
    """Choose a new password with the token from a mail

    The token works once. All sessions of the account end, and every device must pass the second factor again. Keys that the person has for
    the APIs of applications end, unless `keep_keys` names them; a mail tells which ones ended, and which ones go on. If the people of the
    address's domain sign in at a provider, the new password is refused. A locked account opens.
    """
    body = call.body
    kept = None if body.keep_keys is None else [UserKeyId(one) for one in body.keep_keys]
    await postern.identity.account_passwords.reset(body.token, body.new_password, call.actor, keep_keys=kept, keep_ways=body.keep_ways)
    return Message("The password is changed. You can sign in with it now.")


@endpoint.post(
    "/api/user/set-password", caller=OWN_USER, step_up=StepUp.ACCOUNT, refuses=(BadRequest, NotFound, Overloaded), tags=("account",)
)
async def set_password(call: Call[FirstPassword], postern: Postern) -> Message:
    """Choose a first password

    For accounts that have no password because their people sign in another way. Your other sessions end. You need a recent proof of who you
    are: of the second factor, if you have one.
    """
    caller = call.caller
    await postern.identity.account_passwords.set(caller.user, caller.session, call.body.new_password, call.actor)
    return Message("The password is set.")


@endpoint.post("/api/user/change-password", caller=OWN_USER, refuses=(BadRequest, NotFound, RateLimited, Overloaded), tags=("account",))
async def change_password(call: Call[PasswordChange], postern: Postern) -> Message:
    """Change your password

    Your other sessions end, and every device must pass the second factor again. You can try a few times at once, then once a minute.
    """
    caller = call.caller
    await postern.identity.account_passwords.change(
        caller.user, caller.session, call.body.current_password, call.body.new_password, call.actor
    )
    return Message("The password is changed.")
