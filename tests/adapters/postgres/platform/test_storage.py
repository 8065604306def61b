"""Samples of the tables' sizes, and what they say later."""

import trio

from adapters.postgres.platform.governance import PostgresStorageSamples
from tests.adapters.postgres.conftest import Store
from tests.patience import PATIENCE


async def test_a_table_in_parts_is_one_table(fresh_store: Store) -> None:
    storage = await PostgresStorageSamples(fresh_store.pool).look()
    names = [one.name for one in storage.tables]
    assert {"events", "login_events", "webhook_deliveries", "users", "storage_samples"} <= set(names)
    assert not [name for name in names if name.startswith("events_")]
    assert len(names) == len(set(names))
    sizes = [one.bytes for one in storage.tables]
    assert sizes == sorted(sizes, reverse=True)
    (sum_of_parts,) = await fresh_store.query(
        "select sum(pg_total_relation_size(to_regclass('partitions.' || name)))::bigint as bytes from partitions_of('events')"
    )
    (events,) = [one for one in storage.tables if one.name == "events"]
    assert events.bytes == sum_of_parts["bytes"]
    assert storage.bytes > sum(sizes) // 2
    assert storage.sampled is None


async def test_a_day_has_one_sample_whoever_looks(fresh_store: Store) -> None:
    kept: list[bool] = []

    async def keep() -> None:
        kept.append(await PostgresStorageSamples(fresh_store.pool).keep())

    with trio.fail_after(PATIENCE):
        async with trio.open_nursery() as nursery:
            for _ in range(4):
                nursery.start_soon(keep)
    assert any(kept)
    assert not await PostgresStorageSamples(fresh_store.pool).keep()
    (days,) = await fresh_store.query("select count(distinct day) as n, count(*) as all from storage_samples")
    assert days["n"] == 1
    assert days["all"] == len((await PostgresStorageSamples(fresh_store.pool).look()).tables)


async def test_growth_is_since_the_oldest_sample_of_four_weeks(fresh_store: Store) -> None:
    samples = PostgresStorageSamples(fresh_store.pool)
    before = {one.name: one.bytes for one in (await samples.look()).tables}
    # Without the last one, nobody would have looked for five days, and the clock would be in doubt.
    for days, less in ((500, 0), (40, 0), (10, 1000), (5, 10), (1, 0)):
        await fresh_store.query(
            "insert into storage_samples select (now() at time zone 'UTC')::date - %(days)s, 'users', %(bytes)s",
            {"days": days, "bytes": before["users"] - less},
        )
    storage = await samples.look()
    (users,) = [one for one in storage.tables if one.name == "users"]
    assert (storage.days, users.grew, storage.grows(users)) == (10, 1000, 100.0)
    # A table that was not there yet has grown by all that it holds.
    (events,) = [one for one in storage.tables if one.name == "events"]
    assert events.grew == events.bytes
    assert await samples.keep()
    (oldest,) = await fresh_store.query("select (now() at time zone 'UTC')::date - min(day) as days from storage_samples")
    assert oldest["days"] == 40
