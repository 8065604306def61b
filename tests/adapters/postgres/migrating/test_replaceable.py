"""The views and functions of one file: which stand there, how `migrate` replaces them, and who goes on meanwhile."""

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest
import trio

from adapters.postgres import migrate
from adapters.postgres.driver.connection import Connection
from adapters.postgres.migrate import Migration, MigrationFailed, SchemaMismatch
from adapters.postgres.migrating.schema import NotReplaceable, Replaceable, replaceable_of
from tests.adapters.postgres.test_migrate import TWO, query, silent
from tests.patience import PATIENCE
from tests.places import REPLACEABLE

HERE: Final = "adapters/postgres/schema/replaceable.sql"
EDITIONS: Final = (Path(__file__).parent / "editions.txt").read_text()

# --- What stands in the file.

_STATEMENT: Final = re.compile(r"^create or replace (?P<kind>view|function) (?P<name>\w+)", re.MULTILINE)
_MADE: Final = re.compile(r"^\s*create\s+(?:or\s+replace\s+)?(?P<kind>view|function)\s+(?P<name>\w+)", re.MULTILINE | re.IGNORECASE)

CATALOGUE: Final = """
    select 'function ' || oid::regprocedure as name, pg_get_functiondef(oid) || coalesce(proacl::text, '') || proowner as definition
      from pg_proc
     where pronamespace = 'public'::regnamespace and proname <> 'schema_edition'
     union all
    select 'view ' || oid::regclass, pg_get_viewdef(oid) || coalesce(relacl::text, '') || relowner || (
               select string_agg(attname || ' ' || format_type(atttypid, atttypmod), ', ' order by attnum)
                 from pg_attribute
                where attrelid = pg_class.oid and attnum > 0
           )
      from pg_class
     where relnamespace = 'public'::regnamespace and relkind = 'v'
     order by 1
"""

# What the catalogue knows: an index, a constraint, a default or a trigger that names the function.
BUILT_ON: Final = """
    select distinct proname::text
      from pg_depend
      join pg_proc on pg_proc.oid = refobjid
     where refclassid = 'pg_proc'::regclass and pronamespace = 'public'::regnamespace
       and classid in ('pg_class'::regclass, 'pg_constraint'::regclass, 'pg_attrdef'::regclass, 'pg_trigger'::regclass)
"""
FUNCTIONS: Final = "select proname::text, prosrc from pg_proc where pronamespace = 'public'::regnamespace and proname <> 'schema_edition'"
VIEWS: Final = "select relname::text from pg_class where relnamespace = 'public'::regnamespace and relkind = 'v'"


def in_the_file() -> set[str]:
    return {f"{one['kind']} {one['name']}" for one in _STATEMENT.finditer(REPLACEABLE.read_text())}


async def catalogue(url: str) -> Mapping[str, str]:
    return dict(await query(url, CATALOGUE))  # type: ignore[arg-type]


async def free_parts(url: str) -> set[str]:
    """The views, and the functions that neither the schema is built on nor such a function calls."""
    bodies: dict[str, str] = {}
    for name, body in await query(url, FUNCTIONS):
        bodies[str(name)] = bodies.get(str(name), "") + str(body)
    stays = {str(name) for (name,) in await query(url, BUILT_ON)}
    while called := {name for name in bodies for one in stays if re.search(rf"\b{name}\(", bodies[one])} - stays:
        stays |= called
    return {f"function {name}" for name in bodies.keys() - stays} | {f"view {name}" for (name,) in await query(url, VIEWS)}


async def test_the_file_has_what_nothing_in_the_schema_is_built_on(database_url: str) -> None:
    """A function that an index, a default, a check or a trigger uses stays in the migrations. All else stands in the file."""
    there = await free_parts(database_url)
    assert there - in_the_file() == set(), f"make these in {HERE}, and raise its number; or drop them by a migration"
    assert in_the_file() - there == set(), f"an index, a default, a check or a trigger uses these: take them out of {HERE}"


async def test_what_comes_to_be_used_by_the_schema_is_found(database_url: str) -> None:
    body = "begin return owes_answers(null, null, null); end"
    await query(database_url, f"create function rings() returns trigger language plpgsql as $$ {body} $$")
    await query(database_url, "create trigger rings before insert on teams for each row execute function rings()")
    await query(database_url, "alter table teams add column made uuid default first_id_of(now())")
    assert in_the_file() - await free_parts(database_url) == {"function owes_answers", "function is_to_be_asked", "function first_id_of"}
    await query(database_url, "create view rings as select 1 as one")
    assert await free_parts(database_url) - in_the_file() == {"view rings"}


def test_the_file_only_replaces() -> None:
    """Nothing else could be applied again and again, or would ask for a table."""
    text = re.sub(r"\$\$.*?\$\$", "", re.sub(r"^\s*--.*\n", "", REPLACEABLE.read_text(), flags=re.MULTILINE), flags=re.DOTALL)
    statements = [one.strip() for one in text.split(";") if one.strip()]
    assert [one for one in statements if not _STATEMENT.match(one)] == []
    assert len(statements) == len(_STATEMENT.findall(REPLACEABLE.read_text())) > 30


# --- A change is a change of the file.


def repeated(migrations: Sequence[Migration], parts: set[str]) -> Iterator[str]:
    """A sentence for each migration that makes what the file makes."""
    for migration in migrations:
        for made in _MADE.finditer(migration.sql):
            part = f"{made['kind'].lower()} {made['name']}"
            # What a replacement cannot change, the migration takes away and makes anew, since older processes go on meanwhile.
            gone = re.search(rf"^\s*drop {made['kind']} (?:if exists )?{made['name']}\b", migration.sql[: made.start()], re.MULTILINE)
            if part in parts and gone is None:
                yield f"{migration} makes the {part}, which stands in {HERE}: change it there, raise the number, and leave it out of here"


def test_no_migration_makes_what_the_file_makes() -> None:
    assert list(repeated(migrate.shipped(), in_the_file())) == []


@pytest.mark.parametrize(
    ("statement", "is_refused"),
    [
        ("create or replace function open_audiences(granted jsonb) returns jsonb language sql as $$ select granted $$;", True),
        ("create function exchange_root() returns uuid language sql as $$ select null::uuid $$;", True),
        ("CREATE OR REPLACE VIEW services AS select 1;", True),
        ("create view services as select 1;\ndrop view services;", True),
        ("drop view services;\nalter table all_services drop column jwks;\ncreate view services as select 1;", False),
        ("create or replace function count_members() returns trigger language plpgsql as $$ begin end $$;", False),
        ("drop function if exists open_audiences(jsonb, uuid, uuid);", False),
    ],
)
def test_a_migration_that_repeats_one_is_told_where_it_stands(statement: str, *, is_refused: bool) -> None:
    later = Migration(9999, "later", f"-- additive\n{statement}", 0)
    told = list(repeated((*migrate.shipped(), later), in_the_file()))
    assert bool(told) is is_refused, told
    assert all(one.startswith("9999_later makes the ") for one in told)


class Written(NamedTuple):
    """A line of editions.txt."""

    number: int
    digest: str
    # As the catalogue above names them: with their arguments, whose types may have blanks, as in "timestamp with time zone".
    changed: frozenset[str]


def written(lines: str) -> list[Written]:
    """A number, a digest, and the names, which semicolons part."""
    editions = [line.split(maxsplit=2) for line in lines.splitlines() if not line.startswith("#")]
    return [Written(int(number), digest, frozenset("".join(names).split("; ")) - {""}) for number, digest, *names in editions]


def changed_since(edition: int, lines: str) -> set[str]:
    return {name for one in written(lines) if one.number > edition for name in one.changed}


def test_every_edition_is_written_down() -> None:
    """One number is one form. Two branches that both raise the number meet in this list."""
    ours, editions = migrate.shipped_views_and_functions().edition, written(EDITIONS)
    assert [one.number for one in editions] == list(range(1, len(editions) + 1))
    assert editions[-1][:2] == (ours.number, ours.digest), (
        f"{HERE} has changed: raise the number in its first line, and add a line to {Path(__file__).parent.name}/editions.txt"
    )


async def different(url: str, later: Replaceable) -> set[str]:
    """What differs between a new database and the same one with a later form of the file."""
    await migrate.migrate(url, silent)
    before = await catalogue(url)
    await migrate.migrate(url, silent, replaceable=later)
    after = await catalogue(url)
    return {name for name in before.keys() | after.keys() if before.get(name) != after.get(name)}


async def test_the_migrations_make_none_of_it_and_the_file_makes_all(empty_database_url: str, database_url: str) -> None:
    """A process that ended between the two leaves a database that the next one completes."""
    await migrate.migrate(empty_database_url, silent, migrate.shipped())
    alone = await catalogue(empty_database_url)
    await migrate.migrate(empty_database_url, silent)
    after = await catalogue(empty_database_url)
    assert alone.items() <= after.items()
    assert {name.partition("(")[0] for name in after.keys() - alone.keys()} == in_the_file()
    assert after == await catalogue(database_url)


async def test_a_later_edition_names_what_it_changes_and_makes(empty_database_url: str) -> None:
    """The names have blanks and commas, as the catalogue says them."""
    number, changed = written(EDITIONS)[-1].number + 1, {"function first_id_of(timestamp with time zone)", "view worlds"}
    text = re.sub(r"\A.*", f"-- edition {number}", REPLACEABLE.read_text())
    text = text.replace("greatest(floor(extract(epoch from moment)", "greatest(trunc(extract(epoch from moment)")
    later = replaceable_of(f"{text}create or replace view worlds as select 1 as id;\n")
    line = f"{number} {later.edition.digest} function first_id_of(timestamp with time zone); view worlds"
    assert await different(empty_database_url, later) == changed
    assert changed_since(number - 1, f"{EDITIONS}{line}\n") == changed
    assert written(f"{EDITIONS}{line}\n")[-1] == Written(number, later.edition.digest, frozenset(changed))


# --- How it is replaced.


def edition(number: int, column: str = "", answer: int = 1) -> Replaceable:
    """Of one view and one function on the planets of the other tests."""
    return replaceable_of(
        f"-- edition {number}\n"
        f"create or replace view worlds as select id{column} from planets;\n"
        f"create or replace function worlds_known() returns integer language sql as $$ select {answer} $$;\n"
    )


async def replaced(url: str, replaceable: Replaceable) -> list[str]:
    said: list[str] = []
    await migrate.migrate(url, said.append, TWO, replaceable=replaceable)
    return said


async def answer(url: str) -> Any:
    ((found,),) = await query(url, "select worlds_known()")
    return found


async def test_it_comes_after_the_migrations_and_once(empty_database_url: str) -> None:
    said = await replaced(empty_database_url, edition(1))
    assert [line.partition(" in ")[0] for line in said[-2:]] == [
        "Applying edition 1 of the views and functions …",
        "Applied edition 1 of the views and functions",
    ]
    assert await query(empty_database_url, "select id from worlds") == [(1,)]
    assert await replaced(empty_database_url, edition(1)) == []
    assert await query(empty_database_url, "select number, digest from schema_edition()") == [(1, edition(1).edition.digest)]


async def test_a_higher_edition_replaces_a_lower_one_and_no_lower_one_comes_back(empty_database_url: str) -> None:
    await replaced(empty_database_url, edition(1))
    older, newer = edition(1), edition(2, ", id + 1 as next", 2)
    with pytest.raises(SchemaMismatch) as caught:
        await migrate.require_current(empty_database_url, TWO, newer)
    lacks = "The database lacks what this Postern needs (edition 2 of the views and functions): run `postern migrate`"
    assert str(caught.value) == lacks
    plan = await migrate.plan(empty_database_url, TWO, newer)
    assert (plan.lacking, plan.edition, plan.beyond) == ([newer], older.edition, [])

    await replaced(empty_database_url, newer)
    assert (await answer(empty_database_url), await query(empty_database_url, "select next from worlds")) == (2, [(2,)])
    # A process of the release before starts, has nothing to do there, and undoes nothing.
    assert await replaced(empty_database_url, older) == []
    assert await answer(empty_database_url) == 2
    (ahead,) = await migrate.require_current(empty_database_url, TWO, older)
    assert (str(ahead), ahead.needs) == ("edition 2 of the views and functions", 0)
    # A process of before the file knows of no editions.
    assert await migrate.require_current(empty_database_url, TWO) == []
    assert await migrate.migrate(empty_database_url, silent, TWO) == []
    assert await answer(empty_database_url) == 2


async def test_one_number_in_two_forms_is_refused(empty_database_url: str) -> None:
    await replaced(empty_database_url, edition(2))
    for act in (migrate.plan(empty_database_url, TWO, edition(2, answer=3)), replaced(empty_database_url, edition(2, answer=3))):
        with pytest.raises(SchemaMismatch) as caught:
            await act
        told = "The edition 2 of the views and functions was applied in another form than the one that this Postern carries"
        assert str(caught.value) == told
    assert await answer(empty_database_url) == 1


async def test_of_many_that_migrate_at_once_the_highest_edition_stays(empty_database_url: str) -> None:
    said: list[str] = []
    async with trio.open_nursery() as nursery:
        for number in (1, 2, 3, 1, 2, 3):
            one = partial(migrate.migrate, replaceable=edition(number, answer=number))
            nursery.start_soon(one, empty_database_url, said.append, TWO)
    assert await answer(empty_database_url) == 3
    applied = [line.split()[2] for line in said if line.startswith("Applied edition")]
    assert applied == sorted(set(applied)), "an edition was applied twice, or after a higher one"


async def test_a_view_in_use_is_asked_for_again_and_nobody_waits_behind_it(
    empty_database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(migrate, "LOCK_PAUSE", 0.01)
    monkeypatch.setattr(migrate, "LOCK_TIMEOUT", PATIENCE)
    await replaced(empty_database_url, edition(1))
    said: list[str] = []
    newer = partial(migrate.migrate, replaceable=edition(2, answer=2))
    async with (
        await Connection.connect(empty_database_url, application_name="report") as reader,
        trio.open_nursery() as nursery,
        reader.transaction(),
    ):
        await reader.execute("select * from worlds")
        nursery.start_soon(newer, empty_database_url, said.append, TWO)
        with trio.fail_after(PATIENCE):
            while not any(line.startswith("A table is in use") for line in said):
                assert await query(empty_database_url, "select id from worlds") == [(1,)]
        assert await answer(empty_database_url) == 1
        (report,) = (await migrate.outlook(empty_database_url, (), edition(2))).obstacles
        assert (report.application, report.tables) == ("report", ["worlds"])
    assert re.search(r'by pid \d+ "report" \(idle in transaction, for .+, holds worlds\)', said[1]), said
    assert await answer(empty_database_url) == 2


async def test_a_view_that_stays_in_use_ends_the_attempt_and_keeps_the_edition(
    empty_database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server gives up within the time, whoever comes between the look and the statement."""
    monkeypatch.setattr(migrate, "LOCK_TIMEOUT", 0.01)
    monkeypatch.setattr(migrate, "LOCK_PAUSE", 0.0)
    monkeypatch.setattr(migrate, "LOCK_ATTEMPTS", 2)
    monkeypatch.setattr(migrate, "obstacles", nobody)
    await replaced(empty_database_url, edition(1))
    async with await Connection.connect(empty_database_url) as reader, reader.transaction():
        await reader.execute("select * from worlds")
        with pytest.raises(MigrationFailed, match="could not get a table to itself in 2 attempts; nothing of it was kept"):
            await replaced(empty_database_url, edition(2, answer=2))
    assert await answer(empty_database_url) == 1
    assert await query(empty_database_url, "select number from schema_edition()") == [(1,)]


async def nobody(*_: object) -> Sequence[object]:
    return []


async def test_an_edition_that_fails_leaves_the_one_before(empty_database_url: str) -> None:
    await replaced(empty_database_url, edition(2, ", id + 1 as next"))
    with pytest.raises(MigrationFailed) as caught:
        await replaced(empty_database_url, edition(3, answer=3))
    # A view loses no column by a replacement.
    assert str(caught.value) == "The edition 3 of the views and functions failed and was rolled back: cannot drop columns from view"
    assert await query(empty_database_url, "select number from schema_edition()") == [(2,)]
    assert (await answer(empty_database_url), await query(empty_database_url, "select next from worlds")) == (1, [(2,)])


@pytest.mark.parametrize("first_line", ["", "-- edition", "-- edition 0", "-- edition 01", "-- edition 1, additive", "\n-- edition 1"])
def test_a_file_without_its_number_is_refused(first_line: str, tmp_path: Path) -> None:
    text = f"{first_line}\ncreate or replace view worlds as select 1;\n"
    with pytest.raises(NotReplaceable):
        replaceable_of(text)
    (tmp_path / "replaceable.sql").write_text(text)
    with pytest.raises(SchemaMismatch, match=r"^This Postern is damaged: its views and functions, replaceable\.sql, do not begin with"):
        migrate.shipped_views_and_functions(tmp_path / "replaceable.sql")
