"""`schema.sql` says what the migrations make."""

from typing import Final

from adapters.postgres import migrate
from adapters.postgres.driver import Connection
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
         where relnamespace = 'public'::regnamespace and relkind = 'r' and attnum > 0 and not attisdropped
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
