"""Values of fields: of the people of an organization, for its administrators, and of the person themself."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Annotated, Any

import msgspec

from core.domain.errors import BadRequest, NotFound
from core.domain.identifiers import UserId
from core.domain.tenancy.members import Member
from core.domain.tenancy.profile_fields import FieldWriter, KeptValues
from core.domain.tenancy.profile_values import KeptBy
from entrypoints.bootstrap import Postern
from entrypoints.http.machinery.callers import MEMBER, MEMBER_IN_PERSON, OWN_USER
from entrypoints.http.machinery.calls import Call
from entrypoints.http.machinery.derived import shown
from entrypoints.http.machinery.endpoints import endpoint
from entrypoints.http.machinery.fields import OrganizationPath, Slug, UserUuid, example
from entrypoints.http.machinery.limits import UNLIMITED
from entrypoints.http.routes.tenancy.profile_fields import FieldRecord, field_record

_TAGS = ("fields",)
_PROFILE = "/api/organizations/{org_slug}/users/{user_id}/profile"
_OWN = "/api/user/profile"

Values = Annotated[Mapping[str, Any], example({"department": "Sales", "started_on": "2026-03-01"})]


MetadataObject = Annotated[Mapping[str, Any], example({"crm_id": "4711"})]


class KeptOfPath(OrganizationPath, frozen=True):
    user_id: UserUuid


class FieldValuesPatch(msgspec.Struct, frozen=True):
    """Values to write. Keys that you leave out stay as they are."""

    values: Values
    """The values, by the keys of their fields; null removes a value."""


class PersonFieldValues(msgspec.Struct, frozen=True):
    """What is kept of the person by fields."""

    values: Values
    """The values that are set, by the keys of their fields."""
    updated_at: datetime | None
    """When a value was last written; null if none was."""


class OwnValuesQuery(msgspec.Struct, frozen=True):
    """The organization to ask about."""

    organization: Annotated[Slug, example("acme")] | None = None
    """Only this organization, and the installation."""


class OwnFieldValuesPatch(msgspec.Struct, frozen=True):
    """Values to write. Keys that you leave out stay as they are."""

    values: Values
    """The values, by the keys of their fields; null removes a value."""
    organization: Annotated[Slug, example("acme")] | None = None
    """The organization that keeps the values. Without it, the installation keeps them."""


class OwnFieldValues(msgspec.Struct, frozen=True, kw_only=True):
    """What one organization, or the installation, keeps of you by fields."""

    organization: Annotated[str, example("acme")] | None
    """The slug of the organization; null for the installation."""
    name: Annotated[str, example("Acme Ltd")] | None
    """The name of the organization; null for the installation."""
    fields: Sequence[FieldRecord]
    """All of its fields."""
    values: Values
    """The values that are set, by the keys of their fields."""
    writable: Annotated[Sequence[str], example(["department"])]
    """The keys of the fields that you may write."""
    updated_at: datetime | None
    """When a value was last written; null if none was."""


class OwnFieldValuesList(msgspec.Struct, frozen=True):
    """What is kept of you by fields."""

    profiles: Sequence[OwnFieldValues]
    """What the installation keeps, if it has fields; then your organizations that have fields, by slug, a hundred at most."""


@endpoint.get(_PROFILE, caller=MEMBER, keys=True, tags=_TAGS)
async def get_person_values(call: Call[None, None, KeptOfPath, Member], postern: Postern) -> PersonFieldValues:
    """Get what the organization keeps of a person by its fields

    Of a member, or of somebody whom the directory knows, for those with `org.members.manage`; of people who only use the organization's
    services, for those with `end_users.manage`.
    """
    return kept_record(await postern.tenancy.profile_values.of_tied(call.caller, UserId(call.path.user_id)))


@endpoint.patch(_PROFILE, caller=MEMBER_IN_PERSON, keys=True, limit=UNLIMITED, refuses=(BadRequest,), tags=_TAGS)
async def change_person_values(call: Call[FieldValuesPatch, None, KeptOfPath, Member], postern: Postern) -> PersonFieldValues:
    """Write values of a person

    Only fields with `administrator` in `written_by`. You cannot write those of a member with permissions that you do not have, and nothing
    while impersonating: an application may draw rights from values.
    """
    user = UserId(call.path.user_id)
    return kept_record(await postern.tenancy.profile_values.write_of_tied(call.caller, user, call.body.values, call.actor))


@endpoint.get(_OWN, caller=OWN_USER, tags=_TAGS)
async def get_own_values(call: Call[None, OwnValuesQuery], postern: Postern) -> OwnFieldValuesList:
    """Get what the installation and your organizations keep of you by fields

    At most a hundred organizations are in the answer. `organization` asks for one of them, and the installation.
    """
    kept = await postern.tenancy.profile_values.of_person(call.caller, call.query.organization)
    return OwnFieldValuesList([_own(one) for one in kept])


@endpoint.patch(_OWN, caller=OWN_USER, refuses=(BadRequest, NotFound), tags=_TAGS)
async def change_own_values(call: Call[OwnFieldValuesPatch], postern: Postern) -> OwnFieldValues:
    """Write values of your own

    Only fields with `person` in `written_by`.
    """
    body = call.body
    return _own(await postern.tenancy.profile_values.write_own(call.caller, body.organization, body.values, call.actor))


def kept_record(kept: KeptValues) -> PersonFieldValues:
    return PersonFieldValues(kept.by_key, kept.updated_at)


_own = shown(
    KeptBy,
    OwnFieldValues,
    within=("kept",),
    named={"values": "kept.by_key"},
    organization=lambda one: one.slug or None,
    name=lambda one: one.name or None,
    fields=lambda one: [field_record(field) for field in one.kept.fields],
    writable=lambda one: [field.key for field in one.kept.written_by(FieldWriter.PERSON)],
)
