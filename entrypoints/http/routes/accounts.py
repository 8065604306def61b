"""Accounts: registering one, proving its e-mail address, and the caller's own profile."""

from collections.abc import Sequence
from datetime import datetime
from typing import Final
from uuid import UUID

import msgspec

from core.domain.account_mails import AccountMail
from core.domain.errors import BadRequest, Conflict, NotFound, OrganizationNotActive, Overloaded, RateLimited
from core.domain.mailed_tokens import LinkRefused, MailedTokenPurpose
from core.domain.secrets import Password, Token
from core.domain.sign_in import service_named
from entrypoints.bootstrap import Services
from entrypoints.http.answers import Answer, Message
from entrypoints.http.callers import ANYONE, OWN_USER, USER
from entrypoints.http.calls import Call
from entrypoints.http.endpoints import endpoint
from entrypoints.http.fields import Slug, email_field
from entrypoints.http.limits import AUTH, REGISTER, RESEND_VERIFICATION
from entrypoints.http.pages import HTML, shipped_pages


class Registration(msgspec.Struct, frozen=True):
    """`org_slug` names an organization whose looks the mail is to have; with `service_slug`, the one of the service that the account is
    registered for.
    """

    email: str
    password: Password
    org_slug: Slug | None = None
    service_slug: Slug | None = None


class AddressInQuestion(msgspec.Struct, frozen=True):
    """`org_slug` names an organization whose looks the mail is to have."""

    email: str
    org_slug: Slug | None = None


class MailedLink(msgspec.Struct, frozen=True):
    token: Token


class Profile(msgspec.Struct, frozen=True):
    """`org` and `service` are the slugs of the token's context, empty outside of one. `pending_email` is an address that follows once it is
    verified; only a change says so.
    """

    id: UUID
    email: str
    org: str
    service: str
    pending_email: str | msgspec.UnsetType = msgspec.UNSET


class ProfileChange(msgspec.Struct, frozen=True):
    email: str | msgspec.UnsetType = msgspec.UNSET


class Identity(msgspec.Struct, frozen=True):
    """An account at an external provider that signs in to this one."""

    provider: str
    provider_user_id: str
    email: str | None
    linked_at: datetime


@endpoint.post(
    "/api/auth/register",
    caller=ANYONE,
    limit=(AUTH, REGISTER),
    refuses=(OrganizationNotActive, NotFound, Conflict, Overloaded),
    tags=("registration",),
)
async def register(call: Call[Registration], services: Services) -> Message:
    """Register an account

    A mail brings the link that verifies its address; until then nobody can sign in to it. Whoever registers for a service becomes a user of
    it by signing in there.
    """
    body = call.body
    email = email_field(body.email, services.email_syntax)
    organization = body.org_slug or ""
    await services.accounts.register(email, body.password, organization, call.actor, service_named(organization, body.service_slug or ""))
    return Message("The account is registered. Please open the link in the mail that we have sent, to confirm the address.")


@endpoint.post("/api/auth/resend-verification", caller=ANYONE, limit=(AUTH, RESEND_VERIFICATION), tags=("registration",))
async def resend_verification(call: Call[AddressInQuestion], services: Services) -> Message:
    """Send the verification mail again

    The answer is the same whether or not there is such an account.
    """
    email = email_field(call.body.email, services.email_syntax)
    await services.accounts.ask_for_mail(AccountMail.VERIFICATION, email, call.body.org_slug or "")
    return Message("If this address waits for its confirmation, a mail with a new link is on its way.")


@endpoint.get("/auth/verify-email", caller=ANYONE, limit=AUTH, also={400: bytes}, produces=HTML, tags=("registration",))
async def verify_email(call: Call[None, MailedLink], services: Services) -> Answer[bytes]:
    """Open the link of a verification mail

    Answers with a page. The same for the link that confirms a new address. HEAD looks at the link and leaves it usable.
    """
    try:
        if call.request.method == "HEAD":
            purpose = await services.accounts.look_at_link(call.query.token)
        else:
            purpose = await services.accounts.prove_address(call.query.token, call.actor)
    except BadRequest as refusal:
        # Also when somebody else was quicker to take the address.
        hint = _HINT if isinstance(refusal, LinkRefused) else ""
        return Answer(_outcome(services, refusal.message, hint, good=False), 400)
    title, text = _OUTCOMES[purpose]
    return Answer(_outcome(services, title, text, good=True), 200)


@endpoint.get("/api/user", caller=USER, tags=("account",))
async def profile(call: Call, _services: Services) -> Profile:
    """The caller's profile"""
    caller = call.caller
    return Profile(caller.user, caller.email.address, caller.organization, caller.service)


@endpoint.patch("/api/user", caller=OWN_USER, refuses=(NotFound, RateLimited), tags=("account",))
async def change_profile(call: Call[ProfileChange], services: Services) -> Profile:
    """Change the caller's e-mail address

    The new address takes effect when the link that is mailed to it is opened; until then it is the `pending_email`. Naming the address
    in force withdraws a change that is pending.
    """
    caller = call.caller
    if call.body.email is msgspec.UNSET:
        return Profile(caller.user, caller.email.address, caller.organization, caller.service)
    email = email_field(call.body.email, services.email_syntax)
    change = await services.accounts.ask_for_email(caller.user, email, call.actor)
    pending = change.pending.address if change.pending is not None else msgspec.UNSET
    return Profile(caller.user, change.email.address, caller.organization, caller.service, pending)


@endpoint.get("/api/user/identities", caller=USER, tags=("account",))
async def identities(_call: Call, _services: Services) -> Sequence[Identity]:
    """The external accounts that are linked to the caller's"""
    return ()


_OUTCOMES: Final = {
    MailedTokenPurpose.VERIFY_EMAIL: ("Your e-mail address is confirmed", "Your account is ready. You can sign in now."),
    MailedTokenPurpose.CHANGE_EMAIL: (
        "Your new e-mail address is confirmed",
        "From now on, sign in with it. Mails to your account go there, too.",
    ),
}
# Programs that check links for viruses open them before their owner does, and so confirm the address: by then all is well.
_HINT: Final = (
    "If you have opened it before, or your mail program has, your address is confirmed, and you can sign in. "
    "Otherwise ask for a new link where you signed up."
)


def _outcome(services: Services, title: str, text: str, *, good: bool) -> bytes:
    return shipped_pages().encoded("outcome.html", title=title, text=text, good=good, onward=services.links.frontend_url)
