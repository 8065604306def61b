"""`schema.sql` says what the migrations make."""

from typing import Final

from adapters.postgres import migrate
from adapters.postgres.driver.connection import Connection
from tests.places import ROOT

SCHEMA: Final = ROOT / "adapters" / "postgres" / "schema.sql"

# Everything about the tables except the order of their columns: a migration appends, and the schema tells columns where they make sense.
CATALOGUES: Final = {
    "tables": """
        select relname, relkind, relpersistence, reloptions
          from pg_class
         where relnamespace = 'public'::regnamespace and relkind <> 'c'
    """,
    "columns": """
        select relname, attname, format_type(atttypid, atttypmod), attnotnull, attidentity, attgenerated, attcollation::regcollation,
               pg_get_expr(adbin, adrelid)
          from pg_attribute
          join pg_class on pg_class.oid = attrelid
          left join pg_attrdef on adrelid = attrelid and adnum = attnum
         where relnamespace = 'public'::regnamespace and relkind in ('r', 'p') and attnum > 0 and not attisdropped
    """,
    "constraints": """
        select conrelid::regclass::text, conname, contype, convalidated, pg_get_constraintdef(oid)
          from pg_constraint
         where connamespace = 'public'::regnamespace
           and contype <> 'n'    -- said of the columns above; with their table's first name since PostgreSQL 18, and nowhere before
    """,
    "indexes": """
        select indrelid::regclass::text, pg_get_indexdef(indexrelid), indisvalid
          from pg_index
          join pg_class on pg_class.oid = indexrelid
         where relnamespace = 'public'::regnamespace
    """,
    "views": "select viewname, definition from pg_views where schemaname = 'public'",
    "triggers": "select tgrelid::regclass::text, pg_get_triggerdef(oid) from pg_trigger where not tgisinternal",
    "functions": "select proname, pg_get_functiondef(oid) from pg_proc where pronamespace = 'public'::regnamespace and prokind <> 'a'",
    "types": "select typname, typtype from pg_type where typnamespace = 'public'::regnamespace and typtype <> 'c' and typelem = 0",
    "extensions": "select extname from pg_extension",
}


async def catalogue(url: str) -> dict[str, list[tuple[object, ...]]]:
    async with await Connection.connect(url) as connection:
        found = {}
        for name, statement in CATALOGUES.items():
            rows = await (await connection.execute(statement.encode())).fetchall()
            found[name] = sorted(rows, key=repr)
        return found


async def test_the_readable_schema_is_what_the_migrations_make(database_url: str, empty_database_url: str) -> None:
    await migrate.require_current(database_url)
    async with await Connection.connect(empty_database_url) as connection:
        await connection.execute(SCHEMA.read_bytes())
    migrated, readable = await catalogue(database_url), await catalogue(empty_database_url)
    assert len(migrated["tables"]) > 10
    for name in CATALOGUES:
        assert readable[name] == migrated[name]


# Foreign keys without an index that begins with their columns. Deleting the rows that they refer to reads the whole table each time.
_UNINDEXED: Final = """
    select keys.conname, keys.conrelid::regclass::text || ' (' || pg_get_constraintdef(keys.oid) || ')'
      from pg_constraint as keys
     where keys.connamespace = 'public'::regnamespace
       and keys.contype = 'f'
       and not exists (
               select
                 from pg_index
                where pg_index.indrelid = keys.conrelid
                  and pg_index.indisvalid
                  and (pg_index.indkey::smallint[])[0:cardinality(keys.conkey) - 1] @> keys.conkey
                  -- Of a part of the rows, it must be the part that points somewhere.
                  and (pg_index.indpred is null or pg_get_expr(pg_index.indpred, pg_index.indrelid) = (
                          select format('(%I IS NOT NULL)', attname)
                            from pg_attribute
                           where attrelid = keys.conrelid and attnum = keys.conkey[1] and cardinality(keys.conkey) = 1
                      ))
           )
"""

_NEED_NO_INDEX: Final = {
    "all_organizations_tier_id_fkey": "Tiers come with migrations. None is ever deleted, and their ids do not change.",
}


async def _unindexed(connection: Connection) -> dict[str, str]:
    return dict[str, str](await (await connection.execute(_UNINDEXED.encode())).fetchall())


async def test_every_reference_to_a_deleted_row_is_found_by_an_index(database_url: str) -> None:
    async with await Connection.connect(database_url) as connection:
        found = await _unindexed(connection)
        assert found.keys() == _NEED_NO_INDEX.keys(), found
        # An index that begins with something else, or holds other rows, is of no use.
        await connection.execute(b"drop index preauthentications_of_device, devices_of_person")
        await connection.execute(b"create index on preauthentications (device_id) where consumed_at is null")
        await connection.execute(b"create index on devices (last_used_at, user_id)")
        found = await _unindexed(connection)
        assert found.keys() - _NEED_NO_INDEX.keys() == {"preauthentications_device_id_fkey", "devices_user_id_fkey"}
