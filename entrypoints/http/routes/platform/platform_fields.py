"""The installation's own fields, and what the installation keeps of people by them. Platform owners govern both."""

from collections.abc import Sequence

import msgspec
from msgspec import UNSET, UnsetType

from core.domain.errors import BadRequest, Conflict, NotFound
from core.domain.identifiers import UserId
from core.domain.tenancy.management_keys import PlatformCapability
from core.domain.tenancy.profile_fields import ProfileField
from entrypoints.bootstrap import Postern
from entrypoints.http.machinery.answers import NO_BODY, NoBody
from entrypoints.http.machinery.callers import PLATFORM_OWNER
from entrypoints.http.machinery.calls import Call
from entrypoints.http.machinery.derived import shown
from entrypoints.http.machinery.endpoints import endpoint
from entrypoints.http.machinery.fields import UserUuid, changed
from entrypoints.http.routes.tenancy.profile_fields import (
    FieldKey,
    FieldPatch,
    FieldRecord,
    FieldScope,
    FieldValuesPatch,
    NewField,
    PersonFieldValues,
    bounds_record,
    field_change,
    field_wish,
    kept_record,
)

_TAGS = ("fields",)
_FIELDS = "/api/platform/profile-fields"
_FIELD = "/api/platform/profile-fields/{key}"
_PROFILE = "/api/platform/users/{user_id}/profile"


class PlatformFieldPath(msgspec.Struct, frozen=True):
    key: FieldKey
    """The field's key."""


class PlatformKeptOfPath(msgspec.Struct, frozen=True):
    user_id: UserUuid


class NewPlatformField(NewField, frozen=True, kw_only=True):
    """A profile field of the installation to create. Only people and platform owners can write its values."""

    scope: FieldScope | None = None
    """The scope that discloses the value to applications; null for none."""


class PlatformFieldPatch(FieldPatch, frozen=True, kw_only=True):
    """A change of a profile field of the installation. Omitted fields keep their values."""

    scope: FieldScope | UnsetType | None = UNSET
    """The scope that discloses the value to applications; null for none."""


class PlatformFieldRecord(FieldRecord, frozen=True, kw_only=True):
    """A profile field of the installation."""

    scope: FieldScope | None
    """The scope that discloses the value to applications; null for none."""


_record = shown(ProfileField, PlatformFieldRecord, rule=lambda one: bounds_record(one.rule), written_by=lambda one: sorted(one.written_by))


@endpoint.get(_FIELDS, caller=PLATFORM_OWNER, keys=PlatformCapability.CONFIGURATION_MANAGE, tags=_TAGS)
async def list_platform_fields(_call: Call, postern: Postern) -> Sequence[PlatformFieldRecord]:
    """List the profile fields of the installation

    Return all fields, sorted by position. An installation can have at most 50 fields.
    """
    return [_record(one) for one in await postern.tenancy.profile_fields.list(None)]


@endpoint.post(
    _FIELDS, caller=PLATFORM_OWNER, keys=PlatformCapability.CONFIGURATION_MANAGE, status=201, refuses=(BadRequest, Conflict), tags=_TAGS
)
async def create_platform_field(call: Call[NewPlatformField], postern: Postern) -> PlatformFieldRecord:
    """Create a profile field of the installation

    The field applies to all people of the installation, in any organization.
    """
    body = call.body
    field = await postern.tenancy.profile_fields.create(None, body.key, body.kind, field_wish(body, scope=body.scope), call.actor)
    return _record(field)


@endpoint.patch(_FIELD, caller=PLATFORM_OWNER, keys=PlatformCapability.CONFIGURATION_MANAGE, refuses=(BadRequest, NotFound), tags=_TAGS)
async def change_platform_field(call: Call[PlatformFieldPatch, None, PlatformFieldPath], postern: Postern) -> PlatformFieldRecord:
    """Change a profile field of the installation

    Omitted properties of the field keep their values.
    """
    change = field_change(call.body, scope=changed(call.body.scope))
    field = await postern.tenancy.profile_fields.change(None, call.path.key, change, call.actor)
    return _record(field)


@endpoint.delete(_FIELD, caller=PLATFORM_OWNER, keys=PlatformCapability.CONFIGURATION_MANAGE, status=204, refuses=(NotFound,), tags=_TAGS)
async def delete_platform_field(call: Call[None, None, PlatformFieldPath], postern: Postern) -> NoBody:
    """Delete a profile field of the installation

    All values of the field are deleted, too. This cannot be undone.
    """
    await postern.tenancy.profile_fields.delete(None, call.path.key, call.actor)
    return NO_BODY


@endpoint.get(_PROFILE, caller=PLATFORM_OWNER, keys=PlatformCapability.PEOPLE_VIEW, refuses=(NotFound,), tags=_TAGS)
async def get_platform_person_values(call: Call[None, None, PlatformKeptOfPath], postern: Postern) -> PersonFieldValues:
    """Get a person's profile fields in the installation

    The response does not contain values in fields of organizations.
    """
    return kept_record(await postern.tenancy.profile_values.of_installation(UserId(call.path.user_id)))


@endpoint.patch(_PROFILE, caller=PLATFORM_OWNER, keys=PlatformCapability.PEOPLE_MANAGE, refuses=(BadRequest, NotFound), tags=_TAGS)
async def change_platform_person_values(call: Call[FieldValuesPatch, None, PlatformKeptOfPath], postern: Postern) -> PersonFieldValues:
    """Change a person's profile fields in the installation

    You can write only fields with `administrator` in `written_by`.
    """
    user = UserId(call.path.user_id)
    return kept_record(await postern.tenancy.profile_values.write_in_installation(user, call.body.values, call.actor))
