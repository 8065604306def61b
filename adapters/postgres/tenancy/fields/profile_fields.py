"""Declared fields in PostgreSQL."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final, LiteralString
from uuid import UUID

from psycopg.types.json import Jsonb

from adapters.postgres.locks import INSTALLATION_FIELDS, NAMESPACE
from adapters.postgres.rows import IdRow
from adapters.postgres.statements import Statements
from adapters.postgres.storable import storable, storable_text
from adapters.postgres.transaction import Transaction
from core.domain.identifiers import OrganizationId, ProfileFieldId
from core.domain.tenancy.profile_fields import AskedAt, FieldKind, FieldRule, FieldWriter, ProfileField
from core.frozen import Frozen


class FieldRow(Frozen, kw_only=True):
    """The columns of `FIELD`."""

    id: UUID
    field_of: UUID | None
    key: str
    label: str
    kind: str
    rule: Mapping[str, Any]
    written_by: list[str]
    scope: str | None
    required: bool
    asked_at: str | None
    position: int
    created_at: datetime
    updated_at: datetime

    def field(self) -> ProfileField:
        return ProfileField(
            id=ProfileFieldId(self.id),
            organization=None if self.field_of is None else OrganizationId(self.field_of),
            key=self.key,
            label=self.label,
            kind=FieldKind(self.kind),
            rule=FieldRule(**{**self.rule, "choices": tuple(self.rule.get("choices", ()))}),
            written_by=frozenset(FieldWriter(one) for one in self.written_by),
            scope=self.scope,
            required=self.required,
            asked_at=None if self.asked_at is None else AskedAt(self.asked_at),
            position=self.position,
            created_at=self.created_at,
            updated_at=self.updated_at,
        )


class ProfileFieldRows:
    """Implements `ports.tenancy.profile_fields.ProfileFieldStore`."""

    def __init__(self, statements: Statements | Transaction) -> None:
        self._statements = statements

    async def list(self, organization: OrganizationId | None) -> Sequence[ProfileField]:
        statement = _LIST_OF_INSTALLATION if organization is None else _LIST_OF_ORGANIZATION
        return [row.field() for row in await self._statements.ask(FieldRow, statement, {"organization": organization})]

    async def hold_all(self, organization: OrganizationId | None) -> Sequence[ProfileField]:
        if organization is None:
            await self._statements.tell(_HOLD_INSTALLATION, {"namespace": NAMESPACE, "lock": INSTALLATION_FIELDS})
        return await self.list(organization)

    async def add(self, field: ProfileField) -> bool:
        parameters = {
            "organization": field.organization,
            "key": field.key,
            "kind": field.kind.value,
            "created_at": field.created_at,
            **_columns(field),
        }
        return bool(await self._statements.ask(IdRow, _ADD, parameters))

    async def save(self, field: ProfileField) -> None:
        await self._statements.tell(_SAVE, _columns(field))

    async def delete(self, field: ProfileFieldId, at: datetime) -> None:
        await self._statements.tell(_DELETE, {"id": field, "at": at})


def _columns(field: ProfileField) -> Mapping[str, Any]:
    """The id, and every column that may change."""
    return {
        "id": field.id,
        "label": storable_text(field.label),
        "rule": Jsonb(storable(field.rule.stated)),
        "written_by": sorted(field.written_by),
        "scope": field.scope,
        "required": field.required,
        "asked_at": None if field.asked_at is None else field.asked_at.value,
        "position": field.position,
        "updated_at": field.updated_at,
    }


def field_columns(fields: LiteralString) -> LiteralString:
    """The columns of `FieldRow`, for a statement that reads `profile_fields` under this name."""
    return f"""{fields}.id, {fields}.org_id as field_of, {fields}.key, {fields}.label, {fields}.kind, {fields}.rule, {fields}.written_by,
           {fields}.scope, {fields}.required, {fields}.asked_at, {fields}.position, {fields}.created_at, {fields}.updated_at"""


# Statements name `is null` or `= …`, because no index finds `is not distinct from`.
_LIST_OF_ORGANIZATION: Final[LiteralString] = f"""
    select {field_columns("profile_fields")} from profile_fields where org_id = %(organization)s order by position, key
"""
_LIST_OF_INSTALLATION: Final[LiteralString] = f"""
    select {field_columns("profile_fields")} from profile_fields where org_id is null order by position, key
"""

_HOLD_INSTALLATION: Final = "select pg_advisory_xact_lock(%(namespace)s, %(lock)s)"

# A field of a deleted organization is deleted with it, by its foreign key.
_ADD: Final = """
    insert into all_profile_fields (id, org_id, key, label, kind, rule, written_by, scope, required, asked_at, position, created_at,
                                    updated_at)
    values (%(id)s, %(organization)s, %(key)s, %(label)s, %(kind)s, %(rule)s, %(written_by)s, %(scope)s, %(required)s, %(asked_at)s,
            %(position)s, %(created_at)s, %(updated_at)s)
        on conflict do nothing
 returning id
"""

_SAVE: Final = """
    update all_profile_fields
       set label = %(label)s, rule = %(rule)s, written_by = %(written_by)s, scope = %(scope)s, required = %(required)s,
           asked_at = %(asked_at)s, position = %(position)s, updated_at = %(updated_at)s
     where id = %(id)s
"""

# Waits for everybody who writes values of this field, so that the job finds them.
_DELETE: Final = "update all_profile_fields set deleted_at = %(at)s where id = %(id)s"
