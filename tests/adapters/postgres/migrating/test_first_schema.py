"""A database with the schema of before the first one: `migrate` takes it on when it is whole, and leads to the stepping stone otherwise."""

import json
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

import pytest
import trio

from adapters.postgres import migrate
from adapters.postgres.driver.connection import Connection
from adapters.postgres.migrate import Migration, SchemaMismatch
from adapters.postgres.migrating.schema import STEPPING_STONE
from tests.e2e.postern import command


def silent(_line: str) -> None: ...


async def query(url: str, statement: str) -> list[tuple[Any, ...]]:
    async with await Connection.connect(url) as connection:
        return await (await connection.execute(statement.encode())).fetchall()


FORMER: Final = (Path(__file__).parent / "former_migrations.txt").read_text().splitlines()


async def remember_former(url: str, lines: Sequence[str]) -> None:
    """Writes down that the migrations of before the first schema were applied."""
    async with await Connection.connect(url) as connection:
        await connection.execute("delete from schema_migrations")
        for line in lines:
            name, checksum = line.split()
            values = (int(name[:4]), name[5:], checksum)
            await connection.execute("insert into schema_migrations (number, name, checksum, needs) values (%s, %s, %s, 0)", values)


async def test_the_whole_schema_of_before_is_taken_on_as_it_is(empty_database_url: str) -> None:
    await migrate.migrate(empty_database_url, silent, migrate.shipped()[:1])
    await remember_former(empty_database_url, FORMER)
    with pytest.raises(SchemaMismatch, match="whole schema of before the first one: run `postern migrate`"):
        await migrate.require_current(empty_database_url)
    said: list[str] = []
    done: list[list[Migration]] = []

    async def one() -> None:
        done.append(await migrate.migrate(empty_database_url, said.append))

    async with trio.open_nursery() as nursery:
        for _ in range(4):
            nursery.start_soon(one)
    assert [line for line in said if line.startswith("Taking")] == ["Taking the schema of before on as 0001_schema …"]
    assert done == [list(migrate.shipped()[1:])] + [[]] * 3 or done == [[]] * 4
    assert await migrate.require_current(empty_database_url) == []
    rows = await query(empty_database_url, "select number, name, needs from schema_migrations order by number limit 1")
    assert rows == [(1, "schema", None)]


@pytest.mark.parametrize("lines", [FORMER[:1], FORMER[:-1], [*FORMER[:-1], "0083_purposes_validated x"]], ids=["first", "most", "changed"])
async def test_an_older_schema_of_before_is_led_to_the_stepping_stone(empty_database_url: str, lines: Sequence[str]) -> None:
    await migrate.migrate(empty_database_url, silent, migrate.shipped()[:1])
    await remember_former(empty_database_url, lines)
    sentence = (
        rf"of before the first one \({lines[-1].split()[0]}\): check out commit {STEPPING_STONE}, run `postern migrate` there, and then"
    )
    for act in (migrate.migrate(empty_database_url, silent), migrate.require_current(empty_database_url)):
        with pytest.raises(SchemaMismatch, match=sentence):
            await act
    assert len(await query(empty_database_url, "select number from schema_migrations")) == len(lines)


async def test_the_command_takes_it_on_and_says_so(empty_database_url: str, tmp_path: Path) -> None:
    await migrate.migrate(empty_database_url, silent, migrate.shipped()[:1])
    await remember_former(empty_database_url, FORMER)
    settings = {"POSTERN_DATABASE_URL": empty_database_url, "POSTERN_ENCRYPTION_KEYS": f"k:{'A' * 43}="}
    planned = await trio.to_thread.run_sync(partial(command, tmp_path, "migrate", "--plan", **settings))
    lines = planned.stdout.splitlines()
    assert (planned.returncode, lines[0]) == (0, "taken on 0001_schema  in place of the migrations of before it; changes no table"), planned
    assert "This step has no way back: programs of before refuse a database with 0001_schema." in lines[1]
    # The plan of everything, the views and functions last.
    everything = [*(str(one) for one in migrate.shipped()[1:]), str(migrate.shipped_views_and_functions())]
    assert [line.split("  ")[1] for line in lines if line.startswith("pending")] == everything
    told = await trio.to_thread.run_sync(partial(command, tmp_path, "migrate", "--plan", "--json", **settings))
    assert json.loads(told.stdout)["taken_on"] == "0001_schema"
    assert len(await query(empty_database_url, "select number from schema_migrations")) == len(FORMER), "a plan has changed something"
    done = await trio.to_thread.run_sync(partial(command, tmp_path, "migrate", **settings))
    said = done.stdout.splitlines()
    assert (done.returncode, said[0]) == (0, "Taking the schema of before on as 0001_schema …"), done
    assert [line[8:].split(" in ")[0] for line in said if line.startswith("Applied")] == everything
