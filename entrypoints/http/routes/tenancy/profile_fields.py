"""Profile fields that an organization declares, and their values."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Annotated, Any, TypeVar

import msgspec
from msgspec import UNSET, UnsetType

from core.domain.errors import BadRequest, Conflict, NotFound
from core.domain.identifiers import UserId
from core.domain.tenancy.members import Member
from core.domain.tenancy.profile_fields import (
    FIELD_SCOPES,
    LAST_POSITION,
    LONGEST_LABEL,
    FieldKind,
    FieldPrompt,
    FieldRule,
    FieldWriter,
    KeptValues,
    ProfileField,
)
from core.domain.tenancy.profile_values import KeptBy
from core.domain.tenancy.roles import Capability
from core.usecases.tenancy.profile_fields import FieldWish
from entrypoints.bootstrap import Postern
from entrypoints.http.machinery.answers import NO_BODY, NoBody
from entrypoints.http.machinery.callers import MEMBER, MEMBER_IN_PERSON, OWN_USER, able
from entrypoints.http.machinery.calls import Call
from entrypoints.http.machinery.derived import shown, taken, turned
from entrypoints.http.machinery.endpoints import endpoint
from entrypoints.http.machinery.fields import CreatedAt, Id, Line, OrganizationPath, Slug, UpdatedAt, UserUuid, Word, bounded, example
from entrypoints.http.machinery.limits import UNLIMITED

Value = TypeVar("Value")

_TAGS = ("fields",)
_FIELDS = "/api/organizations/{org_slug}/profile-fields"
# Values outlive an impersonation, and so do the rights that applications draw from them.
_MANAGERS = able(Capability.SETTINGS_MANAGE, impersonated=False)
_FIELD = "/api/organizations/{org_slug}/profile-fields/{key}"

FieldKey = Annotated[Word, msgspec.Meta(extra_json_schema={"pattern": "^[a-z][a-z0-9_]{0,49}$"}), example("department")]
FieldLabel = Annotated[str, bounded({"minLength": 1, "maxLength": LONGEST_LABEL}), example("Department")]
FieldPosition = Annotated[int, msgspec.Meta(extra_json_schema={"minimum": 0, "maximum": LAST_POSITION}), example(3)]
FieldScope = Annotated[Word, msgspec.Meta(extra_json_schema={"enum": list(FIELD_SCOPES)}), example("profile")]


class FieldPath(OrganizationPath, frozen=True):
    key: FieldKey
    """The field's key."""


class FieldBounds(msgspec.Struct, frozen=True, kw_only=True):
    """The constraints on the values of a field. Each type of field has its own constraints; all others are rejected."""

    min_length: Annotated[int, example(2)] | None = None
    """For `text`: the minimum number of characters."""
    max_length: Annotated[int, example(80)] | None = None
    """For `text`, and for the entries of a `list`: the maximum number of characters."""
    minimum: Annotated[float | int, example(0)] | None = None
    """For `number`: the lowest value."""
    maximum: Annotated[float | int, example(100)] | None = None
    """For `number`: the highest value."""
    earliest: Annotated[Word, example("2020-01-01")] | None = None
    """For `date`: the earliest date."""
    latest: Annotated[Word, example("2030-12-31")] | None = None
    """For `date`: the latest date."""
    choices: Annotated[Sequence[Line], example(["Sales", "Support"])] = ()
    """For `choice`, where it is required, and for the entries of a `list`: up to 100 allowed values of up to 100 characters."""
    max_items: Annotated[int, example(5)] | None = None
    """For `list`: the maximum number of entries."""

    def rule(self) -> FieldRule:
        return FieldRule(**{**msgspec.structs.asdict(self), "choices": tuple(self.choices)})


class NewField(msgspec.Struct, frozen=True, kw_only=True):
    """A profile field to create."""

    key: FieldKey
    """1 to 50 characters: a-z, 0-9 and _, starting with a letter. The key never changes."""
    label: FieldLabel
    """The label that people see: 1 to 100 characters."""
    kind: FieldKind
    """The type of the values. The type never changes."""
    rule: FieldBounds = FieldBounds()
    """The constraints on the values."""
    written_by: Annotated[Sequence[FieldWriter], example(["administrator", "directory"])] = (FieldWriter.ADMINISTRATOR,)
    """Who can write values."""
    required: bool = False
    """Whether people must enter a value when a page asks for it. Requires `asked_at`."""
    asked_at: FieldPrompt | None = None
    """When a sign-in page asks for the value. `registration`: only people whose account is newer than the field. `sign_in`: everyone. The
    page asks once; for a required field, until it has a value. Requires `person` in `written_by`.
    """
    position: FieldPosition | None = None
    """The position in lists and forms, from 0 to 999. If omitted, the field comes last."""


class FieldPatch(msgspec.Struct, frozen=True, kw_only=True):
    """A change of a field. Omitted fields keep their values."""

    label: FieldLabel | UnsetType = UNSET
    """The label that people see: 1 to 100 characters."""
    rule: FieldBounds | UnsetType = UNSET
    """All constraints on the values, which replace the previous ones. Values that no longer meet them stay until they are next written."""
    written_by: Annotated[Sequence[FieldWriter], example(["administrator", "directory"])] | UnsetType = UNSET
    """Who can write values. The list replaces the previous one."""
    required: bool | UnsetType = UNSET
    """Whether people must enter a value when a page asks for it."""
    asked_at: FieldPrompt | UnsetType | None = UNSET
    """When a sign-in page asks for the value; null for never."""
    position: FieldPosition | UnsetType = UNSET
    """The position in lists and forms, from 0 to 999."""


class FieldRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A profile field."""

    id: Id
    key: FieldKey
    """The key, which never changes."""
    label: Annotated[str, example("Department")]
    """The label that people see."""
    kind: FieldKind
    """The type of the values."""
    rule: FieldBounds
    """The constraints on the values."""
    rule_is_lost: bool
    """Whether the stored constraints cannot be read. Until a change sends a `rule`, no one is asked for the field or sees its values."""
    written_by: Annotated[Sequence[FieldWriter], example(["administrator", "directory"])]
    """Who can write values."""
    required: bool
    """Whether people must enter a value when a page asks for it."""
    asked_at: FieldPrompt | None
    """When a sign-in page asks for the value; null for never."""
    position: FieldPosition
    """The position in lists and forms."""
    created_at: CreatedAt
    updated_at: UpdatedAt


field_wish = taken(
    NewField,
    FieldWish,
    apart=("key", "kind"),
    given=("scope",),
    rule=lambda body: body.rule.rule(),
    written_by=lambda body: frozenset(body.written_by),
)
field_change = taken(
    FieldPatch,
    FieldWish,
    given=("scope",),
    rule=lambda body: turned(body.rule, FieldBounds.rule),
    written_by=lambda body: turned(body.written_by, frozenset),
)
bounds_record = shown(FieldRule, FieldBounds)
field_record = shown(ProfileField, FieldRecord, rule=lambda one: bounds_record(one.rule), written_by=lambda one: sorted(one.written_by))


@endpoint.get(_FIELDS, caller=MEMBER, keys=True, tags=_TAGS)
async def list_fields(call: Call[None, None, OrganizationPath, Member], postern: Postern) -> Sequence[FieldRecord]:
    """List the profile fields of an organization

    Return all fields, sorted by position. An organization can have at most 50 fields.
    """
    return [field_record(field) for field in await postern.tenancy.profile_fields.list(call.caller)]


@endpoint.post(_FIELDS, caller=_MANAGERS, keys=True, limit=UNLIMITED, status=201, refuses=(BadRequest, Conflict), tags=_TAGS)
async def create_field(call: Call[NewField, None, OrganizationPath, Member], postern: Postern) -> FieldRecord:
    """Create a profile field

    Only the organization and its own applications can see the values, and each person sees their own. Other organizations and their
    applications cannot see them.
    """
    body = call.body
    return field_record(await postern.tenancy.profile_fields.create(call.caller, body.key, body.kind, field_wish(body), call.actor))


@endpoint.patch(_FIELD, caller=_MANAGERS, keys=True, limit=UNLIMITED, refuses=(BadRequest,), tags=_TAGS)
async def change_field(call: Call[FieldPatch, None, FieldPath, Member], postern: Postern) -> FieldRecord:
    """Change a profile field

    If a claim of an application uses the field, you need the permission to manage services to extend `written_by`.
    """
    return field_record(await postern.tenancy.profile_fields.change(call.caller, call.path.key, field_change(call.body), call.actor))


@endpoint.delete(_FIELD, caller=_MANAGERS, keys=True, limit=UNLIMITED, status=204, tags=_TAGS)
async def delete_field(call: Call[None, None, FieldPath, Member], postern: Postern) -> NoBody:
    """Delete a profile field

    All values of the field are deleted, too. A new field with the same key starts without values.
    """
    await postern.tenancy.profile_fields.delete(call.caller, call.path.key, call.actor)
    return NO_BODY


_PROFILE = "/api/organizations/{org_slug}/users/{user_id}/profile"
_OWN = "/api/user/profile"

Values = Annotated[Mapping[Word, Any], example({"department": "Sales", "started_on": "2026-03-01"})]


MetadataObject = Annotated[Mapping[Word, Any], example({"crm_id": "4711"})]


class KeptOfPath(OrganizationPath, frozen=True):
    user_id: UserUuid


class FieldValuesPatch(msgspec.Struct, frozen=True):
    """Values to write. Omitted keys keep their values."""

    values: Values
    """The values, by the key of the field; null removes a value."""


class PersonFieldValues(msgspec.Struct, frozen=True):
    """The values of a person's profile fields."""

    values: Values
    """The values that are set, by the key of the field."""
    updated_at: datetime | None
    """When a value was last written; null if never."""


class OwnValuesQuery(msgspec.Struct, frozen=True):
    """The organization to ask about."""

    organization: Annotated[Slug, example("acme")] | None = None
    """Return only the fields of this organization and of the installation."""


class OwnFieldValuesPatch(msgspec.Struct, frozen=True):
    """Values to write. Omitted keys keep their values."""

    values: Values
    """The values, by the key of the field; null removes a value."""
    organization: Annotated[Slug, example("acme")] | None = None
    """The organization that stores the values. If omitted, the installation stores them."""


class OwnFieldValues(msgspec.Struct, frozen=True, kw_only=True):
    """The values of your profile fields in an organization, or in the installation."""

    organization: Annotated[str, example("acme")] | None
    """The slug of the organization; null for the installation."""
    name: Annotated[str, example("Acme Ltd")] | None
    """The name of the organization; null for the installation."""
    fields: Sequence[FieldRecord]
    """All fields of the organization or of the installation."""
    values: Values
    """The values that are set, by the key of the field."""
    writable: Annotated[Sequence[str], example(["department"])]
    """The keys of the fields that you can write."""
    updated_at: datetime | None
    """When a value was last written; null if never."""


class OwnFieldValuesList(msgspec.Struct, frozen=True):
    """The values of your profile fields."""

    profiles: Sequence[OwnFieldValues]
    """The installation, if it has fields; then your organizations that have fields, sorted by slug, at most 100."""


@endpoint.get(_PROFILE, caller=MEMBER, keys=True, tags=_TAGS)
async def get_person_values(call: Call[None, None, KeptOfPath, Member], postern: Postern) -> PersonFieldValues:
    """Get a person's profile fields in an organization

    For members, and for people whom the directory lists, you need `org.members.manage`. For people who only use the organization's
    services, you need `end_users.manage`.
    """
    return kept_record(await postern.tenancy.profile_values.of_tied(call.caller, UserId(call.path.user_id)))


@endpoint.patch(_PROFILE, caller=MEMBER_IN_PERSON, keys=True, limit=UNLIMITED, refuses=(BadRequest,), tags=_TAGS)
async def change_person_values(call: Call[FieldValuesPatch, None, KeptOfPath, Member], postern: Postern) -> PersonFieldValues:
    """Change a person's profile fields in an organization

    You can write only fields with `administrator` in `written_by`. You cannot write the values of a member who has permissions that you do
    not have. While impersonating, you cannot write values at all, because an application can derive permissions from them.
    """
    user = UserId(call.path.user_id)
    return kept_record(await postern.tenancy.profile_values.write_of_tied(call.caller, user, call.body.values, call.actor))


@endpoint.get(_OWN, caller=OWN_USER, tags=_TAGS)
async def get_own_values(call: Call[None, OwnValuesQuery], postern: Postern) -> OwnFieldValuesList:
    """Get your own profile fields

    Return the fields of the installation and of at most 100 organizations. To get only one organization and the installation, send
    `organization`.
    """
    kept = await postern.tenancy.profile_values.of_person(call.caller, call.query.organization)
    return OwnFieldValuesList([_own(one) for one in kept])


@endpoint.patch(_OWN, caller=OWN_USER, refuses=(BadRequest, NotFound), tags=_TAGS)
async def change_own_values(call: Call[OwnFieldValuesPatch], postern: Postern) -> OwnFieldValues:
    """Change your own profile fields

    You can write only fields with `person` in `written_by`.
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
