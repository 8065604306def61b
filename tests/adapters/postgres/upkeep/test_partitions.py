"""Tables that are cut by month: what the months hold, what a retention drops, and what it never drops."""

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import psycopg
import pytest
import trio

from adapters.postgres.upkeep import housekeeping
from adapters.postgres.upkeep.housekeeping import MONTHS_AHEAD, PostgresPartitions, partitions, sweeps
from adapters.system import SystemClock
from ports.database import Partitions
from tests.adapters.postgres.conftest import Store
from tests.adapters.shifted_clock import ShiftedClock
from tests.patience import PATIENCE

TABLES = ("login_events", "webhook_deliveries", "events")
DAY = timedelta(days=1)
HOUR = timedelta(hours=1)
LONG_UP = timedelta(hours=2)
LONG_AGO = timedelta(days=-4000)
"""As a retention: by then, even the months ahead are over."""
EVENT = """
    insert into events (id, name, target_type, target_id, details, occurred_at)
    values (%(id)s, 'user.created', 'user', 'u', '{}', %(at)s)
"""
SIGN_IN = "insert into login_events (id, provider, success, created_at) values (%(id)s, 'password', true, %(at)s)"
DELIVERY = """
    insert into webhook_deliveries (id, webhook_id, event_id, event_name, next_at, created_at, updated_at)
    values (%(id)s, %(webhook)s, %(event)s, 'user.created', %(next)s, %(at)s, %(at)s)
"""


def id_of(at: datetime) -> UUID:
    """A UUIDv7 of this moment."""
    milliseconds = max(int(at.timestamp() * 1000), 0)
    return UUID(int=(milliseconds << 80) | (7 << 76) | (2 << 62) | (uuid4().int & ((1 << 62) - 1)))


def of(store: Store, table: str, retention: timedelta = DAY) -> PostgresPartitions:
    return PostgresPartitions(store.pool, SystemClock(), table, retention)


async def dropped(table: Partitions, up: timedelta = LONG_UP) -> list[str]:
    """All that turns drop, one after the other: each drops one at the most."""
    gone: list[str] = []
    while one := await table.drop(up):
        gone += one
    return gone


async def names(store: Store, table: str) -> list[str]:
    rows = await store.query("select name from partitions_of(%(table)s) order by last", {"table": table})
    return [str(row["name"]) for row in rows]


async def part_of(store: Store, table: str, row: UUID) -> str:
    (found,) = await store.query(f"select tableoid::regclass::text as place from {table} where id = %(id)s", {"id": row})
    return str(found["place"]).removeprefix("partitions.")


def month_after(months: int) -> datetime:
    now = datetime.now(UTC)
    month = now.month - 1 + months
    return datetime(now.year + month // 12, month % 12 + 1, 1, tzinfo=UTC)


async def event(store: Store, at: datetime) -> UUID:
    identifier = id_of(at)
    await store.query(EVENT, {"id": identifier, "at": at})
    return identifier


async def delivery(store: Store, of_event: UUID, *, at: datetime, waits: bool) -> UUID:
    identifier = id_of(at)
    values = {"id": identifier, "webhook": uuid4(), "event": of_event, "next": at if waits else None, "at": at}
    await store.query(DELIVERY, values)
    return identifier


async def test_each_table_has_its_past_its_months_and_a_rest(fresh_store: Store) -> None:
    for table in TABLES:
        found = await names(fresh_store, table)
        assert (found[0], found[-1]) == (f"{table}_past", f"{table}_rest")
        assert found[1:-1] == [f"{table}_{month_after(ahead):%Y_%m}" for ahead in (2, 3)]
        assert await of(fresh_store, table).make() == []
        assert await of(fresh_store, table).ahead() > timedelta(days=85)


async def test_a_row_goes_to_the_month_of_its_id(fresh_store: Store) -> None:
    store = fresh_store
    for at, place in (
        (datetime(1969, 7, 20, tzinfo=UTC), "past"),
        (datetime.now(UTC), "past"),
        (month_after(2) - timedelta(milliseconds=1), "past"),
        (month_after(2), f"{month_after(2):%Y_%m}"),
        (month_after(3), f"{month_after(3):%Y_%m}"),
        (month_after(4), "rest"),
    ):
        assert await part_of(store, "events", await event(store, at)) == f"events_{place}"
        sign_in = id_of(at)
        await store.query(SIGN_IN, {"id": sign_in, "at": at})
        assert await part_of(store, "login_events", sign_in) == f"login_events_{place}"
        # A delivery that is made later goes to its event.
        made = await delivery(store, id_of(at), at=datetime.now(UTC), waits=True)
        assert await part_of(store, "webhook_deliveries", made) == f"webhook_deliveries_{place}"
    assert await store.count("uncounted_logins") == 6


async def test_a_month_that_is_made_late_takes_its_rows_out_of_the_rest(fresh_store: Store) -> None:
    store = fresh_store
    late, later = await event(store, month_after(4)), await event(store, month_after(9))
    await store.query("select make_partitions('events', 4)")
    assert await part_of(store, "events", late) == f"events_{month_after(4):%Y_%m}"
    assert await part_of(store, "events", later) == "events_rest"
    assert await store.count("events") == 2


async def test_rows_that_come_while_a_late_month_is_made_go_along(fresh_store: Store) -> None:
    store = fresh_store
    many = """
        insert into events (id, name, target_type, target_id, details, occurred_at)
        select (left(%(id)s::uuid::text, 15) || substr(gen_random_uuid()::text, 16))::uuid, 'user.created', 'user', 'u', '{}', now()
          from generate_series(1, 5000)
    """
    await store.query(many, {"id": id_of(month_after(4))})
    made: list[dict[str, Any]] = []
    written = 5000

    async def write() -> None:
        nonlocal written
        while not made:
            await event(store, month_after(4))
            written += 1

    with trio.fail_after(PATIENCE):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(write)
            nursery.start_soon(write)
            while not made:
                made = await store.query("select make_partitions('events', 4) as name")
    assert await store.count("events") == written
    assert await store.count(f"partitions.events_{month_after(4):%Y_%m}") == written


async def test_a_month_that_holds_too_much_stays_in_the_rest_and_the_next_is_made(fresh_store: Store) -> None:
    store = fresh_store
    many = """
        insert into events (id, name, target_type, target_id, details, occurred_at)
        select (left(%(id)s::uuid::text, 15) || substr(gen_random_uuid()::text, 16))::uuid, 'user.created', 'user', 'u', '{}', now()
          from generate_series(1, %(count)s)
    """
    await store.query(many, {"id": id_of(month_after(4)), "count": 50_001})
    await event(store, month_after(5))
    made = await store.query("select make_partitions('events', 5) as name")
    assert [row["name"] for row in made] == [f"events_{month_after(5):%Y_%m}"]
    assert await store.count("partitions.events_rest") == 50_001


async def test_a_retention_drops_whole_months_and_nothing_younger(fresh_store: Store) -> None:
    store = fresh_store
    for table in TABLES:
        before = await names(store, table)
        assert await dropped(of(store, table, timedelta(days=30))) == []
        # The first part ends with this month's next month.
        since = month_after(2) + timedelta(hours=1) - datetime.now(UTC)
        assert await dropped(of(store, table, -since)) == [f"{table}_past"]
        assert await names(store, table) == before[1:]
        assert await dropped(of(store, table, LONG_AGO)) == before[1:-1]
        # An empty rest still takes what comes.
        assert await names(store, table) == [f"{table}_rest"]
        assert await of(store, table).ahead() == timedelta(0)
    await event(store, datetime.now(UTC))
    assert len(await of(store, "events").make()) == MONTHS_AHEAD + 1
    assert await store.count("partitions.events_rest") == 0
    assert await store.count("events") == 1


async def test_months_stay_while_a_delivery_waits(fresh_store: Store) -> None:
    store = fresh_store
    now = datetime.now(UTC)
    waiting = await delivery(store, await event(store, now), at=now, waits=True)
    assert "webhook_deliveries_past" not in await dropped(of(store, "webhook_deliveries", LONG_AGO))
    assert "events_past" not in await dropped(of(store, "events", LONG_AGO))
    assert "login_events_past" in await dropped(of(store, "login_events", LONG_AGO))
    await store.query("update webhook_deliveries set next_at = null where id = %(id)s", {"id": waiting})
    # A delivery that is over still tells its event.
    assert await dropped(of(store, "events", LONG_AGO)) == []
    assert await dropped(of(store, "webhook_deliveries", LONG_AGO)) == ["webhook_deliveries_past"]
    assert await dropped(of(store, "events", LONG_AGO)) == ["events_past"]


async def test_a_month_stays_while_a_replay_of_its_events_is_young(fresh_store: Store) -> None:
    """A delivery that somebody has queued late is kept as long as any other."""
    store = fresh_store
    end = month_after(3)
    retention = datetime.now(UTC) - end - timedelta(hours=1)
    replayed = await delivery(store, id_of(month_after(2)), at=end + timedelta(hours=2), waits=False)
    part = f"webhook_deliveries_{month_after(2):%Y_%m}"
    assert part not in await dropped(of(store, "webhook_deliveries", retention))
    assert await housekeeping.sweep(store.pool, "PastDeliveries", retention - 8 * DAY).delete_expired(10) == 1
    assert await store.query("select from webhook_deliveries where id = %(id)s", {"id": replayed}) == []
    assert part in await dropped(of(store, "webhook_deliveries", retention))


async def test_a_drop_that_cannot_look_at_the_deliveries_leaves_it_for_the_next_time(fresh_store: Store) -> None:
    store = fresh_store
    with psycopg.connect(store.url) as other:
        other.execute("lock table webhook_deliveries in access exclusive mode")
        assert [row["name"] for row in await store.query("select drop_partitions('events', '-4000 days', '2 hours') as name")] == []
    assert "events_past" in await dropped(of(store, "events", LONG_AGO))


async def test_a_reader_holds_a_drop_up_and_the_next_one_succeeds(fresh_store: Store) -> None:
    store = fresh_store
    with psycopg.connect(store.url) as reader:
        reader.execute("select from events")
        assert await dropped(of(store, "events", LONG_AGO)) == []
        # A month can be made meanwhile: nobody waits for that.
        await event(store, datetime.now(UTC))
    assert (await dropped(of(store, "events", LONG_AGO)))[0] == "events_past"


async def test_a_table_in_the_way_of_a_month_and_a_view_of_another_stop_no_other_month(fresh_store: Store) -> None:
    """An operator may have put both there."""
    store = fresh_store
    await store.witness()
    await store.query(f"create table partitions.events_{month_after(4):%Y_%m} (mine integer)")
    made = await store.query("select make_partitions('events', 5) as name")
    assert [row["name"] for row in made] == [f"events_{month_after(5):%Y_%m}"]
    assert await part_of(store, "events", await event(store, month_after(4))) == "events_rest"
    await store.query("create view partitions.mine as select from partitions.events_past")
    gone = await dropped(of(store, "events", LONG_AGO))
    assert gone == [f"events_{month_after(ahead):%Y_%m}" for ahead in (2, 3, 5)]
    # Its rows go all the same.
    await event(store, datetime.now(UTC) - 40 * DAY)
    assert await part_of(store, "events", await event(store, datetime.now(UTC) - 40 * DAY)) == "events_past"
    assert await housekeeping.sweep(store.pool, "PastEvents", timedelta(days=30)).delete_expired(10) == 2
    await store.query("drop view partitions.mine")
    assert await dropped(of(store, "events", LONG_AGO)) == ["events_past"]


async def test_a_table_in_the_way_is_told_of_and_ends_what_is_ahead(fresh_store: Store) -> None:
    """Until then it counted as there: `ahead` told of the last month only."""
    store = fresh_store
    table = of(store, "events")
    whole = await table.ahead()
    assert await table.in_the_way() == []
    await store.query("drop table if exists partitions.mine")
    name = f"events_{month_after(2):%Y_%m}"
    await store.query(f"alter table events detach partition partitions.{name}")
    assert await table.in_the_way() == [name]
    assert await table.make() == []
    until_then = month_after(2) - datetime.now(UTC)
    assert abs(await table.ahead() - until_then) < HOUR
    # Its rows go to the rest, and move once the table is out of the way.
    late = await event(store, month_after(2))
    assert await part_of(store, "events", late) == "events_rest"
    await store.query(f"alter table partitions.{name} rename to mine")
    assert await table.in_the_way() == []
    assert await table.make() == [name]
    assert await part_of(store, "events", late) == name
    assert abs(await table.ahead() - whole) < HOUR


async def test_nothing_is_ahead_where_no_part_holds_this_moment(fresh_store: Store) -> None:
    await fresh_store.query("alter table events detach partition partitions.events_past")
    assert await of(fresh_store, "events").ahead() == timedelta(0)


async def test_a_turn_drops_one_month_and_none_in_the_first_hour(fresh_store: Store) -> None:
    store = fresh_store
    for up in (timedelta(0), timedelta(seconds=3599)):
        assert await of(store, "events", LONG_AGO).drop(up) == []
    # A process of the release before does not say how long it has been up.
    assert await store.query("select drop_partitions('events', '-4000 days')") == []
    assert await of(store, "events", LONG_AGO).drop(HOUR) == ["events_past"]
    assert await of(store, "events", LONG_AGO).drop(HOUR) == [f"events_{month_after(2):%Y_%m}"]


@pytest.mark.parametrize("table", TABLES)
@pytest.mark.parametrize("off", [timedelta(days=600), timedelta(seconds=31), timedelta(seconds=-31), timedelta(days=-600)])
async def test_no_month_goes_while_the_clocks_of_process_and_database_differ(fresh_store: Store, table: str, off: timedelta) -> None:
    apart = PostgresPartitions(fresh_store.pool, ShiftedClock(off), table, LONG_AGO)
    assert await apart.drop(LONG_UP) == []
    assert await of(fresh_store, table, LONG_AGO).drop(LONG_UP) == [f"{table}_past"]


@pytest.mark.parametrize(("newest", "goes"), [(3 * DAY, False), (2 * DAY + HOUR, False), (2 * DAY - HOUR, True), (2 * HOUR, True)])
async def test_no_month_goes_where_the_newest_row_is_two_days_old(fresh_store: Store, newest: timedelta, *, goes: bool) -> None:
    """Rows of a year ago and a clock that is a year ahead look the same."""
    store = fresh_store
    now = datetime.now(UTC)
    for at in (now - 400 * DAY, now - newest):
        await event(store, at)
    # The clock was wrong already when these were written.
    await event(store, now)
    await store.query(SIGN_IN, {"id": id_of(now), "at": now})
    gone = [name for table in TABLES for name in await of(store, table, LONG_AGO).drop(LONG_UP)]
    assert bool(gone) is goes
    assert await store.count("events") == (0 if goes else 3)


async def test_rows_of_the_future_are_no_witnesses_and_no_reason_for_doubt(fresh_store: Store) -> None:
    """What was written while the clock was ahead stays behind, and must stop no month for ever."""
    store = fresh_store
    await store.query(SIGN_IN, {"id": id_of(datetime.now(UTC) + 560 * DAY), "at": datetime.now(UTC)})
    await event(store, datetime.now(UTC) - 2 * HOUR)
    assert await of(store, "webhook_deliveries", LONG_AGO).drop(LONG_UP) == ["webhook_deliveries_past"]
    await store.query("truncate events")
    await event(store, datetime.now(UTC) - 30 * DAY)
    assert await of(store, "events", LONG_AGO).drop(LONG_UP) == []


@pytest.mark.parametrize("table", TABLES)
async def test_two_at_once_do_the_work_once(fresh_store: Store, table: str) -> None:
    await dropped(of(fresh_store, table, LONG_AGO))
    made: list[str] = []

    async def make() -> None:
        made.extend(await of(fresh_store, table).make())

    with trio.fail_after(PATIENCE):
        async with trio.open_nursery() as nursery:
            for _ in range(5):
                nursery.start_soon(make)
    assert sorted(made) == [one for one in await names(fresh_store, table) if not one.endswith("_rest")]


async def test_rows_that_no_month_bounds_are_swept(fresh_store: Store) -> None:
    store = fresh_store
    await store.witness()
    now = datetime.now(UTC)
    for at in (now - 40 * DAY, now - 20 * DAY):
        await event(store, at)
        await delivery(store, id_of(at), at=at, waits=False)
        await store.query(SIGN_IN, {"id": id_of(at), "at": at})
    # Its id belongs to no month, and it is old.
    await store.query(SIGN_IN, {"id": UUID(int=(1 << 128) - 1), "at": now - 40 * DAY})
    for name, left in (("PastLoginEvents", 2), ("PastEvents", 1), ("PastDeliveries", 1)):
        one = housekeeping.sweep(store.pool, name, timedelta(days=30))
        assert await one.delete_expired(1) == 1
        assert await one.delete_expired(10) == left - 1
        assert await one.delete_expired(10) == 0
    assert [await store.count(table) for table in TABLES] == [1, 1, 1]


async def test_one_that_keeps_a_month_does_not_keep_the_rows_of_others(fresh_store: Store) -> None:
    store = fresh_store
    at = month_after(2)
    kept = await delivery(store, id_of(at), at=at, waits=True)
    await delivery(store, id_of(at), at=at, waits=False)
    end = month_after(3) - datetime.now(UTC)
    for since_end, left in ((timedelta(days=6), 2), (timedelta(days=8), 1)):
        retention = -end - since_end
        assert await housekeeping.sweep(store.pool, "PastDeliveries", retention).delete_expired(10) == 2 - left
        assert f"webhook_deliveries_{at:%Y_%m}" not in await dropped(of(store, "webhook_deliveries", retention))
        assert await store.count("webhook_deliveries") == left
    assert [row["id"] for row in await store.query("select id from webhook_deliveries")] == [kept]


async def test_a_sweep_gets_past_a_part_that_is_dropped_meanwhile(fresh_store: Store) -> None:
    store = fresh_store
    await store.witness()
    # It belongs to no month, and it is old.
    await store.query(SIGN_IN, {"id": UUID(int=(1 << 128) - 1), "at": datetime.now(UTC) - 40 * DAY})
    retention = datetime.now(UTC) - month_after(2) - DAY
    swept: list[int] = []

    async def sweep() -> None:
        swept.append(await housekeeping.sweep(store.pool, "PastLoginEvents", timedelta(days=30)).delete_expired(10))

    with trio.fail_after(PATIENCE):
        async with trio.open_nursery() as nursery:
            with psycopg.connect(store.url) as other:
                gone = other.execute("select drop_partitions('login_events', %s, '2 hours')", [retention]).fetchall()
                assert gone == [("login_events_past",)]
                nursery.start_soon(sweep)
                await store.somebody_waits()
    assert swept == [1]


async def test_a_delivery_that_waits_again_is_not_swept(fresh_store: Store) -> None:
    store = fresh_store
    await store.witness()
    old = datetime.now(UTC) - 40 * DAY
    again = await delivery(store, await event(store, old), at=old, waits=True)
    sweep = housekeeping.sweep(store.pool, "PastDeliveries", timedelta(days=30))
    assert await sweep.delete_expired(10) == 0
    await store.query("update webhook_deliveries set next_at = null where id = %(id)s", {"id": again})
    assert await sweep.delete_expired(10) == 1


@pytest.mark.parametrize("call", ["make_partitions({}, 3)", "drop_partitions({}, '1 day')", "sweep_partitions({}, '1 day', 10)"])
async def test_only_these_tables_have_parts_and_only_for_those_who_may_delete(fresh_store: Store, call: str) -> None:
    with psycopg.connect(fresh_store.url, autocommit=True) as connection:
        for name in ("'users'", "'audit_entries'", "null"):
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                connection.execute(f"select {call.format(name)}".encode())


async def test_a_role_that_only_serves_keeps_the_parts(fresh_store: Store) -> None:
    store = fresh_store
    role = f"serving_{uuid4().hex[:8]}"
    await store.query(f"create role {role}")
    try:
        with psycopg.connect(store.url, autocommit=True) as connection:
            connection.execute(f"grant usage on schema public to {role}".encode())
            connection.execute(f"set session authorization {role}".encode())
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                connection.execute("select make_partitions('events', 5)")
            connection.execute("reset session authorization")
            connection.execute(f"grant select, insert, update, delete on events, webhook_deliveries to {role}".encode())
            connection.execute(f"set session authorization {role}".encode())
            made: list[Any] = connection.execute("select make_partitions('events', 5)").fetchall()
            assert len(made) == 2
            assert connection.execute("select drop_partitions('events', '-4000 days', '2 hours')").fetchall()
            connection.execute(EVENT, {"id": id_of(datetime.now(UTC)), "at": datetime.now(UTC)})
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                connection.execute("select from partitions.events_rest")
    finally:
        await store.query(f"drop owned by {role}; drop role {role}")


async def test_every_table_keeps_what_its_setting_says(store: Store) -> None:
    kept: tuple[Partitions, ...] = partitions(
        store.pool, SystemClock(), login_event_retention=DAY, delivery_retention=2 * DAY, event_retention=3 * DAY
    )
    assert [one.table for one in kept] == list(TABLES)


async def test_events_stay_as_long_as_deliveries(fresh_store: Store) -> None:
    store = fresh_store
    await store.witness()
    await event(store, datetime.now(UTC) - 5 * DAY)
    settings = {"login_event_retention": DAY, "event_retention": DAY}
    for days, left in ((9, 1), (4, 0)):
        for one in sweeps(store.pool, delivery_retention=days * DAY, **settings):
            if one.name == "PastEvents":
                await one.delete_expired(10)
        assert await store.count("events") == left
    kept = partitions(store.pool, SystemClock(), delivery_retention=-LONG_AGO, **settings)
    assert [await dropped(one) for one in kept if one.table == "events"] == [[]]


@pytest.mark.parametrize(
    ("statement", "scans"),
    [
        ("select from events where id = '{id}'", 1),
        ("select from webhook_deliveries where event_id = '{id}' and webhook_id = '{id}'", 1),
        ("select from login_events where user_id = '{id}' order by id desc limit 1", 4),
        ("select from events where organization_id = '{id}' and id >= '{id}' order by id limit 1", 4),
    ],
)
async def test_look_ups_read_indexes_of_few_parts(fresh_store: Store, statement: str, scans: int) -> None:
    (first, *rest) = await fresh_store.query(f"explain {statement.format(id=id_of(datetime.now(UTC)))}")
    plan = "\n".join(str(row["QUERY PLAN"]) for row in (first, *rest))
    assert "Seq Scan" not in plan, plan
    assert plan.count(" on ") <= scans + plan.count("Bitmap Index Scan"), plan
