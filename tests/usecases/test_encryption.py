"""Re-encryption after a rotation of the key ring, on the database."""

from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import contextmanager

import pytest
from psycopg.rows import dict_row

from adapters.crypto.key_ring import AesGcmKeyRing, EncryptionKey
from adapters.crypto.signing_keys import CryptoKeyMaker, KeyCache
from adapters.postgres.driver.connection import Connection
from adapters.postgres.driver.pool import Pool
from adapters.postgres.jobs import PostgresDoorbell
from adapters.postgres.unit_of_work import unit_of_work
from adapters.postgres.upkeep.housekeeping import PostgresSealedColumns
from adapters.system import SystemIds
from core.domain.jobs import NewJob
from core.domain.record.events import SYSTEM
from core.domain.tokens import KeyPurpose
from core.usecases.keys import (
    REENCRYPTION_BATCH,
    REENCRYPTION_JOB,
    Reencrypted,
    Reencryption,
    RingIsBehind,
    SigningKeys,
    queue_reencryption,
    reencryption_job,
    stored,
)
from ports.crypto import SealedValue
from ports.unit_of_work import UnitOfWorkFactory
from tests.conftest import CapturedLog
from tests.signing import SettableClock

OLD = EncryptionKey("old", b"o" * 32)
NEW = EncryptionKey("new", b"n" * 32)
BEFORE, BETWEEN, AFTER = AesGcmKeyRing([OLD]), AesGcmKeyRing([NEW, OLD]), AesGcmKeyRing([NEW])


@pytest.fixture
async def pool(database_url: str) -> AsyncIterator[Pool]:
    pool = Pool(database_url, max_size=4)
    await pool.open()
    yield pool
    await pool.aclose()


def work(pool: Pool, keyring: AesGcmKeyRing) -> UnitOfWorkFactory:
    return unit_of_work(pool, SystemIds(), SettableClock(), keyring, PostgresDoorbell("unused"))


def signing_keys(pool: Pool, keyring: AesGcmKeyRing) -> tuple[SigningKeys, KeyCache]:
    cache = KeyCache(stored(work(pool, keyring)), keyring)
    return SigningKeys(work(pool, keyring), CryptoKeyMaker(keyring), SettableClock(), cache), cache


async def add_jobs(pool: Pool, keyring: AesGcmKeyRing, number: int) -> None:
    async with work(pool, keyring)() as uow:
        for _ in range(number):
            await uow.jobs.add(NewJob("mail", {"to": "ada@example.org"}, sealed=True))
        await uow.commit()


async def sealed_values(url: str) -> list[bytes]:
    async with await Connection.connect(url) as connection:
        cursor = connection.cursor(row_factory=dict_row)
        await cursor.execute(b"select sealed_private_key as sealed from signing_keys union all select sealed_payload from jobs")
        return [row["sealed"] for row in await cursor.fetchall()]


async def test_after_a_rotation_everything_is_sealed_again_and_the_old_key_can_go(pool: Pool, database_url: str) -> None:
    keys, _ = signing_keys(pool, BEFORE)
    await keys.ensure()
    await add_jobs(pool, BEFORE, 2 * REENCRYPTION_BATCH + 7)
    reencryption = Reencryption(BETWEEN, PostgresSealedColumns(pool, BETWEEN))
    assert not await reencryption.is_finished()
    assert {(done.column, done.replaced, done.unreadable) for done in await reencryption.run("new") if done.replaced} == {
        ("signing_keys.sealed_private_key", 8, 0),
        ("jobs.sealed_payload", 2 * REENCRYPTION_BATCH + 7, 0),
    }
    assert await reencryption.is_finished()
    values = await sealed_values(database_url)
    assert len(values) == 8 + 2 * REENCRYPTION_BATCH + 7
    assert not any(AFTER.is_outdated(value) for value in values)
    # A process that starts with the new key alone reads it all.
    _, cache = signing_keys(pool, AFTER)
    for purpose in KeyPurpose:
        await cache.signing_key(purpose)


async def test_a_run_tells_how_far_it_is(pool: Pool) -> None:
    await add_jobs(pool, BEFORE, REENCRYPTION_BATCH + 3)
    told: dict[str, list[int | None]] = {}

    @contextmanager
    def progress(title: str, total: int | None, _unit: str) -> Iterator[Callable[[int], None]]:
        told[title] = [total]
        yield told[title].append

    await Reencryption(BETWEEN, PostgresSealedColumns(pool, BETWEEN)).run("new", progress)
    assert told["Sealing jobs.sealed_payload"] == [REENCRYPTION_BATCH + 3, REENCRYPTION_BATCH, 3]
    assert told["Sealing webhooks.sealed_secret"] == [0]


async def test_a_second_run_finds_nothing_to_do(pool: Pool) -> None:
    await add_jobs(pool, BEFORE, 3)
    reencryption = Reencryption(BETWEEN, PostgresSealedColumns(pool, BETWEEN))
    await reencryption.run("new")
    assert {done.replaced for done in await reencryption.run("new")} == {0}


async def test_what_no_key_opens_is_left_counted_and_logged_once(pool: Pool, database_url: str, log: CapturedLog) -> None:
    log.allow("sealed_values_unreadable")
    lost = AesGcmKeyRing([EncryptionKey("lost", b"l" * 32)])
    await add_jobs(pool, lost, REENCRYPTION_BATCH + 1)
    await add_jobs(pool, BEFORE, 5)
    reencryption = Reencryption(BETWEEN, PostgresSealedColumns(pool, BETWEEN))
    done = {each.column: each for each in await reencryption.run("new")}
    assert done["jobs.sealed_payload"] == Reencrypted("jobs.sealed_payload", replaced=5, unreadable=REENCRYPTION_BATCH + 1)
    (entry,) = log.events("sealed_values_unreadable")
    assert entry["values"] == REENCRYPTION_BATCH + 1
    assert not await reencryption.is_finished()
    assert sum(lost.is_outdated(value) for value in await sealed_values(database_url)) == 5


async def test_a_process_whose_ring_is_behind_hands_the_job_on(pool: Pool) -> None:
    with pytest.raises(RingIsBehind, match="'old', not 'new'"):
        await Reencryption(BEFORE, PostgresSealedColumns(pool, BEFORE)).run("new")


def test_the_job_names_the_key_that_everything_shall_be_sealed_under() -> None:
    job = reencryption_job(BETWEEN)
    assert (job.kind, job.payload, job.sealed) == (REENCRYPTION_JOB, {"key": "new"}, False)


class ContestedColumn:
    """One value that somebody else always changes first: no such timing can be had from a database on purpose."""

    columns: Sequence[str] = ("contested",)

    def __init__(self) -> None:
        self.value = BEFORE.seal(b"value", "here")
        self.asked = 0

    async def all(self, column: str, after: str | None, limit: int) -> Sequence[SealedValue]:  # noqa: ARG002 - as the port has them
        raise AssertionError("not asked")

    async def outdated(self, column: str, limit: int) -> Sequence[SealedValue]:
        self.asked += 1
        assert (column, limit >= 1) == ("contested", True)
        return [SealedValue("1", self.value, "here")]

    async def count_outdated(self, column: str) -> int:
        assert column == "contested"
        return 1

    async def replace(self, column: str, row: str, old: bytes, new: bytes) -> bool:
        assert (column, row, old) == ("contested", "1", self.value)
        assert AFTER.open(new, "here") == b"value"
        return False


async def test_a_value_that_changes_meanwhile_is_left_as_changed() -> None:
    column = ContestedColumn()
    assert await Reencryption(BETWEEN, column).run("new") == [Reencrypted("contested", replaced=0, unreadable=0)]
    assert column.asked == 2


async def test_a_rotation_leaves_one_job_for_the_newest_key_and_an_entry_in_the_log(pool: Pool, database_url: str) -> None:
    for key in ("between", "new"):
        await queue_reencryption(work(pool, BETWEEN), key, SYSTEM)
    async with await Connection.connect(database_url) as connection:
        cursor = connection.cursor(row_factory=dict_row)
        await cursor.execute(b"select payload->>'key' as key from jobs where kind = 'encryption.reencrypt'")
        assert [row["key"] for row in await cursor.fetchall()] == ["new"]
        await cursor.execute(b"select target_id from audit_log where action = 'platform.encryption_keys.rotated' order by id")
        assert [row["target_id"] for row in await cursor.fetchall()] == ["between", "new"]
