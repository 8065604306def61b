"""The store on a database of the test's own."""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Any

import pytest
import trio
from psycopg.rows import dict_row

from adapters.crypto.key_ring import AesGcmKeyRing, EncryptionKey
from adapters.postgres.driver.pool import Pool
from adapters.postgres.jobs import PostgresDoorbell
from adapters.postgres.unit_of_work import unit_of_work
from adapters.system import SystemClock, SystemIds, SystemSecrets
from core.domain.identifiers import SessionId, UserId
from core.domain.identity.accounts import Account
from core.domain.identity.sessions import Session
from core.domain.mail import Email
from ports.system import System
from ports.unit_of_work import UnitOfWorkFactory
from tests.kept_connections import connection_beside
from tests.patience import PATIENCE

Rows = list[dict[str, Any]]

_numbers = count(1)


@dataclass(frozen=True)
class Store:
    """The store under test, and direct access to its tables."""

    url: str
    pool: Pool
    ids: SystemIds
    clock: SystemClock
    keyring: AesGcmKeyRing
    doorbell: PostgresDoorbell
    unit_of_work: UnitOfWorkFactory

    @property
    def system(self) -> System:
        return System(self.clock, self.ids, SystemSecrets())

    async def query(self, statement: str, parameters: dict[str, Any] | None = None) -> Rows:
        """Runs a query on a connection outside the pool, so that the pool's state and counters do not change."""
        async with connection_beside(self.url) as connection:
            cursor = connection.cursor(row_factory=dict_row)
            await cursor.execute(statement.encode(), parameters)
            return await cursor.fetchall() if cursor.description else []

    async def count(self, table: str) -> int:
        (row,) = await self.query(f"select count(*) as n from {table}")
        number: int = row["n"]
        return number

    async def witness(self) -> None:
        """Something that was written yesterday, so that the clock is believed also in a database of old rows."""
        await self.query("insert into storage_samples select (now() at time zone 'UTC')::date - 1, 'users', 1 on conflict do nothing")

    async def waiting(self) -> int:
        """How many statements wait for a lock that another transaction holds."""
        (found,) = await self.query(
            "select count(*) as n from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'"
        )
        return int(found["n"])

    async def somebody_waits(self) -> None:
        """Waits until a statement waits for a lock."""
        with trio.fail_after(PATIENCE):
            while not await self.waiting():
                await trio.sleep(0.01)

    async def settle(self, *tables: str) -> None:
        """So that the planner knows what is in these tables, and that all of it can be seen: for tests of plans. An autovacuum that looks
        at another table keeps what was written meanwhile from counting as seen by all; then it is done once more. The database has to be
        the test's own, since the planner also reckons with what earlier tests have left.
        """
        with trio.fail_after(PATIENCE):
            while True:
                # Without that, a page with a few dead rows stays as it is for ever: their clearing away is put off.
                await self.query(f"vacuum (analyze, index_cleanup on) {', '.join(tables)}")
                # A table in parts has no pages of its own.
                unseen = await self.query(
                    """
                    select relname
                      from pg_class
                      join (select one as oid from unnest(%(tables)s::regclass[]) as one
                            union
                            select relid from unnest(%(tables)s::regclass[]) as one, pg_partition_tree(one)) as parts using (oid)
                     where relallvisible < relpages
                    """,
                    {"tables": list(tables)},
                )
                if not unseen:
                    return
                await trio.sleep(0.1)

    async def kill_backends(self, application: str = "postern") -> None:
        """End the server's side of every connection of the pool, and wait until it has ended."""
        await self.query(
            "select pg_terminate_backend(pid, 60000) from pg_stat_activity"
            " where datname = current_database() and application_name = %(name)s",
            {"name": application},
        )

    def account(self, address: str = "ada@example.org", *, owner: bool = False) -> Account:
        return Account(
            id=UserId(self.ids.new()),
            email=Email(address),
            is_platform_owner=owner,
            email_verified_at=None,
            deactivated_at=None,
            created_at=datetime.now(UTC),
        )

    def session(self, account: Account, lifetime: timedelta = timedelta(hours=1)) -> Session:
        now = datetime.now(UTC)
        end = now + lifetime
        return Session(SessionId(self.ids.new()), account.id, created_at=now, last_seen_at=now, expires_at=end, ends_at=end)

    async def sign_up(self, address: str = "ada@example.org", lifetime: timedelta = timedelta(hours=1)) -> tuple[Account, Session]:
        account = self.account(address)
        session = self.session(account, lifetime)
        async with self.unit_of_work() as uow:
            assert await uow.accounts.add(account, None)
            await uow.sessions.add(session)
            await uow.commit()
        return account, session


def make_store(url: str, pool: Pool) -> Store:
    ids, clock, doorbell = SystemIds(), SystemClock(), PostgresDoorbell(url)
    keyring = AesGcmKeyRing([EncryptionKey("first", b"1" * 32)])
    return Store(url, pool, ids, clock, keyring, doorbell, unit_of_work(pool, ids, clock, keyring, doorbell))


@pytest.fixture
async def store(emptied_database_url: str) -> AsyncIterator[Store]:
    async for store in _opened(emptied_database_url):
        yield store


@pytest.fixture
async def fresh_store(database_url: str) -> AsyncIterator[Store]:
    """On a database of the test's own: for tests that change the schema, or read plans, sizes or the server's statistics."""
    async for store in _opened(database_url):
        yield store


async def _opened(url: str) -> AsyncIterator[Store]:
    pool = Pool(url, max_size=10)
    await pool.open()
    try:
        yield make_store(url, pool)
    finally:
        await pool.aclose()
