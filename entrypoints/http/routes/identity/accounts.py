"""Accounts: registering one, proving its address, the caller's own profile, passwords, and locking one's own account."""

from collections.abc import Sequence
from datetime import datetime
from typing import Annotated, Final
from uuid import UUID

import msgspec

from core.domain.errors import BadRequest, Conflict, NotFound, OrganizationNotActive, Overloaded, RateLimited, ReauthenticationRequired
from core.domain.federation.oauth.resources import PROFILE
from core.domain.identifiers import UserKeyId
from core.domain.identity.account_locks import MOST_RECENT, LockedAccount
from core.domain.identity.account_mails import AccountMail, LinkRefused, MailedTokenPurpose
from core.domain.identity.callers import Caller, CallerContext
from core.domain.identity.guards.puzzles import PuzzlePurpose
from core.domain.identity.profiles import (
    LONGEST_NAME,
    LONGEST_ZONE,
    NO_PROFILE,
    USERNAME_PATTERN,
    HeldProfile,
    OwnProfileChange,
    picture_path,
)
from core.domain.identity.proofs import StepUp
from core.domain.identity.realms import ProviderRequired
from core.domain.identity.registering import RegistrationClosed
from core.domain.identity.sign_in import service_named
from core.domain.identity.upstream.claims import AddedKind
from core.domain.languages import Language
from core.domain.secrets import Password, Token
from core.domain.services.user_keys import MOST_KEPT
from entrypoints.bootstrap import Postern
from entrypoints.http.machinery.answers import Answer, Message
from entrypoints.http.machinery.callers import ANYONE, OWN_USER, USER
from entrypoints.http.machinery.calls import Call
from entrypoints.http.machinery.endpoints import endpoint
from entrypoints.http.machinery.errors import status_of
from entrypoints.http.machinery.fields import EmailAddress, EmailText, Id, Slug, Word, bounded, changed, email_field, example
from entrypoints.http.machinery.limits import AUTH, FORGOT_PASSWORD, REGISTER, RESEND_VERIFICATION, UNLIMITED
from entrypoints.http.machinery.step_up import require_fresh_proof
from entrypoints.http.pages import shipped_pages
from entrypoints.http.pages.declaring import Advised, WayOn, page, refused_page
from entrypoints.http.routes.identity.own_terms import TermsSeen
from entrypoints.http.routes.identity.program_puzzles import PUZZLE_HEADERS, solvable
from ports.unit_of_work import UnitOfWork


class NewRegistration(msgspec.Struct, frozen=True):
    """A new account."""

    email: EmailText
    """The email address to sign in with. Postern emails it a link to confirm it."""
    password: Password
    """8 to 128 characters, and no common or breached password."""
    org_slug: Annotated[Slug, example("acme")] | None = None
    """The organization whose branding the email gets."""
    service_slug: Annotated[Slug, example("billing")] | None = None
    """The service of this organization that the account is registered for. The email then gets the service's branding."""
    accept_terms: Annotated[Sequence[TermsSeen], msgspec.Meta(max_length=2)] | None = None
    """The terms that the person has read and accepts: of the installation, and of the organization. The first sign-in asks for the rest."""


class AccountAddress(msgspec.Struct, frozen=True):
    """The email address of an account."""

    email: EmailText
    """The account's email address."""
    org_slug: Annotated[Slug, example("acme")] | None = None
    """The organization whose branding the email gets."""


class MailedLink(msgspec.Struct, frozen=True):
    """The query of a mailed link."""

    token: Annotated[Token, example("b3f1a5c2-7d0e-4d1c-9a53-2f6c1f0f8e11")]
    """The token in the magic link. The token works once, within 24 hours."""


_ProfileText = Annotated[str, bounded({"minLength": 1, "maxLength": LONGEST_NAME})]
_Username = Annotated[str, bounded({"minLength": 3, "maxLength": 40, "pattern": USERNAME_PATTERN}), example("ada.lovelace")]
_Zone = Annotated[str, bounded({"minLength": 1, "maxLength": LONGEST_ZONE}), example("Europe/Vienna")]
_Language = Annotated[Language, example("en")]


class Profile(msgspec.Struct, frozen=True, kw_only=True):
    """The account that the token belongs to, and what the person says of themselves. Fields of the profile are null while they are unset.
    An application reads them with the scope `profile`; without this scope, all of them are null.
    """

    id: Id
    email: EmailAddress
    org: Annotated[str, example("acme")]
    """The slug of the token's organization; empty if the token is for none."""
    service: Annotated[str, example("billing")]
    """The slug of the token's service; empty if the token is for none."""
    name: Annotated[str, example("Ada Lovelace")] | None
    """The full name."""
    given_name: Annotated[str, example("Ada")] | None
    """The first name."""
    family_name: Annotated[str, example("Lovelace")] | None
    """The last name."""
    username: _Username | None
    """The user name, unique in this installation. It is for applications; no one signs in with it."""
    zoneinfo: _Zone | None
    """The time zone, by its name in the IANA database."""
    language: _Language | None
    """The language of pages and emails; null for the browser's language."""
    picture_url: Annotated[str, example("https://sso.example.com/pictures/0a4f2f9e-8a4f-4d3a-9a3e-6f0f8f1d2c3b")] | None
    """The URL of the picture. Everyone who has it may see the picture. A new picture has a new email address."""
    updated_at: datetime | None
    """When the profile was last changed."""
    pending_email: str | msgspec.UnsetType = msgspec.UNSET
    """A new email address that is waiting to be confirmed. Only the answer to a change of address has it."""


class ProfileChange(msgspec.Struct, frozen=True, kw_only=True):
    """A change of the profile. Omitted fields keep their values; null empties a field."""

    email: EmailText | msgspec.UnsetType = msgspec.UNSET
    """The new email address. To withdraw a change that is pending, send the current address."""
    name: Annotated[_ProfileText, example("Ada Lovelace")] | msgspec.UnsetType | None = msgspec.UNSET
    """The full name, in one line."""
    given_name: Annotated[_ProfileText, example("Ada")] | msgspec.UnsetType | None = msgspec.UNSET
    """The first name, in one line."""
    family_name: Annotated[_ProfileText, example("Lovelace")] | msgspec.UnsetType | None = msgspec.UNSET
    """The last name, in one line."""
    username: _Username | msgspec.UnsetType | None = msgspec.UNSET
    """The user name. Each is issued once, for good: no one gets a name that was ever in use, not even its last holder."""
    zoneinfo: _Zone | msgspec.UnsetType | None = msgspec.UNSET
    """The time zone, by its name in the IANA database."""
    language: _Language | msgspec.UnsetType | None = msgspec.UNSET
    """The language of pages and emails."""

    def of_profile(self) -> OwnProfileChange:
        return OwnProfileChange(
            name=changed(self.name),
            given_name=changed(self.given_name),
            family_name=changed(self.family_name),
            username=changed(self.username),
            zoneinfo=changed(self.zoneinfo),
            language=changed(self.language),
        )


@endpoint.post(
    "/api/auth/register",
    caller=ANYONE,
    limit=(AUTH, REGISTER),
    refuses=(RegistrationClosed, OrganizationNotActive, NotFound, Conflict, Overloaded),
    reads=PUZZLE_HEADERS,
    tags=("registration",),
)
async def register_account(call: Call[NewRegistration], postern: Postern) -> Message:
    """Register an account

    Postern sends an email with a link to a page. The page asks for the password and verifies the address. No one can sign in before that.
    An account that is registered for a service becomes a user of this service at its first sign-in there.

    The installation, and the organization that you name, say who may register. Where no one may, the response is 403; for an address of an
    email domain that may not, it is 400. Both are the same whether or not such an account exists. If terms that you accept are not those in
    force, the response is 409, and there is no account.
    """
    body = call.body
    email = email_field(body.email, postern.foundation.email_syntax)
    organization = body.org_slug or ""
    service = service_named(organization, body.service_slug or "")
    seen = [(one.organization or "", one.version) for one in body.accept_terms or ()]
    accepting = await postern.identity.terms.named(organization, seen) if seen else ()
    async with solvable(call, postern, PuzzlePurpose.REGISTRATION, email) as solved:
        await postern.identity.accounts.register(
            email, body.password, organization, call.actor, service, solved=solved, accepting=accepting
        )
    return Message("The account is registered. To verify the email address, open the link in the email.")


@endpoint.post(
    "/api/auth/resend-verification", caller=ANYONE, limit=(AUTH, RESEND_VERIFICATION), reads=PUZZLE_HEADERS, tags=("registration",)
)
async def resend_verification(call: Call[AccountAddress], postern: Postern) -> Message:
    """Send the verification mail again

    The response is the same whether or not such an account exists.
    """
    email = email_field(call.body.email, postern.foundation.email_syntax)
    async with solvable(call, postern, PuzzlePurpose.VERIFICATION, email) as solved:
        await postern.identity.accounts.ask_as_stranger(
            AccountMail.VERIFICATION, email, call.body.org_slug or "", call.request.sender, may_wait=solved, solved=solved
        )
    return Message("If this email address is waiting for verification, an email with a new link was sent.")


@page.get("/auth/verify-email", caller=ANYONE, limit=AUTH, refuses=(BadRequest,), tags=("registration",))
async def verify_email(call: Call[None, MailedLink], postern: Postern) -> Answer[bytes]:
    """Verify an address

    For applications that build links of their own, from the token of an email that verifies an address or a new email address. The links in
    Postern's emails lead to a page with a button instead, since programs that check mail open links. The response is a page. HEAD checks
    the token without using it up.
    """
    sign_in = postern.foundation.links.sign_in
    try:
        if call.request.method == "HEAD":
            purpose = await postern.identity.accounts.look_at_link(call.query.token)
        else:
            # This also refuses an address that somebody else has taken in the meantime.
            purpose = await postern.identity.accounts.prove_address(call.query.token, call.actor)
    except LinkRefused as refusal:
        # Programs that check links for viruses may open the link before the address's owner does, and so confirm the address. The owner
        # then sees this refusal although all is well, so the page leads to the sign-in.
        advised = Advised("address_confirmed.link_refused", WayOn(sign_in, "password.sign_in"))
        return Answer(refused_page(refusal, advised, call.language), status_of(refusal))
    return Answer(shipped_pages().outcome(_OUTCOMES[purpose], call.language, good=True, onward=sign_in), 200)


@endpoint.get("/api/user", caller=USER, tags=("account",))
async def get_profile(call: Call, postern: Postern) -> Profile:
    """Get your profile

    A session of a service sees the fields of the profile with the scope `profile` alone.
    """
    return shown_profile(call.caller, postern)


@endpoint.patch("/api/user", caller=OWN_USER, refuses=(ReauthenticationRequired, NotFound, RateLimited, Conflict), tags=("account",))
async def change_profile(call: Call[ProfileChange], postern: Postern) -> Profile:
    """Change your profile, or your email address

    All of the change takes effect, or nothing. A user name that is taken, or was ever, is 409.

    For a new email address Postern emails a link to that address. The change takes effect when you open this link; until then the new email
    address is the `pending_email`. Send the current address to withdraw a pending change. You need a recent sign-in or reauthentication for
    this: of MFA, if you have one.
    """
    caller, body = call.caller, call.body
    wanted, username = body.of_profile(), caller.profile.username
    if body.email is msgspec.UNSET:
        if wanted.is_empty:
            return shown_profile(caller, postern)
        return shown_profile(caller, postern, await postern.identity.profiles.change(caller.user, wanted, call.actor, username=username))
    await require_fresh_proof(call.request, postern, StepUp.ACCOUNT)
    email = email_field(body.email, postern.foundation.email_syntax)
    prepared = await postern.identity.profiles.prepare(caller.user, wanted, username=username)

    held: HeldProfile | None = None

    async def beside(uow: UnitOfWork) -> None:
        nonlocal held
        held = await postern.identity.profiles.apply(uow, caller.user, prepared, call.actor)

    change = await postern.identity.accounts.ask_for_email(caller.user, caller.session, email, call.actor, beside=beside)
    pending = change.pending.address if change.pending is not None else msgspec.UNSET
    return msgspec.structs.replace(shown_profile(caller, postern, held), email=change.email.address, pending_email=pending)


def shown_profile(caller: Caller, postern: Postern, held: HeldProfile | None = None) -> Profile:
    """The profile as this session may see it: a service's session by its scopes. `held` is the profile after a change."""
    told, language = (caller.profile, caller.language) if held is None else (held.profile, held.language)
    if caller.context is CallerContext.SERVICE and PROFILE not in (caller.scopes or ()):
        told, language = NO_PROFILE, None
    return Profile(
        id=caller.user,
        email=caller.email.address,
        org=caller.organization,
        service=caller.service,
        name=told.name,
        given_name=told.given_name,
        family_name=told.family_name,
        username=told.username,
        zoneinfo=told.zoneinfo,
        language=language,
        picture_url=None if told.picture is None else f"{postern.foundation.public_url}{picture_path(told.picture)}",
        updated_at=told.updated_at,
    )


_OUTCOMES: Final = {
    MailedTokenPurpose.VERIFY_EMAIL: "address_confirmed",
    MailedTokenPurpose.CHANGE_EMAIL: "address_changed",
}


class PasswordReset(msgspec.Struct, frozen=True):
    """The token from the email, and the new password."""

    token: Annotated[Token, example("b3f1a5c2-7d0e-4d1c-9a53-2f6c1f0f8e11")]
    """The token in the magic link. The token works once, within an hour."""
    new_password: Password
    """The new password, 8 to 128 characters."""
    keep_keys: Annotated[Sequence[UUID], msgspec.Meta(max_length=MOST_KEPT)] | None = None
    """The IDs of the person's user API keys that stay valid; all others are revoked. IDs of other keys are ignored. Omitted or null: keys
    that the person created are revoked, and keys that applications created stay valid.
    """
    keep_ways: Annotated[
        Sequence[Word], msgspec.Meta(max_length=MOST_RECENT), example(["passkey:019a2b3c-0000-7000-8000-000000000001"])
    ] = ()
    """For a locked account: which passkeys (`passkey:` and its ID) and connected accounts (`identity:` and its ID) of the last 30 days are
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
    """Request a password reset email

    The response is the same whether or not such an account exists.
    """
    email = email_field(call.body.email, postern.foundation.email_syntax)
    async with solvable(call, postern, PuzzlePurpose.RESET, email) as solved:
        await postern.identity.accounts.ask_as_stranger(
            AccountMail.RESET, email, call.body.org_slug or "", call.request.sender, may_wait=solved, solved=solved
        )
    return Message("If there is an account with this email address, an email with a link was sent.")


@endpoint.post(
    "/api/auth/reset-password", caller=ANYONE, limit=AUTH, refuses=(BadRequest, ProviderRequired, Overloaded), tags=("registration",)
)
async def reset_password(call: Call[PasswordReset], postern: Postern) -> Message:
    """Reset a password with the token from an email

    The token works once. All sessions of the account end, and every device must pass MFA again. Keys that the person has for the APIs of
    applications end, unless `keep_keys` names them; an email tells which ones ended, and which ones continue. If the people of the
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
    """Set a first password

    For accounts that have no password because their people sign in another way. Your other sessions end. Requires a recent sign-in or
    reauthentication, with MFA if you have it enabled.
    """
    caller = call.caller
    await postern.identity.account_passwords.set(caller.user, caller.session, call.body.new_password, call.actor)
    return Message("The password is set.")


@endpoint.post("/api/user/change-password", caller=OWN_USER, refuses=(BadRequest, NotFound, RateLimited, Overloaded), tags=("account",))
async def change_password(call: Call[PasswordChange], postern: Postern) -> Message:
    """Change your password

    Your other sessions end, and every device must pass MFA again. You can try a few times at once, then once a minute.
    """
    caller = call.caller
    await postern.identity.account_passwords.change(
        caller.user, caller.session, call.body.current_password, call.body.new_password, call.actor
    )
    return Message("The password is changed.")


class RecentWay(msgspec.Struct, frozen=True):
    """Something that was added to the account in the 30 days before the lock, and may be someone else's."""

    kind: AddedKind
    """What it is."""
    id: Id
    """Its ID; for an authenticator app, the account's."""
    name: Annotated[str, example("Laptop")]
    """The person's name for it, or the provider's; empty for an authenticator app."""
    added_at: datetime | None
    """When it was added."""


class LockEnded(msgspec.Struct, frozen=True):
    """What a lock revoked. Nothing, if the account was locked already."""

    password: Annotated[bool, example(True)]
    """Whether the account had a password."""
    sessions: Annotated[int, example(3)]
    """The number of sessions revoked, those of applications among them."""
    devices: Annotated[int, example(1)]
    """How many devices were not asked for MFA, and are now."""
    consents: Annotated[int, example(2)]
    """How many applications may no longer act for the person."""
    keys: Annotated[Sequence[str], example(["Laptop (Wiki)"])]
    """The keys for applications that ended, by their names."""
    recent: Sequence[RecentWay]
    """What was added in the 30 days before, the oldest first."""


@endpoint.post("/api/user/lock", caller=OWN_USER, limit=UNLIMITED, refuses=(BadRequest,), tags=("account",))
async def lock_own_account(call: Call, postern: Postern) -> LockEnded:
    """Lock your account, because someone else may be in it

    Everything ends that lets anyone in: your sessions, this one too, and those of applications, their consents, your keys for them, trusted
    devices, magic links, the password. You get an email with a link for a new password, which opens the account. There you say which
    passkeys and connected accounts of the last 30 days are yours. The second factor stays.
    """
    return locked_record(await postern.identity.account_locks.lock_own(call.caller, call.actor))


def locked_record(done: LockedAccount) -> LockEnded:
    recent = [RecentWay(one.kind, one.id, one.name, one.at) for one in done.recent]
    return LockEnded(done.had_password, done.sessions, done.devices, done.consents, done.keys, recent)
