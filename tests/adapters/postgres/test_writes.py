"""Writes that fail anywhere are noticed everywhere, and so is their return."""

import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

import psycopg
import pytest
import trio

from adapters.postgres import database
from adapters.postgres.database import Writes
from adapters.postgres.driver.connection import Connection
from adapters.postgres.driver.pool import Pool
from adapters.postgres.embedded import EmbeddedPostgres
from adapters.postgres.migrate import migrate
from adapters.postgres.statements import ask, tell
from core.domain.errors import OutcomeUnknown, Unavailable
from core.domain.jobs import NewJob
from tests.adapters.postgres.conftest import Store, make_store
from tests.conftest import CapturedLog
from tests.patience import PATIENCE
from tests.places import open_directory

DISK: Final = "140m"  # PostgreSQL's files, and little more


@pytest.fixture(autouse=True)
def _hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(database, "WRITE_PAUSE", 0.01)


@pytest.fixture
async def watched(fresh_store: Store) -> tuple[Writes, Store]:
    found = Writes(fresh_store.pool)
    assert await found.failure() is None
    return found, fresh_store


async def read_only(store: Store, answer: str) -> None:
    async with await Connection.connect(store.url) as connection:
        await connection.execute("set default_transaction_read_only = off")
        (name,) = await (await connection.execute("select current_database()")).fetchone() or ("",)
        await connection.execute(f"alter database {name} set default_transaction_read_only = {answer}".encode())
    shown: object = None
    with trio.fail_after(PATIENCE):
        while shown != (answer,):
            with suppress(psycopg.OperationalError):
                await store.kill_backends()
            # On a new connection: one that stands already keeps the default that it began with.
            with suppress(psycopg.OperationalError):
                async with await Connection.connect(store.url) as connection:
                    shown = await (await connection.execute("show default_transaction_read_only")).fetchone()


async def work(store: Store) -> None:
    async with store.unit_of_work() as uow:
        await uow.jobs.add(NewJob("work", {}))
        await uow.commit()


async def test_a_server_that_turned_read_only_is_found_out_by_a_write_and_found_well_again(
    watched: tuple[Writes, Store], log: CapturedLog
) -> None:
    found, store = watched
    await read_only(store, "on")
    # Nobody has written yet, and reading goes on.
    assert await found.failure() is None
    with pytest.raises(Unavailable):
        await tell(store.pool, "delete from users")
    assert await found.failure() == "read only"
    await trio.sleep(0.02)
    assert await found.failure() == "read only"
    await read_only(store, "off")
    await until(found, None)
    await work(store)
    assert [entry["reason"] for entry in log.events("writes_fail")] == ["read only"]
    assert len(log.events("writes_succeed_again")) == 1


async def test_a_unit_of_work_that_fails_at_its_commit_is_heard_of(watched: tuple[Writes, Store]) -> None:
    found, store = watched
    await read_only(store, "on")
    with pytest.raises(Unavailable):
        await work(store)
    assert await found.failure() == "read only"


async def test_one_failure_that_is_over_does_not_count(watched: tuple[Writes, Store]) -> None:
    """A query whose shared memory found no room says "disk full" too."""
    found, store = watched
    with pytest.raises(Unavailable):
        await tell(store.pool, "do $$ begin raise exception 'no room' using errcode = '53100'; end $$")
    assert await found.failure() is None


async def test_an_outage_says_nothing_of_writes(watched: tuple[Writes, Store]) -> None:
    found, store = watched
    found._suspected = True
    await store.pool.aclose()
    assert await found.failure() is None


async def test_a_process_that_starts_where_writes_fail_knows_it_at_once(fresh_store: Store) -> None:
    await read_only(fresh_store, "on")
    assert await Writes(fresh_store.pool).failure() == "read only"


@pytest.fixture
def small_disk() -> Iterator[Path]:
    with open_directory() as directory:
        mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={DISK}", "tmpfs", str(directory)], capture_output=True, check=False)
        if mounted.returncode:
            pytest.skip("this machine does not let us mount a small disk")
        yield directory
        subprocess.run(["umount", "--lazy", str(directory)], check=True)


async def test_a_full_disk_is_found_out_and_found_well_again(small_disk: Path) -> None:
    with EmbeddedPostgres(small_disk / "data", settings={"max_wal_size": "32MB", "min_wal_size": "32MB"}) as server:
        await migrate(server.url("postgres"), lambda _line: None)
        pool = Pool(server.url("postgres"))
        store = make_store(server.url("postgres"), pool)
        await work(store)
        found = Writes(pool)
        assert await found.failure() is None
        ballast = small_disk / "ballast"
        fill(ballast)
        with pytest.raises(Unavailable):
            # More than the pages that there are have room for.
            await tell(pool, "insert into rate_limit_buckets select 'x', n::text, 1, now(), 1, now() from generate_series(1, 50000) as n")
        assert await found.failure() == "disk full"
        # Reading goes on.
        assert len(await ask(pool, _One, "select 1 as one")) == 1
        ballast.unlink()
        await until(found, None)
        await work(store)
        await pool.aclose()


class _One:
    def __init__(self, *, one: int) -> None:
        self.one = one


def fill(file: Path) -> None:
    with suppress(OSError), file.open("wb", buffering=0) as ballast:
        while ballast.write(b"x" * 4096):
            pass


async def until(found: Writes, reason: str | None) -> None:
    with trio.fail_after(PATIENCE):
        while await found.failure() != reason:
            await trio.sleep(0.02)


async def test_commits_that_no_standby_confirms_may_have_happened_and_are_found_out(log: CapturedLog) -> None:
    with open_directory() as directory, EmbeddedPostgres(directory, settings={"fsync": "off"}) as server:
        url = server.url("postgres")
        await migrate(url, lambda _line: None)
        pool = Pool(url)
        found, store = Writes(pool), make_store(url, pool)
        assert await found.failure() is None
        await standbys(url, "'nobody'")
        with pytest.raises(OutcomeUnknown):
            await work(store)
        assert await store.count("jobs") == 1
        await until(found, database.UNCONFIRMED_WRITES)
        await standbys(url, "''")
        await until(found, None)
        await work(store)
        await pool.aclose()
    assert len(log.events("writes_fail")) == len(log.events("writes_succeed_again")) == 1


async def standbys(url: str, names: str) -> None:
    async with await Connection.connect(url) as connection:
        await connection.execute(f"alter system set synchronous_standby_names = {names}".encode())
        await connection.execute("select pg_reload_conf()")
        shown: object = None
        with trio.fail_after(PATIENCE):
            while shown != (names.strip("'"),):
                await trio.sleep(0.02)
                shown = await (await connection.execute("show synchronous_standby_names")).fetchone()
