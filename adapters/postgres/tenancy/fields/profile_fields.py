"""Declared fields in PostgreSQL."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, Final, LiteralString

from psycopg.types.json import Jsonb

from adapters.postgres.columns import Columns
from adapters.postgres.locks import INSTALLATION_FIELDS, NAMESPACE
from adapters.postgres.rows import IdRow
from adapters.postgres.storable import storable
from adapters.postgres.transaction import OnStatements
from core.domain.identifiers import OrganizationId, ProfileFieldId
from core.domain.tenancy.profile_fields import FieldKind, FieldRule, FieldShape, FieldWriter, ProfileField, read_rule


def shape_of(stored: Mapping[str, Any]) -> FieldShape:
    """From the JSON of the columns of the same names."""
    return FieldShape(key=stored["key"], kind=FieldKind(stored["kind"]), rule=read_rule(stored["rule"]))


def _stated(rule: FieldRule) -> Jsonb:
    return Jsonb(storable(rule.stated))


def _writers(words: Iterable[str]) -> frozenset[FieldWriter]:
    return frozenset(map(FieldWriter, words))


FIELD: Final = Columns(
    ProfileField,
    "profile_fields",
    named={"organization": "org_id"},
    texts=("label",),
    turned={"rule": (read_rule, _stated), "written_by": (_writers, sorted)},
)


class ProfileFieldRows(OnStatements):
    """Implements `ports.tenancy.organizations.ProfileFieldStore`."""

    async def list(self, organization: OrganizationId | None) -> Sequence[ProfileField]:
        statement = _LIST_OF_INSTALLATION if organization is None else _LIST_OF_ORGANIZATION
        return await self._statements.ask(FIELD.row, statement, {"organization": organization})

    async def hold_all(self, organization: OrganizationId | None) -> Sequence[ProfileField]:
        if organization is None:
            await self._statements.tell(_HOLD_INSTALLATION, {"namespace": NAMESPACE, "lock": INSTALLATION_FIELDS})
        return await self.list(organization)

    async def add(self, field: ProfileField) -> bool:
        return bool(await self._statements.ask(IdRow, _ADD, FIELD.values(field)))

    async def save(self, field: ProfileField) -> None:
        await self._statements.tell(_SAVE, FIELD.values(field))

    async def delete(self, field: ProfileFieldId, at: datetime) -> None:
        await self._statements.tell(_DELETE, {"id": field, "at": at})


# Statements name `is null` or `= …`, because no index finds `is not distinct from`.
_LIST_OF_ORGANIZATION: Final[LiteralString] = f"""
    select {FIELD.names} from profile_fields where org_id = %(organization)s order by position, key
"""
_LIST_OF_INSTALLATION: Final[LiteralString] = f"""
    select {FIELD.names} from profile_fields where org_id is null order by position, key
"""

_HOLD_INSTALLATION: Final = "select pg_advisory_xact_lock(%(namespace)s, %(lock)s)"

# A field of a deleted organization is deleted with it, by its foreign key.
_ADD: Final[LiteralString] = f"""
    insert into all_profile_fields ({FIELD.into()})
    values ({FIELD.inserted()})
        on conflict do nothing
 returning id
"""

_SAVE: Final[LiteralString] = f"""
    update all_profile_fields set {FIELD.changes("id", "organization", "key", "kind", "created_at")} where id = %(id)s
"""

# Waits for everybody who writes values of this field, so that the job finds them.
_DELETE: Final = "update all_profile_fields set deleted_at = %(at)s where id = %(id)s"
