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
from entrypoints.http.pages.kit import shipped_pages
from entrypoints.http.pages.kit.declaring import Advised, WayOn, page, refused_page
from entrypoints.http.routes.identity.own_terms import TermsSeen
from entrypoints.http.routes.identity.program_puzzles import PUZZLE_HEADERS, solvable
from ports.unit_of_work import UnitOfWork


class NewRegistration(msgspec.Struct, frozen=True):
    """The account to register."""

    email: EmailText
    """The email address to sign in with. Postern sends a verification link to it."""
    password: Password
    """The password: 8 to 128 characters, and not a common or breached password."""
    org_slug: Annotated[Slug, example("acme")] | None = None
    """The slug of the organization whose branding the email has."""
    service_slug: Annotated[Slug, example("billing")] | None = None
    """The slug of the service that the account is registered for. The email then has the service's branding."""
    accept_terms: Annotated[Sequence[TermsSeen], msgspec.Meta(max_length=2)] | None = None
    """The terms that the person has read and accepts: those of the installation, and those of the organization. The first sign-in asks for
    all others.
    """


class AccountAddress(msgspec.Struct, frozen=True):
    """The email address of an account."""

    email: EmailText
    """The account's email address."""
    org_slug: Annotated[Slug, example("acme")] | None = None
    """The slug of the organization whose branding the email has."""


class MailedLink(msgspec.Struct, frozen=True):
    """The query of a mailed link."""

    token: Annotated[Token, example("b3f1a5c2-7d0e-4d1c-9a53-2f6c1f0f8e11")]
    """The token from the link in the email. It works once, within 24 hours."""


_ProfileText = Annotated[str, bounded({"minLength": 1, "maxLength": LONGEST_NAME})]
_Username = Annotated[str, bounded({"minLength": 3, "maxLength": 40, "pattern": USERNAME_PATTERN}), example("ada.lovelace")]
_Zone = Annotated[str, bounded({"minLength": 1, "maxLength": LONGEST_ZONE}), example("Europe/Vienna")]
_Language = Annotated[Language, example("en")]


class Profile(msgspec.Struct, frozen=True, kw_only=True):
    """The account that the token belongs to, and the person's profile. Unset profile fields are null. An application needs the scope
    `profile` to read them; without it, all are null.
    """

    id: Id
    email: EmailAddress
    org: Annotated[str, example("acme")]
    """The slug of the token's organization; empty if the token has none."""
    service: Annotated[str, example("billing")]
    """The slug of the token's service; empty if the token has none."""
    name: Annotated[str, example("Ada Lovelace")] | None
    """The full name."""
    given_name: Annotated[str, example("Ada")] | None
    """The given name."""
    family_name: Annotated[str, example("Lovelace")] | None
    """The family name."""
    username: _Username | None
    """The username, unique in this installation. It is for applications; it cannot be used to sign in."""
    zoneinfo: _Zone | None
    """The time zone, as an IANA time zone name."""
    language: _Language | None
    """The language of pages and emails; null for the browser's language."""
    picture_url: Annotated[str, example("https://sso.example.com/pictures/0a4f2f9e-8a4f-4d3a-9a3e-6f0f8f1d2c3b")] | None
    """The URL of the picture. Anyone with the URL can see the picture. Each new picture has a new URL."""
    updated_at: datetime | None
    """When the profile was last changed."""
    pending_email: str | msgspec.UnsetType = msgspec.UNSET
    """The new email address that awaits verification. Only present in the response to a change of the email address."""


class ProfileChange(msgspec.Struct, frozen=True, kw_only=True):
    """The profile fields to change. Omitted fields keep their values; null clears a field."""

    email: EmailText | msgspec.UnsetType = msgspec.UNSET
    """The new email address. To cancel a pending change, send the current email address."""
    name: Annotated[_ProfileText, example("Ada Lovelace")] | msgspec.UnsetType | None = msgspec.UNSET
    """The full name, in 1 line."""
    given_name: Annotated[_ProfileText, example("Ada")] | msgspec.UnsetType | None = msgspec.UNSET
    """The given name, in 1 line."""
    family_name: Annotated[_ProfileText, example("Lovelace")] | msgspec.UnsetType | None = msgspec.UNSET
    """The family name, in 1 line."""
    username: _Username | msgspec.UnsetType | None = msgspec.UNSET
    """The username. A username is never reused: no one can take a username that was ever in use, including its last holder."""
    zoneinfo: _Zone | msgspec.UnsetType | None = msgspec.UNSET
    """The time zone, as an IANA time zone name."""
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

    Postern sends an email with a link to a page that sets the password and verifies the email address. Before that, no one can sign in. An
    account that is registered for a service becomes a user of the service at its first sign-in there.

    The installation, and the organization that you specify, decide who can register. If no one can register, the response is 403. If the
    email domain is not allowed, the response is 400. Both responses are the same whether or not such an account exists. If accepted terms
    are not the current version, the response is 409, and no account is created.
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
    """Resend the verification email

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
    """Verify an email address

    For applications that build their own links with the token from a verification email. The links in Postern's own emails open a page with
    a button instead, since email scanners open links. The response is a page. HEAD checks the token without using it.
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

    A session of a service gets the profile fields only with the scope `profile`.
    """
    return shown_profile(call.caller, postern)


@endpoint.patch("/api/user", caller=OWN_USER, refuses=(ReauthenticationRequired, NotFound, RateLimited, Conflict), tags=("account",))
async def change_profile(call: Call[ProfileChange], postern: Postern) -> Profile:
    """Change your profile

    Either all changes are applied, or none. If the username is taken or was ever in use, the response is 409.

    To change the email address, Postern sends a link to the new email address. The change takes effect when you open the link. Until then,
    the new email address is the `pending_email`. To cancel a pending change, send the current email address. A change of the email address
    requires a recent sign-in or reauthentication, with MFA if you have it enabled.
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
    """The token from the link in the email. It works once, within 1 hour."""
    new_password: Password
    """The new password, 8 to 128 characters."""
    keep_keys: Annotated[Sequence[UUID], msgspec.Meta(max_length=MOST_KEPT)] | None = None
    """The IDs of the person's user API keys to keep; all others are revoked. IDs of other keys are ignored. If omitted or null: keys that
    the person created are revoked, and keys that applications created stay valid.
    """
    keep_ways: Annotated[
        Sequence[Word], msgspec.Meta(max_length=MOST_RECENT), example(["passkey:019a2b3c-0000-7000-8000-000000000001"])
    ] = ()
    """For a locked account: the passkeys (`passkey:` and the ID) and connected accounts (`identity:` and the ID) of the last 30 days to
    keep. All others of the last 30 days are removed.
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
    """Reset a password

    Send the token from the email, which works once. All sessions of the account are revoked, and every device requires MFA again. The
    person's user API keys are revoked, unless `keep_keys` lists them. An email names the revoked and the remaining keys. If the people of
    the email domain sign in with a provider, the new password is rejected. If the account is locked, the reset unlocks it.
    """
    body = call.body
    kept = None if body.keep_keys is None else [UserKeyId(one) for one in body.keep_keys]
    await postern.identity.account_passwords.reset(body.token, body.new_password, call.actor, keep_keys=kept, keep_ways=body.keep_ways)
    return Message("The password is changed. You can sign in with it now.")


@endpoint.post(
    "/api/user/set-password", caller=OWN_USER, step_up=StepUp.ACCOUNT, refuses=(BadRequest, NotFound, Overloaded), tags=("account",)
)
async def set_password(call: Call[FirstPassword], postern: Postern) -> Message:
    """Set your first password

    For accounts without a password, which sign in another way. Your other sessions are revoked. Requires a recent sign-in or
    reauthentication, with MFA if you have it enabled.
    """
    caller = call.caller
    await postern.identity.account_passwords.set(caller.user, caller.session, call.body.new_password, call.actor)
    return Message("The password is set.")


@endpoint.post("/api/user/change-password", caller=OWN_USER, refuses=(BadRequest, NotFound, RateLimited, Overloaded), tags=("account",))
async def change_password(call: Call[PasswordChange], postern: Postern) -> Message:
    """Change your password

    Your other sessions are revoked, and every device requires MFA again. A few attempts are allowed at once, then one per minute.
    """
    caller = call.caller
    await postern.identity.account_passwords.change(
        caller.user, caller.session, call.body.current_password, call.body.new_password, call.actor
    )
    return Message("The password is changed.")


class RecentWay(msgspec.Struct, frozen=True):
    """A sign-in method or key that was added to the account in the 30 days before the lock, possibly by someone else."""

    kind: AddedKind
    """What was added."""
    id: Id
    """The ID of the method or key. For an authenticator app: the account's ID."""
    name: Annotated[str, example("Laptop")]
    """The person's or the provider's name for the method or key; empty for an authenticator app."""
    added_at: datetime | None
    """When the method or key was added."""


class LockEnded(msgspec.Struct, frozen=True):
    """What the lock revoked. Everything is zero or empty if the account was already locked."""

    password: Annotated[bool, example(True)]
    """Whether the account had a password."""
    sessions: Annotated[int, example(3)]
    """The number of sessions revoked, including those of applications."""
    devices: Annotated[int, example(1)]
    """The number of trusted devices that now require MFA."""
    consents: Annotated[int, example(2)]
    """The number of applications whose consent was revoked."""
    keys: Annotated[Sequence[str], example(["Laptop (Wiki)"])]
    """The names of the user API keys that were revoked."""
    recent: Sequence[RecentWay]
    """The sign-in methods and keys added in the 30 days before the lock, oldest first."""


@endpoint.post("/api/user/lock", caller=OWN_USER, limit=UNLIMITED, refuses=(BadRequest,), tags=("account",))
async def lock_own_account(call: Call, postern: Postern) -> LockEnded:
    """Lock your account

    Use this if someone else may have access to your account. All sessions, including this one, are revoked. Consents of applications, user
    API keys, trusted devices, magic links and the password are revoked, too. You get an email with a link to set a new password, which
    unlocks the account. On that page, select which passkeys and connected accounts of the last 30 days are yours. MFA stays on.
    """
    return locked_record(await postern.identity.account_locks.lock_own(call.caller, call.actor))


def locked_record(done: LockedAccount) -> LockEnded:
    recent = [RecentWay(one.kind, one.id, one.name, one.at) for one in done.recent]
    return LockEnded(done.had_password, done.sessions, done.devices, done.consents, done.keys, recent)
