"""A wrong clock deletes nothing that a right one would keep: rows of months ago and a clock that is months ahead look the same."""

from datetime import UTC, datetime, timedelta
from typing import cast

import pytest

from adapters.postgres.database import BELIEVED, PostgresDatabase
from adapters.postgres.driver.pool import Pool
from adapters.postgres.platform.governance import PostgresStorageSamples
from adapters.postgres.upkeep.housekeeping import STATEMENTS, sweeps
from adapters.system import SystemClock
from core.domain.identifiers import first_id
from ports.database import Housekeeping
from tests.adapters.postgres.conftest import Store

AGO = timedelta(days=560)
NOT_BY_AGE = {
    # A bucket is full by the clock that fills it.
    "FullBuckets",
    "ForsakenDeliveries",
    "ReceivedSignIns",
    "DeliveriesOfNobody",
    # A right that has ended has no age.
    "EndedSignalGrants",
    # Parts of tables: the functions of the schema ask.
    "PastLoginEvents",
    "PastEvents",
    "PastDeliveries",
}
TABLES = ("sessions", "login_events", "events", "webhook_deliveries", "mfa_events", "jobs", "signing_keys", "storage_samples")


async def lived_long_ago(store: Store) -> None:
    """An installation with people, whose clock then leaps ahead."""
    ada, session = await store.sign_up()
    then = datetime.now(UTC) - AGO
    values = {"id": first_id(then), "user": ada.id, "session": session.id, "at": then, "other": store.ids.new()}
    for statement in _LIVED.split(";"):
        await store.query(statement, values)


_LIVED = """
    update sessions set created_at = %(at)s, last_seen_at = %(at)s, expires_at = %(at)s + interval '1 day', revoked_at = %(at)s;
    insert into login_events (id, user_id, provider, success, created_at) values (%(id)s, %(user)s, 'password', true, %(at)s);
    insert into events (id, name, target_type, target_id, details, personal, occurred_at)
    values (%(id)s, 'user.created', 'user', 'u', '{}', '{}', %(at)s);
    insert into webhook_deliveries (id, webhook_id, event_id, event_name, created_at, updated_at)
    values (%(other)s, %(other)s, %(id)s, 'user.created', %(at)s, %(at)s);
    insert into mfa_events (id, user_id, name, success, created_at) values (%(id)s, %(user)s, 'user.mfa.enabled', true, %(at)s);
    insert into jobs (id, kind, payload, state, run_at, created_at, died_at)
    values (%(id)s, 'mail', '{}', 'dead', %(at)s, %(at)s, %(at)s);
    insert into signing_keys (id, purpose, state, public_jwk, sealed_private_key, created_at, retires_at)
    values ('gone', 'access', 'outgoing', '{}', '', %(at)s, %(at)s);
    insert into storage_samples select (%(at)s::timestamptz at time zone 'UTC')::date, 'users', 1
"""


async def swept(store: Store) -> list[int]:
    retention = timedelta(days=90)
    every = sweeps(store.pool, login_event_retention=retention, delivery_retention=retention, event_retention=retention)
    for sweep in every:
        if sweep.name != "DeliveriesOfNobody":
            await sweep.delete_expired(100)
    return [await store.count(table) for table in TABLES]


async def personal(store: Store) -> int:
    return len(await store.query("select id from events where personal is not null"))


async def test_a_clock_that_leaps_ahead_sweeps_nothing_and_the_first_row_of_an_hour_ago_is_believed(fresh_store: Store) -> None:
    store = fresh_store
    await lived_long_ago(store)
    before = [await store.count(table) for table in TABLES]
    assert min(before) == 1
    assert await swept(store) == before
    assert await personal(store) == 1
    # Somebody signs in, while the clock is wrong.
    now = datetime.now(UTC)
    sign_in = "insert into login_events (id, provider, success, created_at) values (%(id)s, 'password', true, %(at)s)"
    await store.query(sign_in, {"id": first_id(now), "at": now})
    assert (await swept(store))[2:] == before[2:]
    # Two days without people, and the clock is right.
    hours_ago = now - timedelta(hours=2)
    await store.query(sign_in, {"id": first_id(hours_ago), "at": hours_ago})
    left = dict(zip(TABLES, await swept(store), strict=True))
    assert left == dict.fromkeys(TABLES, 0) | {"login_events": 2, "storage_samples": 1}


async def test_a_sample_of_yesterday_is_a_witness_and_a_doubted_clock_takes_none(fresh_store: Store) -> None:
    """A quiet installation that runs has a sample each day. So has none whose clock has leapt."""
    store = fresh_store
    database, samples = PostgresDatabase(store.pool, SystemClock()), PostgresStorageSamples(store.pool)
    assert await database.doubt_of_clock() is None
    await lived_long_ago(store)
    assert await database.doubt_of_clock() == "unseen"
    assert not await samples.keep()
    assert await store.count("storage_samples") == 1
    await store.witness()
    assert await database.doubt_of_clock() is None
    assert await samples.keep()


async def test_the_first_hour_of_an_installation_is_believed(fresh_store: Store) -> None:
    store = fresh_store
    database = PostgresDatabase(store.pool, SystemClock())
    now = datetime.now(UTC)
    await store.query(
        "insert into events (id, name, target_type, target_id, details, occurred_at)"
        " values (%(id)s, 'user.created', 'user', 'u', '{}', %(at)s)",
        {"id": first_id(now), "at": now},
    )
    assert await PostgresStorageSamples(store.pool).keep()
    assert await database.doubt_of_clock() is None


EVERY = sweeps(cast("Pool", None), login_event_retention=AGO, delivery_retention=AGO, event_retention=AGO)


@pytest.mark.parametrize("sweep", EVERY, ids=lambda sweep: sweep.name)
def test_every_sweep_asks_for_the_clock_in_its_statement(sweep: Housekeeping) -> None:
    assert (BELIEVED in STATEMENTS[sweep.name]) == (sweep.name not in NOT_BY_AGE)
