"""Health and readiness keep exactly the promises made to probes."""

from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import Final

import psycopg
import pytest
import trio

from adapters.postgres.database import PostgresDatabase
from adapters.postgres.driver.connection import Connection
from core.frozen import replace
from entrypoints.bootstrap import Postern
from entrypoints.http.application import build_application
from tests.adapters.shifted_clock import ShiftedClock
from tests.http.client import Client, Received
from tests.http.conftest import NOWHERE, SETTINGS, postern_on
from tests.patience import PATIENCE


async def test_health_says_that_the_process_is_up_and_which_version(lonely_client: Client, lonely_postern: Postern) -> None:
    answer = await lonely_client.get("/health")
    assert (answer.status, answer.json()) == (200, {"status": "healthy", "version": lonely_postern.foundation.version})


async def test_live_answers_without_a_body(lonely_client: Client) -> None:
    answer = await lonely_client.get("/health/live")
    assert (answer.status, answer.body, answer.header("content-length")) == (200, b"", "0")


async def test_ready_with_its_database_and_not_without_it(client: Client, postern: Postern, tmp_path: Path) -> None:
    answer = await client.get("/health/ready")
    assert answer.status == 200
    assert answer.json() == {"status": "ready", "version": postern.foundation.version, "database": "connected"}
    async with postern_on(NOWHERE, tmp_path) as lonely:
        # The same process, as the probe sees it when the database goes away, and when the database comes back.
        away = Client(
            build_application(replace(postern, foundation=replace(postern.foundation, database=lonely.foundation.database)), SETTINGS)
        )
        answer = await away.get("/health/ready")
        assert answer.status == 503
        assert answer.json() == {"status": "unhealthy", "version": postern.foundation.version, "database": "disconnected"}
    assert (await client.get("/health/ready")).status == 200


async def test_not_ready_while_writes_fail_and_ready_again_by_itself(client: Client, postern: Postern, database_url: str) -> None:
    """Reads still work then: a standby, like a server with a full disk, answers every trivial query."""

    async def turn(change: str) -> None:
        async with await Connection.connect(database_url, options="-c default_transaction_read_only=off") as connection:
            await connection.execute(f"alter database {connection.info.dbname} {change}".encode())
            await connection.execute(_END_THE_OTHERS)

    async def until(status: int, has: str) -> Received:
        with trio.fail_after(PATIENCE):
            while (answer := await client.get("/health/ready")).status != status or has not in answer.json():
                # A write that the server refuses.
                await client.post("/api/auth/login", {"email": "ada@example.com", "password": "wrong password"})
                await trio.sleep(0.05)
        return answer

    await until(200, "database")
    await turn("set default_transaction_read_only = on")
    try:
        failing = await until(503, "reason")
    finally:
        await turn("reset default_transaction_read_only")
    assert failing.json() == {
        "status": "unhealthy",
        "version": postern.foundation.version,
        "database": "connected",
        "reason": "writes fail: read only",
    }
    ready = await until(200, "database")
    assert ready.json() == {"status": "ready", "version": postern.foundation.version, "database": "connected"}


@pytest.mark.parametrize(
    ("ahead", "words"),
    [
        (timedelta(days=60), "clocks differ: the process is 5184000 s ahead of the database"),
        (timedelta(days=-60), "clocks differ: the process is 5184000 s behind the database"),
    ],
)
async def test_not_ready_while_the_clocks_differ_and_ready_again_by_itself(postern: Postern, ahead: timedelta, words: str) -> None:
    """The other processes would refuse the tokens of this one, and it theirs."""
    clock = ShiftedClock(ahead)
    database = PostgresDatabase(postern.foundation.pool, clock)
    probed = Client(build_application(replace(postern, foundation=replace(postern.foundation, database=database)), SETTINGS))
    answer = await probed.get("/health/ready")
    version = postern.foundation.version
    assert answer.status == 503
    assert answer.json() == {"status": "unhealthy", "version": version, "database": "connected", "reason": words}
    clock.ahead = timedelta(seconds=25)
    answer = await probed.get("/health/ready")
    assert (answer.status, answer.json()) == (200, {"status": "ready", "version": version, "database": "connected"})


@pytest.mark.parametrize("when", ["from the start", "later"])
async def test_not_ready_while_statements_are_cut_off_and_ready_again_by_itself(postern: Postern, database_url: str, when: str) -> None:
    """A trivial query is quick enough for any time-out, and hardly anything else is."""
    database = PostgresDatabase(postern.foundation.pool, postern.foundation.clock)
    probed = Client(build_application(replace(postern, foundation=replace(postern.foundation, database=database)), SETTINGS))

    async def turn(change: str) -> None:
        async with await Connection.connect(database_url, options="-c statement_timeout=0") as connection:
            await connection.execute(f"alter database {connection.info.dbname} {change}".encode())
            await connection.execute(_END_THE_OTHERS)

    async def until(status: int) -> Received:
        with trio.fail_after(PATIENCE):
            while (answer := await probed.get("/health/ready")).status != status or answer.json()["database"] != "connected":
                # Some request whose statements last longer than the trivial query's.
                with suppress(psycopg.Error):
                    async with postern.foundation.pool.connection() as connection:
                        await connection.execute("select pg_sleep(0.02)")
                await trio.sleep(0.05)
        return answer

    if when == "later":
        await until(200)
    await turn("set statement_timeout = '5ms'")
    try:
        failing = await until(503)
    finally:
        await turn("reset statement_timeout")
    assert failing.json()["reason"] == "writes fail: statement timeout"
    ready = await until(200)
    assert ready.json() == {"status": "ready", "version": postern.foundation.version, "database": "connected"}


_END_THE_OTHERS: Final = (
    "select pg_terminate_backend(pid) from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()"
)
