"""A database with a schema of before 0.2.0: `migrate` takes the whole second list on, and leads from all others to the stepping stones."""

import json
import subprocess
from collections.abc import Sequence
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

import psycopg
import pytest
import trio

from adapters.postgres import migrate
from adapters.postgres.driver.connection import Connection
from adapters.postgres.migrate import Migration, SchemaMismatch
from adapters.postgres.migrating.schema import EARLIER_STONE, STEPPING_STONE, digest_of_migrations
from adapters.postgres.moving.what_moves import MIGRATIONS
from tests.adapters.postgres.migrating.former import CHANGED, EARLIER, FORMER, make_former, schema_at
from tests.e2e.postern import command
from tests.places import MIGRATIONS as FOLDER
from tests.places import ROOT

# A row of the catalogue keeps the transaction that wrote it last.
_TABLES: Final = """
    select oid, relfilenode, xmin::text, relname::text
      from pg_class
     where relnamespace in ('public'::regnamespace, 'partitions'::regnamespace) and relkind in ('r', 'p', 'i', 'I')
     order by oid
"""
_REMEMBERED: Final = "select number, name, checksum, applied_at, needs, xmin::text from schema_migrations order by number"
_MARK: Final = "select number, digest from schema_edition()"
_PENDING: Final = [*map(str, migrate.shipped()[1:]), str(migrate.shipped_views_and_functions())]


def silent(_line: str) -> None: ...


async def query(url: str, statement: str) -> list[tuple[Any, ...]]:
    async with await Connection.connect(url) as connection:
        return await (await connection.execute(statement.encode())).fetchall()


async def everything(url: str) -> Sequence[Any]:
    return [await query(url, statement) for statement in (_TABLES, _REMEMBERED, _MARK)]


@pytest.mark.parametrize("edition", [1, 11])
async def test_the_whole_schema_of_before_is_taken_on_as_it_is(empty_database_url: str, edition: int) -> None:
    """One of several processes does it. No table changes, and the views and functions are replaced as with any upgrade."""
    await make_former(empty_database_url, FORMER, edition)
    before = await query(empty_database_url, _TABLES)
    with pytest.raises(SchemaMismatch, match=r"whole schema of before 0\.2\.0: run `postern migrate`"):
        await migrate.require_current(empty_database_url)
    said: list[str] = []
    done: list[list[Migration]] = []

    async def one() -> None:
        done.append(await migrate.migrate(empty_database_url, said.append))

    async with trio.open_nursery() as nursery:
        for _ in range(4):
            nursery.start_soon(one)
    assert [line for line in said if line.startswith("Taking")] == ["Taking the schema of before 0.2.0 on as 0001_release_0_2 …"]
    assert [line.split(" in ")[0] for line in said if line.startswith("Applied")] == [f"Applied {one}" for one in _PENDING]
    assert sorted(map(len, done)) == [0, 0, 0, len(migrate.shipped()) - 1]
    assert await migrate.require_current(empty_database_url) == []
    assert await query(empty_database_url, "select name, needs from schema_migrations where number = 1") == [("release_0_2", None)]
    ours = migrate.shipped_views_and_functions().edition
    assert await query(empty_database_url, _MARK) == [(ours.number, ours.digest)]
    after = await query(empty_database_url, _TABLES)
    assert len(migrate.shipped()) > 1 or after == before


async def test_what_fails_on_the_way_leaves_the_list_of_before(empty_database_url: str) -> None:
    await make_former(empty_database_url, FORMER)
    async with await Connection.connect(empty_database_url) as connection:
        await connection.execute("alter table schema_migrations add constraint stays check (name <> 'release_0_2')")
    before = await everything(empty_database_url)
    with pytest.raises(psycopg.errors.CheckViolation):
        await migrate.migrate(empty_database_url, silent)
    assert await everything(empty_database_url) == before


_TO_STONE: Final = f"check out commit {STEPPING_STONE}, run `postern migrate` there, and then here"
_FROM_AFAR: Final = f"check out commit {EARLIER_STONE}, run `postern migrate` there, then at commit {STEPPING_STONE}, and then here"
_OTHER_FORM: Final = "Migration 0001_{} was applied in another form than the 0001_release_0_2 that this Postern carries"

REFUSED: Final = {
    "the first alone": (FORMER[:1], f"The database has a schema of before 0.2.0 (0001_schema): {_TO_STONE}"),
    "most": (FORMER[:-1], f"The database has a schema of before 0.2.0 ({FORMER[-2].split()[0]}): {_TO_STONE}"),
    # The stepping stone says which of them has another form.
    "most, one changed": (CHANGED[:-1], f"The database has a schema of before 0.2.0 ({FORMER[-2].split()[0]}): {_TO_STONE}"),
    "the 83": (EARLIER, f"The database has a schema of before 0.2.0 (0083_purposes_validated): {_TO_STONE}"),
    "the first of the 83": (EARLIER[:1], f"The database has a schema of before 0.2.0 (0001_foundation): {_FROM_AFAR}"),
    "0.1.0": (EARLIER[:45], f"The database has a schema of before 0.2.0 (0045_saml_consents): {_FROM_AFAR}"),
    "the 83, one changed": (
        [*EARLIER[:-1], "0083_purposes_validated x"],
        f"The database has a schema of before 0.2.0 (0083_purposes_validated): {_FROM_AFAR}",
    ),
    "all, one changed": (CHANGED, _OTHER_FORM.format("schema")),
    "all and one more": ([*FORMER, "0099_later x"], _OTHER_FORM.format("schema")),
    "another first": (["0001_schema x", *FORMER[1:-1]], _OTHER_FORM.format("schema")),
    "somebody else's": (["0001_planets x"], _OTHER_FORM.format("planets")),
}


@pytest.mark.parametrize("case", REFUSED)
async def test_every_other_schema_is_refused_in_a_sentence_and_stays_as_it_was(empty_database_url: str, case: str) -> None:
    lines, sentence = REFUSED[case]
    await make_former(empty_database_url, lines)
    before = await everything(empty_database_url)
    for act in (
        migrate.migrate(empty_database_url, silent),
        migrate.require_current(empty_database_url),
        migrate.plan_of_all(empty_database_url),
    ):
        with pytest.raises(SchemaMismatch) as caught:
            await act
        assert str(caught.value) == sentence
    assert await everything(empty_database_url) == before


@pytest.mark.parametrize("commit", [STEPPING_STONE, EARLIER_STONE])
def test_the_stepping_stones_carry_what_their_lists_say(commit: str, tmp_path: Path) -> None:
    """A stone with fewer migrations would lead back to itself, and one with more to nowhere."""
    found = schema_at(commit, tmp_path)
    if found is None:
        pytest.skip("this clone does not have the commit")
    files = sorted((found / FOLDER.relative_to(ROOT)).glob("*.sql"))
    lines = [f"{file.stem} {sha256(file.read_bytes()).hexdigest()}" for file in files]
    assert lines == {STEPPING_STONE: FORMER, EARLIER_STONE: EARLIER}[commit]


async def test_the_database_makes_the_same_digest_of_its_migrations(empty_database_url: str) -> None:
    """Files of moved organizations carry it."""
    for lines in (FORMER, EARLIER[:45]):
        await make_former(empty_database_url, lines)
        assert await query(empty_database_url, f"select {MIGRATIONS}") == [(digest_of_migrations(lines),)]


def plan_said(url: str, folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return command(folder, "migrate", *arguments, POSTERN_DATABASE_URL=url, POSTERN_ENCRYPTION_KEYS=f"k:{'A' * 43}=")


async def test_the_command_takes_it_on_and_says_so(empty_database_url: str, tmp_path: Path) -> None:
    await make_former(empty_database_url, FORMER)
    before = await everything(empty_database_url)
    run = partial(trio.to_thread.run_sync, plan_said, empty_database_url, tmp_path)
    planned = await run("--plan")
    lines = planned.stdout.splitlines()
    taken_on = "taken on 0001_release_0_2  in place of the migrations of before it; changes no table"
    assert (planned.returncode, lines[0]) == (0, taken_on), planned
    assert "This step has no way back: programs of before refuse a database with 0001_release_0_2." in lines[1]
    # The plan of everything, the views and functions last.
    assert [line.split("  ")[1] for line in lines if line.startswith("pending")] == _PENDING
    told = json.loads((await run("--plan", "--json")).stdout)
    assert (told["taken_on"], told["led_to"], told["pending"]) == ("0001_release_0_2", [], _PENDING)
    assert await everything(empty_database_url) == before, "a plan has changed something"
    done = await run()
    said = done.stdout.splitlines()
    assert (done.returncode, said[0]) == (0, "Taking the schema of before 0.2.0 on as 0001_release_0_2 …"), done
    assert [line[8:].split(" in ")[0] for line in said if line.startswith("Applied")] == _PENDING


@pytest.mark.parametrize(
    ("lines", "stones"),
    [(FORMER[:31], [STEPPING_STONE]), (EARLIER, [STEPPING_STONE]), (EARLIER[:45], [EARLIER_STONE, STEPPING_STONE])],
    ids=["second list", "the 83", "0.1.0"],
)
async def test_the_plan_of_an_older_schema_says_where_it_leads(
    empty_database_url: str, tmp_path: Path, lines: Sequence[str], stones: Sequence[str]
) -> None:
    await make_former(empty_database_url, lines)
    newest = lines[-1].split()[0]
    run = partial(trio.to_thread.run_sync, plan_said, empty_database_url, tmp_path)
    planned = await run("--plan")
    assert (planned.returncode, planned.stdout) == (1, f"refused  {newest}  of a schema of before 0.2.0; changes nothing\n")
    assert planned.stderr.startswith(f"postern: The database has a schema of before 0.2.0 ({newest}): check out commit {stones[0]}, run")
    told = await run("--plan", "--json")
    assert told.returncode == 1
    found = json.loads(told.stdout)
    assert (found["led_to"], found["applied"], found["pending"], found["taken_on"]) == (stones, [], [], None)


@pytest.mark.parametrize("document", ["docs/operations/upgrades-and-keys.md", "CHANGELOG.md"])
def test_the_documents_name_the_same_commits(document: str) -> None:
    text = (ROOT / document).read_text()
    assert (STEPPING_STONE in text, EARLIER_STONE in text) == (True, True)
