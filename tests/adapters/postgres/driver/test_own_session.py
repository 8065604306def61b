"""Connections behind a pooler: PgBouncer in each of its modes."""

from pathlib import Path

import pytest
import trio
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from adapters.postgres import migrate
from adapters.postgres.driver import hosts
from adapters.postgres.driver.connection import Connection
from adapters.postgres.driver.hosts import SharedSession
from adapters.postgres.driver.pool import Pool
from tests.adapters.postgres.driver.pgbouncer import PROGRAM, PgBouncer
from tests.adapters.postgres.questions import one

pytestmark = pytest.mark.skipif(not Path(PROGRAM).exists(), reason="PgBouncer is not installed")


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a busy machine, the second connection may wait long for its turn."""
    monkeypatch.setattr(hosts, "OWN_SESSION_PATIENCE", 60.0)


async def test_without_a_pooler_one_question_shows_the_session(database_url: str) -> None:
    async with await Connection.connect(database_url) as connection:
        assert connection.backend == connection.info.backend_pid == await one(connection, "select pg_backend_pid()")
        assert connection.round_trips == 1


async def test_sessions_of_its_own_are_taken_from_a_pooler(database_url: str) -> None:
    async with PgBouncer(database_url, mode="session") as pooler, await Connection.connect(pooler.url) as connection:
        assert connection.backend == await one(connection, "select pg_backend_pid()")
        assert connection.backend != connection.info.backend_pid


async def test_a_pooler_with_one_session_is_not_mistaken_for_one_that_shares(database_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hosts, "OWN_SESSION_PATIENCE", 0.5)
    async with PgBouncer(database_url, mode="session", size=1) as pooler, await Connection.connect(pooler.url) as connection:
        assert await one(connection, "select 1") == 1


@pytest.mark.parametrize("mode", ["transaction", "statement"])
async def test_a_pooler_that_shares_sessions_is_refused_in_one_sentence(database_url: str, mode: str) -> None:
    async with PgBouncer(database_url, mode=mode) as pooler:
        for _ in range(5):
            with pytest.raises(SharedSession, match="pool_mode = session"):
                await Connection.connect(pooler.url)


async def test_a_busy_pooler_that_shares_sessions_is_refused_too(database_url: str) -> None:
    async with PgBouncer(database_url, mode="transaction", size=3) as pooler, trio.open_nursery() as nursery:

        async def be_busy() -> None:
            # Past the check, as another program would.
            connection = await Connection._reach(pooler.url, conninfo_to_dict(pooler.url), None)
            async with connection:
                while True:
                    async with connection.transaction():
                        await connection.execute("select 1", prepare=False)

        for _ in range(4):
            nursery.start_soon(be_busy)
        for _ in range(5):
            with pytest.raises(SharedSession):
                await Connection.connect(pooler.url)
        nursery.cancel_scope.cancel()


async def test_a_pooler_that_shares_sessions_from_now_on_carries_no_statement(database_url: str) -> None:
    async with PgBouncer(database_url, mode="session") as pooler:
        pool = Pool(pooler.url)
        async with pool.connection() as connection:
            assert await one(connection, "select 7") == 7
        pooler.switch("transaction")
        await pooler.restart()
        for _ in range(3):
            with pytest.raises(SharedSession):
                async with pool.connection():
                    raise AssertionError("no statement may follow")
        pooler.switch("session")
        await pooler.restart()
        async with pool.connection() as connection:
            assert await one(connection, "select 8") == 8
        await pool.aclose()


_PATH = "select current_setting('search_path')"


async def test_names_are_looked_up_in_public_and_nowhere_before(database_url: str) -> None:
    """A schema with the role's name, and what an operator has set for the role, do not come before our tables."""
    async with await Connection.connect(database_url) as connection:
        role = await one(connection, "select current_user")
        await connection.execute(f'create schema "{role}"'.encode())
        await connection.execute(f'create table "{role}".schema_migrations (version bigint)'.encode())
    other = make_conninfo(database_url, options=f'-c search_path="{role}"')
    for url in (database_url, other):
        async with await Connection.connect(url) as connection:
            assert (await one(connection, _PATH), connection.round_trips) == ("public, pg_temp", 1)
            assert await migrate.require_current(url) == []
            # A temporary table does not come before ours, either.
            await connection.execute("create temporary table schema_migrations (version bigint)")
            assert await one(connection, "select count(*) from schema_migrations") >= 1


async def test_names_are_looked_up_in_public_through_a_pooler(database_url: str) -> None:
    async with PgBouncer(database_url, mode="session") as pooler:
        for _ in range(3):
            async with await Connection.connect(pooler.url) as connection:
                assert await one(connection, _PATH) == "public, pg_temp"
