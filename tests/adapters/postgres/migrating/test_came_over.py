"""A database that came over from before 0.2.0 and a new one are the same: their catalogue, and the rows that migrations wrote.

The order of columns, the names of the indexes of the first parts, and the names that PostgreSQL 18 gives to "not null" do not count.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import psycopg
import pytest

from adapters.postgres import migrate
from adapters.postgres.backups.snapshots import DEFINITIONS, OBJECTS, OWNERSHIP, ROUTINES
from adapters.postgres.migrating.schema import STEPPING_STONE
from tests.adapters.postgres.migrating.former import schema_at
from tests.entrypoints.backups.installation import database_beside
from tests.places import MIGRATIONS, REPLACEABLE, ROOT

_OURS: Final = "('public'::regnamespace, 'partitions'::regnamespace)"

CATALOGUE: Final[Mapping[str, str]] = {
    "relations": f"""
        select relnamespace::regnamespace || '.' || relname,
               concat_ws(' ', relkind, relpersistence, reloptions, relacl, relowner, relrowsecurity, relforcerowsecurity, relreplident,
                         relispartition, relhastriggers, relhasrules, reltablespace, relam, pg_get_partkeydef(oid),
                         pg_get_expr(relpartbound, oid),
                         (select toast.reloptions from pg_class as toast where toast.oid = pg_class.reltoastrelid))
          from pg_class
         where relnamespace in {_OURS} and relkind not in ('i', 'I')
    """,
    "columns": f"""
        select relnamespace::regnamespace || '.' || relname || '.' || attname,
               concat_ws(' ', format_type(atttypid, atttypmod), attnotnull, attidentity, attgenerated, attcollation, attstorage,
                         attcompression, attstattarget, attoptions, attacl, pg_get_expr(adbin, adrelid))
          from pg_attribute
          join pg_class on pg_class.oid = attrelid
          left join pg_attrdef on adrelid = attrelid and adnum = attnum
         where relnamespace in {_OURS} and relkind in ('r', 'p', 'v', 'c') and attnum > 0 and not attisdropped
    """,
    "constraints": f"""
        select conrelid::regclass || '.'
                   || case when relispartition or contype = 'n'
                           then concat(contype, pg_get_constraintdef(pg_constraint.oid))
                           else conname
                      end,
               concat_ws(' ', contype, pg_get_constraintdef(pg_constraint.oid), convalidated, condeferrable, condeferred, connoinherit,
                         confupdtype, confdeltype, confmatchtype)
          from pg_constraint
          join pg_class on pg_class.oid = conrelid
         where connamespace in {_OURS}
    """,
    "indexes": f"""
        select indrelid::regclass || '.' || case when whole.relispartition
                                                 then regexp_replace(pg_get_indexdef(indexrelid), 'INDEX [^ ]+ ON', 'ON')
                                                 else pg_class.relname || ' ' || pg_get_indexdef(indexrelid)
                                            end,
               concat_ws(' ', indisunique, indisprimary, indisexclusion, indimmediate, indisclustered, indisvalid, indisready, indislive,
                         pg_class.reloptions, pg_class.relpersistence, pg_class.relkind)
          from pg_index
          join pg_class on pg_class.oid = indexrelid
          join pg_class as whole on whole.oid = indrelid
         where pg_class.relnamespace in {_OURS}
    """,
    "triggers": """
        select tgrelid::regclass || '.' || tgname, pg_get_triggerdef(oid) || tgenabled::text from pg_trigger where not tgisinternal
    """,
    "functions": f"""
        select oid::regprocedure::text,
               pg_get_functiondef(oid) || concat_ws(' ', proacl, proowner, proconfig, procost, prorows, proparallel, provolatile)
          from pg_proc
         where pronamespace in {_OURS} and proname <> 'schema_edition'
    """,
    "types": f"""
        select typnamespace::regnamespace || '.' || typname, concat_ws(' ', typtype, typcategory, typnotnull, typacl, typowner)
          from pg_type
         where typnamespace in {_OURS}
    """,
    "schemas": "select nspname::text, concat_ws(' ', nspowner, nspacl) from pg_namespace where nspname !~ '^pg_(toast_)?temp'",
    "later rights": "select defaclobjtype::text || defaclnamespace, defaclacl::text from pg_default_acl",
    "comments": "select pg_describe_object(classoid, objoid, objsubid), description from pg_description where objoid >= 16384",
    "rules": "select ev_class::regclass || '.' || rulename, pg_get_ruledef(oid) from pg_rewrite where ev_class >= 16384",
    "statistics": "select stxrelid::regclass || '.' || stxname, pg_get_statisticsobjdef(oid) from pg_statistic_ext",
    "parts": "select inhrelid::regclass::text, inhparent::regclass::text from pg_inherits",
    "settings": """
        select setrole::text, setconfig::text
          from pg_db_role_setting
         where setdatabase = (select oid from pg_database where datname = current_database())
    """,
}

# As backups compare, under their names instead of their numbers.
_NAMED: Final = """
    select case left(object, 1) when 'r' then substring(object from 2)::oid::regclass::text
                                when 'f' then substring(object from 2)::oid::regprocedure::text
                                else object
           end
"""
_TABLES: Final = "select oid::regclass::text from pg_class where relnamespace = 'public'::regnamespace and relkind in ('r', 'p')"
_COLUMNS: Final = "select attname from pg_attribute where attrelid = %s::regclass and attnum > 0 and not attisdropped order by attname"


def described(url: str) -> dict[str, dict[str, Any]]:
    with psycopg.connect(url) as connection:
        found: dict[str, dict[str, Any]] = {}
        for kind, statement in CATALOGUE.items():
            found[kind] = {}
            for name, definition in connection.execute(statement.encode()).fetchall():
                # The parts have indexes and constraints that are told by their definition alone, so there may be two.
                found[kind][name] = sorted([*found[kind].get(name, []), definition])
        for kind, statement in (("definitions", DEFINITIONS), ("routines", ROUTINES), ("ownership", OWNERSHIP)):
            rows = connection.execute(f"{_NAMED}, to_jsonb(asked) - 'object' from ({statement}) as asked".encode()).fetchall()
            found[kind] = {f"{name} {rest}": True for name, rest in rows if not name.startswith("schema_edition")}
        found["objects"] = dict.fromkeys((row[0] for row in connection.execute(OBJECTS).fetchall()), True)
        for (table,) in connection.execute(_TABLES.encode()).fetchall():
            if table != "schema_migrations":
                columns = [str(name) for (name,) in connection.execute(_COLUMNS, [table]).fetchall() if name != "created_at"]
                shown = ", ".join(f'"{column}"::text' for column in columns)
                found[f"rows of {table}"] = dict.fromkeys(
                    map(str, connection.execute(f'select {shown} from "{table}"'.encode()).fetchall()), True
                )
        return found


def different(one: Mapping[str, Mapping[str, Any]], other: Mapping[str, Mapping[str, Any]]) -> list[str]:
    return [
        f"{kind}: {name}"
        for kind in sorted(one.keys() | other.keys())
        for name in sorted(one.get(kind, {}).keys() | other.get(kind, {}).keys())
        if one.get(kind, {}).get(name) != other.get(kind, {}).get(name)
    ]


async def test_a_database_that_came_over_is_what_a_new_one_is(empty_database_url: str, tmp_path: Path) -> None:
    tree = schema_at(STEPPING_STONE, tmp_path)
    if tree is None:
        pytest.skip("this clone does not have the stepping stone")
    before = migrate.shipped(tree / MIGRATIONS.relative_to(ROOT))
    of_before = migrate.shipped_views_and_functions(tree / REPLACEABLE.relative_to(ROOT))
    await migrate.migrate(empty_database_url, lambda _line: None, before, replaceable=of_before)
    await migrate.migrate(empty_database_url, lambda _line: None)
    with database_beside(empty_database_url) as new:
        await migrate.migrate(new, lambda _line: None)
        ours = described(new)
        assert different(described(empty_database_url), ours) == []
        for kind in ("relations", "columns", "constraints", "indexes", "triggers", "functions", "definitions", "routines"):
            assert len(ours[kind]) > 40, kind
        assert len(ours["rows of tiers"]) == 2
        with psycopg.connect(new, autocommit=True) as connection:
            connection.execute(
                "alter table users alter language set default 'en'; drop index sessions_of_user; delete from tiers where name = 'free'"
            )
            connection.execute("alter table memberships validate constraint memberships_came_by")
        told = "\n".join(different(ours, described(new)))
        for part in (
            "columns: public.users.language",
            "indexes: sessions.sessions_of_user",
            "rows of tiers",
            "constraints: memberships.memberships_came_by",
        ):
            assert part in told
