"""The marks of managed objects in PostgreSQL."""

from collections.abc import Sequence
from typing import Any, Final, LiteralString
from uuid import UUID

from psycopg.types.json import Jsonb

from adapters.postgres.statements import ask, first, tell
from adapters.postgres.storable import storable_text
from adapters.postgres.transaction import OnPool
from core.domain.formats import timestamp
from core.domain.platform.configuration.objects import ManagedMark, ObjectPlace


def _mark(
    *,
    organization: str,
    service: str,
    kind: str,
    name: str,
    named: Sequence[str],
    by_person: str | None,
    by_key: str | None,
    **columns: Any,
) -> ManagedMark:
    place = ObjectPlace(organization, service, kind, name)
    return ManagedMark(place=place, named=tuple(named), by=by_person or by_key or "", **columns)


class PostgresManagedMarks(OnPool):
    """Implements `ports.platform.ManagedMarks`."""

    async def replace(
        self, organization: str, kinds: Sequence[str], marks: Sequence[ManagedMark], person: UUID | None, key: UUID | None
    ) -> None:
        rows = [
            {
                "service": one.place.service,
                "kind": one.place.kind,
                "name": one.place.name,
                "object_id": one.id,
                "document": one.document,
                "named": list(one.named),
                "fields_digest": one.fields,
                "managed_at": timestamp(one.at),
            }
            for one in marks
        ]
        await tell(
            self._pool,
            _REPLACE if organization else _REPLACE_OF_INSTALLATION,
            {"organization": storable_text(organization), "kinds": list(kinds), "marks": Jsonb(rows), "person": person, "key": key},
        )

    async def find(self, organization: str, service: str, kind: str, id: str) -> ManagedMark | None:  # noqa: A002 - the noun's own word
        parameters = {
            "organization": storable_text(organization),
            "service": storable_text(service),
            "kind": kind,
            "id": storable_text(id),
        }
        return first(await ask(self._pool, _mark, _FIND if organization else _FIND_OF_INSTALLATION, parameters))

    async def list(self, organization: str) -> Sequence[ManagedMark]:
        statement = _LIST if organization else _LIST_OF_INSTALLATION
        return await ask(self._pool, _mark, statement, {"organization": storable_text(organization)})


_COLUMNS: Final = """
    managed.service, managed.kind, managed.name, managed.object_id as id, managed.document, managed.named,
           managed.fields_digest as fields, managed.managed_at as at, users.email as by_person, management_keys.name as by_key
"""
_ITS_MAKER: Final = """
      left join users on users.id = managed.managed_by
      left join management_keys on management_keys.id = managed.managed_by_key
"""
_OF_ORGANIZATION: Final[LiteralString] = f"""
    select organizations.slug as organization, {_COLUMNS}
      from organizations
      join managed_objects as managed on managed.org_id = organizations.id
      {_ITS_MAKER}
     where organizations.slug = %(organization)s
"""
_OF_INSTALLATION: Final[LiteralString] = f"""
    select '' as organization, {_COLUMNS}
      from managed_objects as managed
      {_ITS_MAKER}
     where managed.org_id is null
"""
_ONE: Final = "and managed.service = %(service)s and managed.kind = %(kind)s and managed.object_id = %(id)s"
_ORDER: Final = "order by managed.service, managed.kind, managed.name"
_FIND: Final[LiteralString] = f"{_OF_ORGANIZATION} {_ONE}"
_FIND_OF_INSTALLATION: Final[LiteralString] = f"{_OF_INSTALLATION} {_ONE}"
_LIST: Final[LiteralString] = f"{_OF_ORGANIZATION} {_ORDER}"
_LIST_OF_INSTALLATION: Final[LiteralString] = f"{_OF_INSTALLATION} {_ORDER}"

# Two documents at once: the row of the organization lets the second wait for the first, so that the marks are those of one of them.
_HELD: Final = "held as materialized (select id from organizations where slug = %(organization)s for no key update)"
_VALUES: Final = """
    service, kind, name, object_id, document, named, fields_digest, managed_at, %(person)s::uuid, %(key)s::uuid
"""
_SENT: Final = """
    jsonb_to_recordset(%(marks)s) as sent (
        service text, kind text, name text, object_id text, document text, named text[], fields_digest text, managed_at timestamptz
    )
"""
_SAVED: Final = """
       set object_id = excluded.object_id, document = excluded.document, named = excluded.named, fields_digest = excluded.fields_digest,
           managed_at = excluded.managed_at, managed_by = excluded.managed_by, managed_by_key = excluded.managed_by_key
"""
_INTO: Final = """
    managed_objects (org_id, service, kind, name, object_id, document, named, fields_digest, managed_at, managed_by, managed_by_key)
"""
_REPLACE: Final[LiteralString] = f"""
    with {_HELD},
         gone as (
             delete from managed_objects
              using held
              where managed_objects.org_id = held.id and managed_objects.kind = any(%(kinds)s)
                and (managed_objects.service, managed_objects.kind, managed_objects.name) not in (select service, kind, name from {_SENT})
         )
    insert into {_INTO}
    select held.id, {_VALUES}
      from held
     cross join {_SENT}
        on conflict (org_id, service, kind, name) where org_id is not null do update
       {_SAVED}
"""
_REPLACE_OF_INSTALLATION: Final[LiteralString] = f"""
    with gone as (
             delete from managed_objects
              where org_id is null and kind = any(%(kinds)s) and (service, kind, name) not in (select service, kind, name from {_SENT})
         )
    insert into {_INTO}
    select null, {_VALUES}
      from {_SENT}
        on conflict (service, kind, name) where org_id is null do update
       {_SAVED}
"""
