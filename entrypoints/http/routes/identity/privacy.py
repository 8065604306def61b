"""What is kept about a person: shown, and forgotten."""

from collections.abc import AsyncGenerator, Sequence
from datetime import datetime
from typing import Annotated, Final, Literal
from uuid import UUID

import msgspec

from core.domain.identifiers import PrivacyRequestId, UserId
from core.domain.identity import privacy
from core.domain.identity.callers import Caller
from core.domain.identity.privacy import Belonging, ExportedLogin, PrivacyRequest, PrivacyRequester
from core.domain.identity.proofs import StepUp
from core.usecases.identity.privacy import Exported
from entrypoints.bootstrap import Postern
from entrypoints.http.machinery.answers import Streamed
from entrypoints.http.machinery.callers import OWN_PERSON
from entrypoints.http.machinery.calls import Call
from entrypoints.http.machinery.endpoints import endpoint
from entrypoints.http.machinery.fields import (
    CreatedAt,
    EmailAddress,
    Id,
    MessageText,
    SlugOfOrganization,
    SlugOfRole,
    Success,
    UserUuid,
    example,
)
from entrypoints.http.machinery.limits import PRIVACY

_TAGS: Final = ("privacy",)


class PersonPath(msgspec.Struct, frozen=True):
    user_id: UserUuid


class PrivacyRequestPath(msgspec.Struct, frozen=True):
    request_id: Annotated[UUID, msgspec.Meta(description="The id that the answer to the request named.")]


class ExportedMembership(msgspec.Struct, frozen=True):
    """An organization that the person belongs to."""

    organization_id: UUID
    """The organization's id."""
    organization_slug: SlugOfOrganization
    role: SlugOfRole
    joined_at: datetime
    """When the person became a member."""


class ExportedLoginEvent(msgspec.Struct, frozen=True, kw_only=True):
    """One attempt to sign in."""

    id: Id
    timestamp: datetime
    """When it was."""
    ip_address: Annotated[str, example("203.0.113.7")] | None
    """Where it came from; null if that is not known."""
    user_agent: Annotated[str, example("Mozilla/5.0")] | None
    """What the client called itself; null if it said nothing."""
    provider: Annotated[str, example("password")]
    """How the person signed in."""
    success: bool
    """Whether it succeeded."""
    risk_score: Annotated[int, example(30)]
    """How unusual it was, from 0 to 100."""
    risk_factors: Annotated[str, example('["new_device"]')]
    """Why, as a JSON array in a string."""
    geo_country: Annotated[str, example("AT")] | None
    """The country of the address; null if that is not known."""
    geo_city: Annotated[str, example("Vienna")] | None
    """The city of the address; null if that is not known."""


class IdentityExport(msgspec.Struct, frozen=True):
    """An account at an external provider that can sign in to this one."""

    provider: Annotated[str, example("codehost")]
    """The provider."""
    provider_user_id: Annotated[str, example("583231")]
    """The person's id there."""
    linked_at: datetime
    """When it was linked."""


class ExportedMfaEvent(msgspec.Struct, frozen=True):
    """Something that happened with the person's second factor."""

    event_type: Annotated[str, example("mfa_enabled")]
    """What happened."""
    timestamp: datetime
    """When."""
    success: bool
    """Whether it succeeded."""


class PasskeyExport(msgspec.Struct, frozen=True, kw_only=True):
    """A passkey, without its key."""

    id: Id
    name: Annotated[str, example("Laptop")]
    """What the person calls it."""
    aaguid: Annotated[str, example("ee882879-721c-4913-9775-3dfcce97072a")] | None
    """The model of the authenticator; null if it did not say."""
    backup_eligible: bool
    """Whether the authenticator may copy it to other devices."""
    created_at: CreatedAt
    last_used_at: datetime | None
    """When it was last used; null if never."""


class ProfileExport(msgspec.Struct, frozen=True, kw_only=True):
    """What the directory of an organization says about the person."""

    organization_id: UUID
    """The organization whose directory it is."""
    external_id: Annotated[str, example("00u1f96ECLNVOKVMUSEA")] | None
    """The directory's id of the person."""
    work_email: Annotated[str, example("ada@work.example.com")] | None
    """An address at work, where it is another one than the account's."""
    formatted_name: Annotated[str, example("Ada Lovelace")] | None
    """The full name."""
    given_name: Annotated[str, example("Ada")] | None
    """The first name."""
    family_name: Annotated[str, example("Lovelace")] | None
    """The last name."""
    display_name: Annotated[str, example("Ada")] | None
    """The name to show."""


class ExportPackage(msgspec.Struct, frozen=True, kw_only=True):
    """What is kept about a person. Passwords, secrets of second factors and tokens are not part of it."""

    user_id: UserUuid
    email: EmailAddress
    created_at: datetime
    """When the account was made. For an organization that the person has told nothing: when they became its member."""
    memberships: Sequence[ExportedMembership]
    """The organizations that the person belongs to."""
    login_events_count: Annotated[int, example(128)]
    """How many attempts to sign in are kept."""
    login_events: Sequence[ExportedLoginEvent]
    """The newest of them, as many as the operator of this installation allows."""
    oauth_identities: Sequence[IdentityExport]
    """Accounts at external providers."""
    mfa_events: Sequence[ExportedMfaEvent]
    """What happened with the second factor, the newest first."""
    passkeys: Sequence[PasskeyExport]
    """Passkeys, the oldest first."""
    directory_profiles: Sequence[ProfileExport]
    """What directories of organizations say about the person, by SCIM."""


class Forgotten(msgspec.Struct, frozen=True):
    """The person is forgotten."""

    success: Success
    message: MessageText
    user_id: UserUuid
    request_id: Annotated[UUID, msgspec.Meta(description="Names the receipt: ask with it when everything is done.")]


class Receipt(msgspec.Struct, frozen=True, kw_only=True):
    """What became of a request to forget a person."""

    id: Id
    user_id: UserUuid
    status: Annotated[Literal["processing", "completed"], example("completed")]
    """`processing` while a job removes what no answer shows any more; `completed` when nothing is left."""
    requested_by: UUID | None
    """Who asked for it; null if the operator of the installation did."""
    requested_at: datetime
    """When it was asked for. From then on the account could not be used."""
    completed_at: datetime | None
    """When nothing was left; null while there may be."""


@endpoint.get("/api/privacy/export/{user_id}", caller=OWN_PERSON, limit=PRIVACY, tags=_TAGS)
async def export_personal_data(call: Call[None, None, PersonPath, Caller], postern: Postern) -> Streamed[ExportPackage]:
    """Export what is kept about a person

    You may export your own data. A platform owner may export anybody's. An owner of an organization that the person belongs to gets the
    same package with what belongs to that organization alone: the membership, and the sign-ins there and to its services. Exports of other
    people's data are on record.
    """
    exported = await postern.identity.privacy.export(UserId(call.path.user_id), asker(call.caller), call.actor)
    return Streamed(parts_of_export(exported))


@endpoint.delete("/api/privacy/forget/{user_id}", caller=OWN_PERSON, limit=PRIVACY, step_up=StepUp.ACCOUNT, tags=_TAGS)
async def forget_person(call: Call[None, None, PersonPath, Caller], postern: Postern) -> Forgotten:
    """Forget a person, for good

    The account loses its address and everything that it could be signed in with; logs keep what happened, without what identifies the
    person. It cannot be used any more once you have this answer. The rest is removed in the background; ask for the receipt to know when it
    is done.

    A platform owner may do this. So may an owner of all organizations that the person belongs to, if the person joined each of them by
    their own act, or if the account came to be through one of them, and if the person signs in to no service of another organization. A
    platform owner has to be demoted first. You may repeat this. You need a recent proof of who you are: of the second factor, if you have
    one.
    """
    request = await postern.identity.privacy.forget(UserId(call.path.user_id), asker(call.caller), call.actor)
    return Forgotten(True, "The person is forgotten. The account cannot be used any more", request.user, request.id)


@endpoint.get("/api/privacy/requests/{request_id}", caller=OWN_PERSON, tags=_TAGS)
async def privacy_receipt(call: Call[None, None, PrivacyRequestPath, Caller], postern: Postern) -> Receipt:
    """Get the receipt of a request to forget a person

    For those who asked for it, and for platform owners.
    """
    caller = call.caller
    found = await postern.identity.privacy.request(PrivacyRequestId(call.path.request_id), asker(caller), governs=caller.is_platform_owner)
    return _receipt(found)


def asker(caller: Caller) -> PrivacyRequester:
    return PrivacyRequester(user=caller.user, session=caller.session, organization=caller.organization_id)


_encode: Final = msgspec.json.Encoder().encode


async def parts_of_export(exported: Exported) -> AsyncGenerator[bytes, None]:
    """The package, with the sign-ins at its end."""
    export = exported.export
    head = {
        "user_id": export.account.id,
        "email": export.account.email.address,
        "created_at": export.created_at,
        "memberships": [_membership(one) for one in export.belongings],
        "login_events_count": export.login_events,
        "oauth_identities": [IdentityExport(one.provider, one.subject, one.linked_at) for one in export.identities],
        "mfa_events": [ExportedMfaEvent(one.name, one.at, one.success) for one in export.mfa_events],
        "passkeys": [_passkey(one) for one in export.passkeys],
        "directory_profiles": [_profile(one) for one in export.profiles],
    }
    yield _encode(head)[:-1] + b',"login_events":['
    separator = b""
    async for page in exported.logins:
        yield separator + _encode([_login(one) for one in page])[1:-1]
        separator = b","
    yield b"]}"


def _membership(one: Belonging) -> ExportedMembership:
    return ExportedMembership(one.organization, one.organization_slug, one.role, one.joined_at)


def _passkey(one: privacy.ExportedPasskey) -> PasskeyExport:
    return PasskeyExport(
        id=one.id,
        name=one.name,
        aaguid=None if one.aaguid is None else str(one.aaguid),
        backup_eligible=one.backup_eligible,
        created_at=one.created_at,
        last_used_at=one.last_used_at,
    )


def _profile(one: privacy.ExportedProfile) -> ProfileExport:
    return ProfileExport(
        organization_id=one.organization,
        external_id=one.external_id,
        work_email=one.work_email,
        formatted_name=one.formatted_name,
        given_name=one.given_name,
        family_name=one.family_name,
        display_name=one.display_name,
    )


def _login(one: ExportedLogin) -> ExportedLoginEvent:
    return ExportedLoginEvent(
        id=one.id,
        timestamp=one.at,
        ip_address=one.address,
        user_agent=one.user_agent,
        provider=one.provider,
        success=one.success,
        risk_score=round(one.risk_score * 100),
        risk_factors=_encode(one.risk_factors).decode(),
        geo_country=one.country,
        geo_city=one.city,
    )


def _receipt(found: PrivacyRequest) -> Receipt:
    return Receipt(
        id=found.id,
        user_id=found.user,
        status="completed" if found.is_completed else "processing",
        requested_by=found.requested_by,
        requested_at=found.requested_at,
        completed_at=found.completed_at,
    )
