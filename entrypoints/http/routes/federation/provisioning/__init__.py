"""Provisioning of an application: the outbound SCIM connection, which members draft and an owner activates."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Annotated, Any, Final
from uuid import UUID

import msgspec

from core.domain.claims import ToldClaim, WithheldClaim
from core.domain.errors import BadRequest, Conflict
from core.domain.federation.provisioning.connections import (
    LONGEST_PROVISIONING_TOKEN,
    MOST_CHOSEN_TEAMS,
    MOST_MAPPED,
    PRESETS_THERE,
    MappedAttribute,
    ProvisioningConnection,
    ProvisioningDraft,
    ProvisioningPreset,
    ProvisioningSource,
    ProvisioningState,
)
from core.domain.federation.provisioning.people import WhyGone
from core.domain.identifiers import TeamId, UserId
from core.domain.identity.proofs import StepUp
from core.domain.outbound import LONGEST_URL
from core.domain.tenancy.members import Member
from core.domain.tenancy.roles import Capability
from core.usecases.federation.provisioning.connections import PeopleLeftThere
from entrypoints.bootstrap import Postern
from entrypoints.http.machinery.answers import NO_BODY, NoBody
from entrypoints.http.machinery.callers import OWNER_IN_PERSON, able
from entrypoints.http.machinery.calls import Call
from entrypoints.http.machinery.derived import shown, taken
from entrypoints.http.machinery.endpoints import endpoint
from entrypoints.http.machinery.fields import SECRET, Id, ServicePath, UpdatedAt, example
from entrypoints.http.machinery.limits import UNLIMITED
from entrypoints.http.routes.tenancy.connections import ConfirmedSettings

_TAGS: Final = ("provisioning",)
_PROVISIONING: Final = "/api/organizations/{org_slug}/services/{service_slug}/provisioning"
_DIGEST: Final = "9f2c4d4c86a1d0c5f2a0b3b8a3d7e9f1c2b3a4958677869504132231f0e1d2c3"
# The form has a token in it, and the preview the values of people.
_IN_PERSON: Final = able(Capability.INTEGRATIONS_MANAGE, impersonated=False)

_Attribute = Annotated[str, msgspec.Meta(max_length=200), example("userName")]
_BaseUrl = Annotated[str, msgspec.Meta(max_length=LONGEST_URL), example("https://id.example.org/scim/v2")]


class MappedAttributeRow(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A SCIM attribute, and its source."""

    attribute: _Attribute
    """The SCIM attribute: `userName`, `displayName`, `name.givenName`, `emails[type eq "work"].value`, an attribute of the enterprise
    extension, or another one.
    """
    source: Annotated[ProvisioningSource, example("address")]
    """The source of the value: `address` (the person's email address in the organization), `name`, `given_name`, `family_name`,
    `user_name`, `language`, `zoneinfo`, `role`, `teams`, `roles`, `organization_field`, `person_field` or `constant`.
    """
    argument: Annotated[str, msgspec.Meta(max_length=200), example("department")] | None = None
    """The key of the field, or the constant value."""


_Mapping = Annotated[
    Sequence[MappedAttributeRow], msgspec.Meta(max_length=MOST_MAPPED), example([{"attribute": "userName", "source": "address"}])
]
_LeftOut = Annotated[Sequence[_Attribute], msgspec.Meta(max_length=MOST_MAPPED), example(["displayName"])]
_Teams = Annotated[Sequence[UUID], msgspec.Meta(max_length=MOST_CHOSEN_TEAMS), example(["018f3c5a-7b1e-7c3d-9f4a-2b6c8d0e1f23"])]


class ProvisioningBody(msgspec.Struct, frozen=True, kw_only=True):
    """The target system for an application's users, and the attributes to send."""

    preset: Annotated[ProvisioningPreset, example("generic")] = ProvisioningPreset.GENERIC
    """The preset of the target system: `generic` for SCIM 2.0, `postern`, `slack` or `aws`."""
    base_url: _BaseUrl
    """The base URL of the target system's SCIM server."""
    token: Annotated[str, msgspec.Meta(max_length=LONGEST_PROVISIONING_TOKEN), SECRET, example("scim_live_a1b2c3d4e5")] | None = None
    """A bearer token of the target system. If omitted, Postern keeps the current token, provided that scheme, host and port are unchanged.
    """
    mapping: _Mapping | None = None
    """The attribute mapping. If omitted, the current mapping stays. A new connection sends email address, given name, family name and name.
    """
    attributes_left_out: _LeftOut = ()
    """Attributes of the mapping that Postern no longer writes, because they are managed in the target system."""
    team_ids: _Teams | None = None
    """The teams whose members are provisioned. Null: everyone who can sign in to the application."""


class PresetRecord(msgspec.Struct, frozen=True, kw_only=True):
    """The preset of a target system, from its public documentation."""

    preset: Annotated[ProvisioningPreset, example("aws")]
    """The name of the preset."""
    base_url: Annotated[str, example("https://api.slack.com/scim/v2")]
    """The pattern of the system's URL; empty if unspecified."""
    required: Annotated[Sequence[str], example(["userName"])]
    """The required attributes."""


class ProvisioningRecord(msgspec.Struct, frozen=True, kw_only=True):
    """The provisioning connection of an application."""

    preset: Annotated[ProvisioningPreset, example("generic")] | None
    """The preset of the target system; null without a connection."""
    base_url: _BaseUrl | None
    """The base URL of the target system's SCIM server."""
    has_token: Annotated[bool, example(True)]
    """Whether a token is stored for this URL. Postern never returns the token."""
    mapping: _Mapping
    """The attribute mapping."""
    attributes_left_out: _LeftOut
    """Attributes of the mapping that Postern does not write."""
    team_ids: _Teams | None
    """The teams whose members are provisioned. Null: everyone who can sign in to the application."""
    state: Annotated[ProvisioningState, example("active")] | None
    """`draft`, `active`, `stopped`, or `ending` while all users are being deprovisioned; null without a connection."""
    stopped_why: Annotated[str, example("failing")] | None
    """Why provisioning is stopped, as a code."""
    failing_since: datetime | None
    """When requests to the target system began to fail; null if the system accepts requests."""
    active_there: Annotated[int, example(180)]
    """The number of users active in the target system."""
    digest: Annotated[str, example(_DIGEST)] | None
    """The digest of these settings. An owner sends the digest back to activate the settings."""
    changed_at: UpdatedAt | None
    """When the settings or the state last changed."""
    presets: Sequence[PresetRecord]
    """The available presets."""


class MemberTherePath(ServicePath, frozen=True):
    user_id: UUID
    """The member's user ID."""


class SentAttribute(msgspec.Struct, frozen=True, kw_only=True):
    """An attribute that would be sent."""

    attribute: _Attribute
    """The SCIM attribute."""
    value: Annotated[Any, example("ada@acme.example")]
    """The current value."""
    source: Annotated[str, example("account")]
    """The source of the value."""


class UnsentAttribute(msgspec.Struct, frozen=True, kw_only=True):
    """An attribute that would not be sent."""

    attribute: _Attribute
    """The SCIM attribute."""
    reason: Annotated[str, example("There is no value")]
    """Why the attribute would not be sent."""


class PreviewThereRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A preview of the attributes that would be sent for a person."""

    user_id: Id
    would_go: Annotated[bool, example(True)]
    """Whether the person would be provisioned."""
    why_not: Annotated[WhyGone, example("not_admitted")] | None
    """Why the person would not be provisioned, as a code."""
    attributes: Sequence[SentAttribute]
    """The attributes that would be sent."""
    missing: Sequence[UnsentAttribute]
    """The attributes of the mapping that would not be sent."""


@endpoint.get(_PROVISIONING, caller=able(Capability.INTEGRATIONS_MANAGE, impersonated=True), tags=_TAGS)
async def get_provisioning(call: Call[None, None, ServicePath, Member], postern: Postern) -> ProvisioningRecord:
    """Get the provisioning connection of an application

    Returns the connection that creates, updates and deactivates the application's users in a SCIM 2.0 system.
    """
    return _shown(*await postern.federation.provisioning.get(call.caller, call.path.service_slug))


@endpoint.put(
    _PROVISIONING,
    caller=_IN_PERSON,
    limit=UNLIMITED,
    refuses=(BadRequest, Conflict),
    verb="provisioning set",
    tags=_TAGS,
)
async def set_provisioning(call: Call[ProvisioningBody, None, ServicePath, Member], postern: Postern) -> ProvisioningRecord:
    """Create or change the draft of a provisioning connection

    Nothing is sent until an owner activates these settings. The first change stops an active connection. A URL with another scheme, host or
    port clears the token, and users provisioned to another URL are no longer known.
    """
    await postern.federation.provisioning.draft(call.caller, call.path.service_slug, _draft(call.body), call.actor)
    return _shown(*await postern.federation.provisioning.get(call.caller, call.path.service_slug))


@endpoint.post(
    f"{_PROVISIONING}/activate",
    caller=OWNER_IN_PERSON,
    limit=UNLIMITED,
    step_up=StepUp.ACCOUNT,
    refuses=(BadRequest, Conflict),
    verb="provisioning activate",
    tags=_TAGS,
)
async def activate_provisioning(call: Call[ConfirmedSettings, None, ServicePath, Member], postern: Postern) -> ProvisioningRecord:
    """Activate the provisioning connection of an application

    Only an owner can do this. Send the `digest` of the settings that you reviewed. If the settings have changed since, the response is 409.
    The first sync run with these settings is a preview, which sends nothing until an owner approves it.
    """
    await postern.federation.provisioning.activate(call.caller, call.path.service_slug, call.actor, seen=call.body.digest)
    return _shown(*await postern.federation.provisioning.get(call.caller, call.path.service_slug))


@endpoint.post(f"{_PROVISIONING}/stop", caller=_IN_PERSON, limit=UNLIMITED, refuses=(Conflict,), verb="provisioning stop", tags=_TAGS)
async def disable_provisioning(call: Call[None, None, ServicePath, Member], postern: Postern) -> ProvisioningRecord:
    """Stop provisioning for an application

    Nothing is sent until an owner activates the connection again. Provisioned users stay unchanged in the target system.
    """
    await postern.federation.provisioning.stop(call.caller, call.path.service_slug, call.actor)
    return _shown(*await postern.federation.provisioning.get(call.caller, call.path.service_slug))


@endpoint.delete(
    _PROVISIONING, status=204, caller=OWNER_IN_PERSON, limit=UNLIMITED, step_up=StepUp.ACCOUNT, verb="provisioning remove", tags=_TAGS
)
async def remove_provisioning(call: Call[None, None, ServicePath, Member], postern: Postern) -> NoBody:
    """Delete the provisioning connection of an application

    Only an owner can do this. Provisioned users stay unchanged in the target system. To deprovision them first, call `…/end` instead.
    """
    await postern.federation.provisioning.delete(call.caller, call.path.service_slug, PeopleLeftThere.LEAVE, call.actor)
    return NO_BODY


@endpoint.post(
    f"{_PROVISIONING}/end",
    caller=OWNER_IN_PERSON,
    limit=UNLIMITED,
    step_up=StepUp.ACCOUNT,
    refuses=(Conflict,),
    verb="provisioning end",
    tags=_TAGS,
)
async def end_provisioning(call: Call[None, None, ServicePath, Member], postern: Postern) -> ProvisioningRecord:
    """Deprovision all users of an application and delete the connection

    Only an owner can do this. An owner must have activated the settings. Postern deletes the connection when all of its users are inactive
    in the target system.
    """
    await postern.federation.provisioning.delete(call.caller, call.path.service_slug, PeopleLeftThere.END, call.actor)
    return _shown(*await postern.federation.provisioning.get(call.caller, call.path.service_slug))


@endpoint.get(f"{_PROVISIONING}/preview/{{user_id}}", caller=_IN_PERSON, verb="provisioning preview", tags=_TAGS)
async def preview_provisioning(call: Call[None, None, MemberTherePath, Member], postern: Postern) -> PreviewThereRecord:
    """Preview the provisioned attributes of a person

    Returns the attributes that would be sent, and why values are missing. The preview uses the same code as a sync run, with the current
    settings. Nothing is sent. For people who are not members of your organization, the response is 404.
    """
    found = await postern.federation.provisioning.preview(call.caller, call.path.service_slug, UserId(call.path.user_id))
    return PreviewThereRecord(
        user_id=found.user,
        would_go=found.why_gone is None,
        why_not=found.why_gone,
        attributes=[
            SentAttribute(attribute=one.name, value=one.value, source=str(one.source)) for one in found.said if isinstance(one, ToldClaim)
        ],
        missing=[UnsentAttribute(attribute=one.name, reason=one.reason) for one in found.said if isinstance(one, WithheldClaim)],
    )


_PRESETS: Final[Sequence[PresetRecord]] = [
    PresetRecord(preset=name, base_url=known.base_url, required=known.dialect.required) for name, known in PRESETS_THERE.items()
]
_NOTHING: Final[Mapping[str, Any]] = dict.fromkeys(
    ("preset", "base_url", "team_ids", "state", "stopped_why", "failing_since", "digest", "changed_at")
)


_mapped = taken(MappedAttributeRow, MappedAttribute)
_draft = taken(
    ProvisioningBody,
    ProvisioningDraft,
    mapping=lambda body: None if body.mapping is None else tuple(map(_mapped, body.mapping)),
    attributes_left_out=lambda body: tuple(body.attributes_left_out),
    teams=lambda body: None if body.team_ids is None else tuple(map(TeamId, body.team_ids)),
    apart=("team_ids",),
)

_shown_attribute = shown(MappedAttribute, MappedAttributeRow, argument=lambda one: None if one.argument is None else str(one.argument))
_shown_connection = shown(
    ProvisioningConnection,
    ProvisioningRecord,
    named={"team_ids": "teams"},
    has_token=lambda connection: connection.token_set_at is not None,
    mapping=lambda connection: list(map(_shown_attribute, connection.mapping)),
    digest=lambda connection: connection.digest.hex(),
    given=("active_there", "presets"),
)


def _shown(connection: ProvisioningConnection | None, active_there: int) -> ProvisioningRecord:
    if connection is None:
        return ProvisioningRecord(has_token=False, mapping=(), attributes_left_out=(), active_there=0, presets=_PRESETS, **_NOTHING)
    return _shown_connection(connection, active_there=active_there, presets=_PRESETS)
