"""Sealed columns: what was sealed under an older key is found and replaced, unless it changed meanwhile."""

import pytest

from adapters.crypto.key_ring import AesGcmKeyRing, EncryptionKey
from adapters.postgres.jobs import sealing_context
from adapters.postgres.upkeep.housekeeping import PostgresSealedColumns
from core.domain.identifiers import JobId
from core.domain.jobs import NewJob
from tests.adapters.postgres.conftest import Store

JOBS = "jobs.sealed_payload"
KEYS = "signing_keys.sealed_private_key"

OLD = EncryptionKey("first", b"1" * 32)
NEW = EncryptionKey("fir", b"2" * 32)  # its id begins the older one's: the header tells them apart


async def fill(store: Store, jobs: int = 1) -> list[JobId]:
    async with store.unit_of_work() as uow:
        ids = [await uow.jobs.add(NewJob("mail", {"number": number}, sealed=True)) for number in range(jobs)]
        await uow.jobs.add(NewJob("mail", {"open": True}))
        await uow.commit()
    await store.query(
        """
        insert into signing_keys (id, purpose, state, public_jwk, sealed_private_key, created_at)
        values ('one', 'access', 'current', '{}', %(sealed)s, now())
        """,
        {"sealed": store.keyring.seal(b"private", "signing_keys.sealed_private_key:one")},
    )
    return ids


async def test_nothing_is_outdated_under_the_same_first_key(store: Store) -> None:
    await fill(store)
    columns = PostgresSealedColumns(store.pool, store.keyring)
    assert {KEYS, JOBS} <= set(columns.columns)
    for column in columns.columns:
        assert await columns.outdated(column, 10) == []


async def test_what_was_sealed_under_an_older_key_is_found_and_opens_with_its_context(store: Store) -> None:
    ids = await fill(store, jobs=3)
    ring = AesGcmKeyRing([NEW, OLD])
    columns = PostgresSealedColumns(store.pool, ring)
    jobs = await columns.outdated(JOBS, 10)
    assert [value.row for value in jobs] == [str(job) for job in ids]
    assert [value.context for value in jobs] == [sealing_context(job) for job in ids]
    assert [ring.open(value.sealed, value.context) for value in jobs] == [b'{"number":0}', b'{"number":1}', b'{"number":2}']
    assert len(await columns.outdated(JOBS, 2)) == 2
    (key,) = await columns.outdated(KEYS, 10)
    assert (key.row, ring.open(key.sealed, key.context)) == ("one", b"private")


@pytest.mark.parametrize("column", [JOBS, KEYS])
async def test_a_replaced_value_is_no_longer_outdated(store: Store, column: str) -> None:
    await fill(store)
    ring = AesGcmKeyRing([NEW, OLD])
    columns = PostgresSealedColumns(store.pool, ring)
    (value,) = await columns.outdated(column, 10)
    assert await columns.replace(column, value.row, value.sealed, ring.seal(ring.open(value.sealed, value.context), value.context))
    assert await columns.outdated(column, 10) == []
    # Of two who replace it, the second is told.
    assert not await columns.replace(column, value.row, value.sealed, b"late")


async def test_a_value_that_went_away_is_not_replaced(store: Store) -> None:
    await fill(store)
    columns = PostgresSealedColumns(store.pool, AesGcmKeyRing([NEW, OLD]))
    (value,) = await columns.outdated(JOBS, 10)
    await store.query("delete from jobs")
    assert not await columns.replace(JOBS, value.row, value.sealed, b"new")


async def test_every_sealed_column_of_the_schema_is_listed(store: Store) -> None:
    rows = await store.query("""
        select table_name || '.' || column_name as name
          from information_schema.columns
          join information_schema.tables using (table_schema, table_name)
         where table_schema = 'public' and table_type = 'BASE TABLE' and column_name like '%sealed_%'
    """)
    assert {row["name"] for row in rows} == set(PostgresSealedColumns(store.pool, store.keyring).columns)


async def test_an_empty_value_is_no_secret(store: Store) -> None:
    """As a version of before left one for each sign-out of a directory."""
    await fill(store)
    await store.query("update jobs set sealed_payload = '' where sealed_payload is not null")
    columns = PostgresSealedColumns(store.pool, AesGcmKeyRing([NEW, OLD]))
    assert await columns.all(JOBS, None, 10) == await columns.outdated(JOBS, 10) == []
    assert await columns.count_outdated(JOBS) == 0
    # Values of other columns are there.
    assert (len(await columns.all(KEYS, None, 10)), await columns.count_outdated(KEYS)) == (1, 1)
