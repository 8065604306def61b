"""A person's data: exporting it, and forgetting the person."""

from base64 import b64encode
from collections.abc import AsyncGenerator, Mapping, Sequence
from datetime import datetime
from typing import Annotated, Any, Final, Literal
from uuid import UUID

import msgspec

from core.domain.errors import OrganizationNotActive
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
from entrypoints.http.machinery.derived import shown
from entrypoints.http.machinery.endpoints import endpoint
from entrypoints.http.machinery.fields import (
    CreatedAt,
    EmailAddress,
    Id,
    MessageText,
    OrganizationUuid,
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
    request_id: Annotated[UUID, msgspec.Meta(description="The ID of the erasure request, from its response.")]


class ExportedMembership(msgspec.Struct, frozen=True):
    """A membership of the person in an organization."""

    organization_id: UUID
    """The organization's ID."""
    organization_slug: SlugOfOrganization
    role: SlugOfRole
    joined_at: datetime
    """When the person became a member."""
    teams: Annotated[Sequence[str], example(["support"])]
    """The slugs of the person's teams in the organization."""


class ExportedLoginEvent(msgspec.Struct, frozen=True, kw_only=True):
    """A sign-in attempt."""

    id: Id
    timestamp: datetime
    """When the attempt took place."""
    ip_address: Annotated[str, example("203.0.113.7")] | None
    """The IP address that the attempt came from; null if unknown."""
    user_agent: Annotated[str, example("Mozilla/5.0")] | None
    """The client's `User-Agent` header; null if there was none."""
    provider: Annotated[str, example("password")]
    """The sign-in method or provider."""
    success: bool
    """Whether the attempt succeeded."""
    risk_score: Annotated[int, example(30)]
    """The risk score of the attempt, from 0 to 100."""
    risk_factors: Annotated[str, example('["new_device"]')]
    """The reasons for the score, as a JSON array in a string."""
    geo_country: Annotated[str, example("AT")] | None
    """The country of the IP address; null if unknown."""
    geo_city: Annotated[str, example("Vienna")] | None
    """The city of the IP address; null if unknown."""
    geo_place: Annotated[Sequence[float], example([48.2, 16.4])] | None
    """The latitude and longitude of the IP address, to a tenth of a degree; null if unknown."""


class IdentityExport(msgspec.Struct, frozen=True):
    """An account at an external provider that the person can sign in with."""

    provider: Annotated[str, example("codehost")]
    """The provider."""
    provider_user_id: Annotated[str, example("583231")]
    """The person's ID at the provider."""
    linked_at: datetime
    """When the account was connected."""


class ExportedMfaEvent(msgspec.Struct, frozen=True):
    """An MFA event of the person."""

    event_type: Annotated[str, example("mfa_enabled")]
    """The type of the event."""
    timestamp: datetime
    """When the event took place."""
    success: bool
    """Whether the action succeeded."""


class ManagementKeyExport(msgspec.Struct, frozen=True, kw_only=True):
    """A management API key that the person created or adopted, without the key itself."""

    organization_id: UUID | None
    """The organization of the key; null if it is a key of the platform."""
    name: Annotated[str, example("Nightly sync")]
    """The key's name."""
    prefix: Annotated[str, example("pto_a1b2c3")]
    """The prefix of the key."""
    created_at: CreatedAt
    expires_at: datetime
    """When the key expires."""


class UserKeyExport(msgspec.Struct, frozen=True, kw_only=True):
    """A user API key of the person, without the key itself."""

    organization_id: OrganizationUuid
    service_slug: Annotated[str, example("billing")]
    """The service's slug."""
    name: Annotated[str, example("Laptop")]
    """The person's name for the key."""
    prefix: Annotated[str, example("acme_a1b2c3")]
    """The prefix of the key."""
    scopes: Annotated[Sequence[str], example(["orders:read"])]
    """The scopes of the key."""
    created_at: CreatedAt
    expires_at: datetime | None
    """When the key expires; null if it never does."""
    last_used_at: datetime | None
    """When the key was last found valid; null if never."""


class PasskeyExport(msgspec.Struct, frozen=True, kw_only=True):
    """A passkey of the person, without the key itself."""

    id: Id
    name: Annotated[str, example("Laptop")]
    """The person's name for the passkey."""
    aaguid: Annotated[str, example("ee882879-721c-4913-9775-3dfcce97072a")] | None
    """The model of the authenticator (AAGUID); null if unknown."""
    made_on: Annotated[str, example("Firefox on Linux")] | None
    """The browser and operating system that created the passkey; null if it was created elsewhere."""
    backup_eligible: bool
    """Whether the authenticator can sync the passkey to other devices."""
    created_at: CreatedAt
    last_used_at: datetime | None
    """When the passkey was last used; null if never."""


class ConsentExport(msgspec.Struct, frozen=True, kw_only=True):
    """A consent of the person for an application."""

    organization_id: OrganizationUuid
    service_slug: Annotated[str, example("billing")]
    """The service's slug."""
    resource: Annotated[str, example("https://api.example.org/orders")] | None
    """The identifier of the API that the consent is for; null for consent to share personal data."""
    scopes: Annotated[Sequence[str], example(["openid", "email"])]
    """The allowed scopes."""
    granted_at: datetime
    """When the person last gave consent."""
    expires_at: datetime | None
    """When the consent for an agent expires; null for other applications."""


class TermsExport(msgspec.Struct, frozen=True, kw_only=True):
    """Terms that the person has accepted."""

    organization_id: UUID | None
    """The ID of the organization of the terms; null for those of the installation."""
    version: Annotated[str, example("2026-11")]
    """The version."""
    address: Annotated[str, example("https://acme.example/terms")]
    """The URL of the text."""
    accepted_at: datetime
    """When the person accepted it."""


class BlockedClientExport(msgspec.Struct, frozen=True, kw_only=True):
    """An application that the person has blocked from backchannel authentication (CIBA)."""

    organization_id: OrganizationUuid
    service_slug: Annotated[str, example("billing")]
    """The service's slug."""
    blocked_at: datetime
    """When the person blocked the application."""


class DeviceExport(msgspec.Struct, frozen=True, kw_only=True):
    """A device that the person has signed in with."""

    name: Annotated[str, example("Firefox on Linux")]
    """The person's name for the device."""
    device_type: Annotated[str, example("browser")]
    """The type of device."""
    browser: Annotated[str, example("Firefox")] | None
    """The browser; null if unknown."""
    os: Annotated[str, example("Linux")] | None
    """The operating system; null if unknown."""
    created_at: CreatedAt
    last_used_at: datetime
    """When the person last signed in with the device."""
    last_address: Annotated[str, example("203.0.113.7")] | None
    """The IP address of that sign-in."""
    trusted_until: datetime | None
    """Until when the device can skip MFA; null if it cannot."""


class ProfileExport(msgspec.Struct, frozen=True, kw_only=True):
    """The data that an organization's directory has sent about the person."""

    organization_id: UUID
    """The organization of the directory."""
    external_id: Annotated[str, example("00u1f96ECLNVOKVMUSEA")] | None
    """The ID of the person in the directory."""
    work_email: Annotated[str, example("ada@work.example.com")] | None
    """A work email address, if it differs from the account's email address."""
    formatted_name: Annotated[str, example("Ada Lovelace")] | None
    """The full name."""
    given_name: Annotated[str, example("Ada")] | None
    """The given name."""
    family_name: Annotated[str, example("Lovelace")] | None
    """The family name."""
    display_name: Annotated[str, example("Ada")] | None
    """The display name."""


class PersonThereExport(msgspec.Struct, frozen=True, kw_only=True):
    """The person's account in a target system of outbound provisioning."""

    organization_id: UUID
    """The ID of the application's organization."""
    service_slug: Annotated[str, example("billing")]
    """The slug of the application."""
    user_name: Annotated[str, example("ada@acme.example")] | None
    """The username that Postern sent."""
    id_there: Annotated[str, example("2819c223")] | None
    """The ID in the target system; null if the user does not exist there."""
    is_active: Annotated[bool, example(True)]
    """Whether the user is active in the target system."""


class ServiceRoleExport(msgspec.Struct, frozen=True):
    """A role of a service that is assigned to the person."""

    organization_id: UUID
    """The organization of the service."""
    service_slug: Annotated[str, example("billing")]
    """The service's slug."""
    role: Annotated[str, example("editor")]
    """The slug of the service's role."""


class PictureExport(msgspec.Struct, frozen=True, kw_only=True):
    """The person's picture."""

    media_type: Annotated[str, example("image/png")]
    """The media type of the picture."""
    content: Annotated[str, example("iVBORw0KGgo=")]
    """The content of the picture, in base64."""


class OwnProfileExport(msgspec.Struct, frozen=True, kw_only=True):
    """The person's profile. Unset fields are null."""

    name: Annotated[str, example("Ada Lovelace")] | None
    """The full name."""
    given_name: Annotated[str, example("Ada")] | None
    """The given name."""
    family_name: Annotated[str, example("Lovelace")] | None
    """The family name."""
    username: Annotated[str, example("ada.lovelace")] | None
    """The username."""
    zoneinfo: Annotated[str, example("Europe/Vienna")] | None
    """The time zone."""
    language: Annotated[str, example("en")] | None
    """The language of pages and emails."""
    updated_at: datetime | None
    """When the profile was last changed."""
    picture: PictureExport | None
    """The picture; null if there is none."""


class FieldsExport(msgspec.Struct, frozen=True):
    """The profile field values that an organization or the installation stores about the person."""

    organization_id: UUID | None
    """The ID of the organization; null for the installation."""
    values: Annotated[Mapping[str, Any], example({"department": "Sales"})]
    """The values, by field key."""


class PersonalDataExport(msgspec.Struct, frozen=True, kw_only=True):
    """All data about a person, without passwords, MFA secrets and tokens."""

    user_id: UserUuid
    email: EmailAddress
    created_at: datetime
    """When the account was created. In an export for an organization that the person never used: when the person became a member."""
    memberships: Sequence[ExportedMembership]
    """The organizations that the person belongs to."""
    login_events_count: Annotated[int, example(128)]
    """The number of recorded sign-in attempts."""
    login_events: Sequence[ExportedLoginEvent]
    """The latest sign-in attempts, up to the limit that the operator of this installation set."""
    oauth_identities: Sequence[IdentityExport]
    """Accounts at external providers."""
    mfa_events: Sequence[ExportedMfaEvent]
    """MFA events, newest first."""
    management_keys: Sequence[ManagementKeyExport]
    """Management API keys that the person created or adopted, oldest first."""
    user_keys: Sequence[UserKeyExport]
    """User API keys, oldest first."""
    passkeys: Sequence[PasskeyExport]
    """Passkeys, oldest first."""
    consents: Sequence[ConsentExport]
    """Consents for applications, oldest first."""
    terms: Sequence[TermsExport]
    """Accepted terms, oldest first."""
    blocked_clients: Sequence[BlockedClientExport]
    """Applications that the person has blocked from backchannel authentication, oldest first; empty in an export for an organization."""
    devices: Sequence[DeviceExport]
    """Devices that the person has signed in with; empty in an export for an organization."""
    profile: OwnProfileExport | None
    """The person's profile; null in an export for an organization."""
    directory_profiles: Sequence[ProfileExport]
    """Data that directories of organizations sent by SCIM."""
    people_there: Sequence[PersonThereExport]
    """The systems that organizations have provisioned the person to."""
    service_roles: Sequence[ServiceRoleExport]
    """The person's roles in services: assigned to the person, to a team or to a role of the organization."""
    fields: Sequence[FieldsExport]
    """The values of profile fields of the installation and of organizations."""
    service_metadata: Annotated[Mapping[str, Mapping[str, Any]], example({"0199d3a0-0000-7000-8000-000000000001": {"crm_id": "4711"}})]
    """The metadata that services store about the person, by service ID."""


class PersonForgotten(msgspec.Struct, frozen=True):
    """The confirmation that the person was erased."""

    success: Success
    message: MessageText
    user_id: UserUuid
    request_id: Annotated[UUID, msgspec.Meta(description="The ID of the erasure request, to get its receipt.")]


class PrivacyReceipt(msgspec.Struct, frozen=True, kw_only=True):
    """The receipt of an erasure request."""

    id: Id
    user_id: UserUuid
    status: Annotated[Literal["processing", "completed"], example("completed")]
    """`processing` while a background job removes the remaining data; `completed` when no data is left."""
    requested_by: UUID | None
    """The ID of the user who requested the erasure; null for the operator of the installation."""
    requested_at: datetime
    """When the erasure was requested. Since then, the account cannot be used."""
    completed_at: datetime | None
    """When the last data was removed; null while the erasure is in progress."""


@endpoint.get("/api/privacy/export/{user_id}", caller=OWN_PERSON, limit=PRIVACY, tags=_TAGS)
async def export_personal_data(call: Call[None, None, PersonPath, Caller], postern: Postern) -> Streamed[PersonalDataExport]:
    """Export a person's data

    You can export your own data. A platform owner can export anyone's data. An owner of an organization that the person belongs to can
    export the organization's own part. It contains the membership, and the sign-ins to the organization and its services. Exports of other
    people's data are recorded.
    """
    exported = await postern.identity.privacy.export(UserId(call.path.user_id), asker(call.caller), call.actor)
    return Streamed(parts_of_export(exported))


@endpoint.delete(
    "/api/privacy/forget/{user_id}",
    caller=OWN_PERSON,
    limit=PRIVACY,
    step_up=StepUp.ACCOUNT,
    refuses=(OrganizationNotActive,),
    tags=_TAGS,
)
async def forget_person(call: Call[None, None, PersonPath, Caller], postern: Postern) -> PersonForgotten:
    """Erase a person

    The account loses its email address and all sign-in methods, and can no longer be used. Logs keep the events, without the data that
    identifies the person. A background job removes the remaining data, and the receipt says when it is done. This cannot be undone.

    A platform owner can do this. The owner of all organizations that the person belongs to can do this, too, on two conditions. First, the
    person uses no service of another organization. Second, the person joined each of these organizations as a confirmed member, or the
    account was created through one of them.

    A platform owner must be demoted before they can be erased. If you own a suspended organization, ask the platform owners first: only
    they can delete or reactivate it. The request can be repeated safely. Requires a recent sign-in or reauthentication, with MFA if you
    have it enabled.
    """
    request = await postern.identity.privacy.forget(UserId(call.path.user_id), asker(call.caller), call.actor)
    return PersonForgotten(True, "The person is forgotten. The account cannot be used any more", request.user, request.id)


@endpoint.get("/api/privacy/requests/{request_id}", caller=OWN_PERSON, tags=_TAGS)
async def get_privacy_receipt(call: Call[None, None, PrivacyRequestPath, Caller], postern: Postern) -> PrivacyReceipt:
    """Get an erasure receipt

    For the user who requested the erasure, and for platform owners.
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
        "management_keys": [_management_key(one) for one in export.management_keys],
        "user_keys": [_user_key(one) for one in export.user_keys],
        "passkeys": [_passkey(one) for one in export.passkeys],
        "consents": [_consent(one) for one in export.consents],
        "terms": [_terms(one) for one in export.terms],
        "blocked_clients": [_blocked_client(one) for one in export.blocked_clients],
        "devices": [_device(one) for one in export.devices],
        "profile": None if export.own_profile is None else _own_profile(export.own_profile),
        "directory_profiles": [_profile(one) for one in export.profiles],
        "people_there": [_there(one) for one in export.people_there],
        "service_roles": [ServiceRoleExport(one.organization, one.service_slug, one.role) for one in export.service_roles],
        "fields": [FieldsExport(one.organization, one.values) for one in export.fields],
        "service_metadata": {str(service): metadata for service, metadata in export.metadata.items()},
    }
    yield _encode(head)[:-1] + b',"login_events":['
    separator = b""
    async for page in exported.logins:
        yield separator + _encode([_login(one) for one in page])[1:-1]
        separator = b","
    yield b"]}"


def _membership(one: Belonging) -> ExportedMembership:
    return ExportedMembership(one.organization, one.organization_slug, one.role, one.joined_at, one.teams)


def _management_key(one: privacy.ExportedManagementKey) -> ManagementKeyExport:
    return ManagementKeyExport(
        organization_id=one.organization, name=one.name, prefix=one.prefix, created_at=one.created_at, expires_at=one.expires_at
    )


def _passkey(one: privacy.ExportedPasskey) -> PasskeyExport:
    return PasskeyExport(
        id=one.id,
        name=one.name,
        aaguid=None if one.aaguid is None else str(one.aaguid),
        made_on=one.made_on,
        backup_eligible=one.backup_eligible,
        created_at=one.created_at,
        last_used_at=one.last_used_at,
    )


def _own_profile(one: privacy.ExportedOwnProfile) -> OwnProfileExport:
    told, picture = one.held.profile, one.picture
    return OwnProfileExport(
        name=told.name,
        given_name=told.given_name,
        family_name=told.family_name,
        username=told.username,
        zoneinfo=told.zoneinfo,
        language=one.held.language,
        updated_at=told.updated_at,
        picture=None if picture is None else PictureExport(media_type=picture.media_type, content=b64encode(picture.content).decode()),
    )


def _there(one: privacy.ExportedPersonThere) -> PersonThereExport:
    return PersonThereExport(
        organization_id=one.organization,
        service_slug=one.service_slug,
        user_name=one.user_name,
        id_there=one.far_id,
        is_active=one.is_active,
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
        geo_place=None if one.spot is None else [part / 10 for part in one.spot],
    )


def _receipt(found: PrivacyRequest) -> PrivacyReceipt:
    return PrivacyReceipt(
        id=found.id,
        user_id=found.user,
        status="completed" if found.is_completed else "processing",
        requested_by=found.requested_by,
        requested_at=found.requested_at,
        completed_at=found.completed_at,
    )


_consent = shown(privacy.ExportedConsent, ConsentExport, named={"organization_id": "organization"})
_terms = shown(privacy.ExportedTerms, TermsExport, named={"organization_id": "organization"})
_blocked_client = shown(privacy.ExportedBlockedClient, BlockedClientExport, named={"organization_id": "organization"})
_device = shown(privacy.ExportedDevice, DeviceExport)
_user_key = shown(privacy.ExportedUserKey, UserKeyExport, named={"organization_id": "organization"})
