"""A use of a session or a device changes its row and no index: PostgreSQL counts such a change as HOT."""

from datetime import UTC, datetime, timedelta
from typing import Final

import trio

from adapters.postgres.identity.sessions.refresh_tokens import PostgresRefreshTokens
from adapters.postgres.identity.sessions.sessions import PostgresPresence
from adapters.postgres.upkeep.housekeeping import STATEMENTS
from core.domain.identity.risk import NOTHING_KNOWN, judge
from tests.adapters.postgres.conftest import Store
from tests.adapters.postgres.identity.test_devices import add, approach
from tests.patience import PATIENCE

USES: Final = 40
DAY: Final = timedelta(days=1)
BY: Final = b"by"


async def changes(store: Store, table: str, uses: int) -> tuple[int, int]:
    """All changes of the table's rows and those that touched no index, once PostgreSQL has counted all uses."""
    # A connection tells its counts when it ends.
    await store.kill_backends()
    with trio.fail_after(PATIENCE):
        while True:
            (row,) = await store.query(f"select n_tup_upd as made, n_tup_hot_upd as hot from pg_stat_user_tables where relname = '{table}'")
            if row["made"] >= uses:
                return row["made"], row["hot"]
            await trio.sleep(0.01)


async def test_a_session_that_is_seen_and_refreshed_touches_no_index(fresh_store: Store) -> None:
    store = fresh_store
    _, session = await store.sign_up(lifetime=timedelta(days=90))
    tokens = [bytes([number]) * 32 for number in range(USES + 1)]
    async with store.unit_of_work() as uow:
        await uow.sessions.issue(session.id, tokens[0], session.created_at)
        await uow.commit()
    # A day like any other, so the session's expiry stays on its day after the first use.
    noon = datetime.now(UTC).replace(hour=12, minute=0) + DAY
    presence, refreshes = PostgresPresence(store.pool), PostgresRefreshTokens(store.pool)
    await store.query("update sessions set expires_at = now() + interval '30 days'")
    for number, token in enumerate(tokens[:-1]):
        at = noon + timedelta(seconds=number)
        rotated = await refreshes.rotate(token, tokens[number + 1], BY, at)
        assert rotated is not None
        assert rotated.rotated
        await presence.mark_seen({session.id: at + timedelta(milliseconds=500)})
    made, hot = await changes(store, "sessions", 2 * USES)
    assert hot / made >= 0.9, (made, hot)
    (row,) = await store.query("select expires_day, (expires_at at time zone 'UTC')::date as day from sessions")
    assert row["expires_day"] == row["day"]


async def test_a_device_that_is_used_touches_no_index(fresh_store: Store) -> None:
    store = fresh_store
    account, _ = await store.sign_up()
    # All uses are in one week.
    wednesday = datetime(2030, 1, 2, 12, tzinfo=UTC)
    known = await add(store, account, "kept", at=wednesday)
    for number in range(USES):
        at = wednesday + timedelta(seconds=number)
        async with store.unit_of_work() as uow:
            await uow.devices.used(known, account.id, judge(approach(device="kept"), NOTHING_KNOWN, at), None, at)
            await uow.commit()
    made, hot = await changes(store, "devices", USES)
    assert hot / made >= 0.9, (made, hot)
    (row,) = await store.query("select last_used_week::text as week from devices")
    assert row["week"] == "2029-12-31"


async def test_what_is_due_is_found_by_day_and_week(fresh_store: Store) -> None:
    """The janitor reads an index, and keeps what ended on the first day, and in the first week, that it looks at no more."""
    store = fresh_store
    account, _ = await store.sign_up()
    await store.query(
        """
        insert into sessions (id, user_id, created_at, last_seen_at, expires_at)
        select gen_random_uuid(), %(user)s, now(), now(), now() + n * interval '10 minutes' from generate_series(1, 20000) as n
        """,
        {"user": account.id},
    )
    await store.query(
        """
        insert into devices (id, user_id, name, device_type, last_used_at, created_at, updated_at)
        select gen_random_uuid(), %(user)s, 'x', 'browser', now() - n * interval '10 minutes', now(), now()
          from generate_series(1, 20000) as n
        """,
        {"user": account.id},
    )
    await store.settle("sessions", "devices")
    for sweep, index in (
        ("ExpiredSessions", "sessions_expired"),
        ("EndedExchanges", "sessions_exchanged"),
        ("UnusedDevices", "devices_long_unused"),
    ):
        plan = await store.query("explain (format json) " + STATEMENTS[sweep], {"limit": 500})
        assert index in str(plan), plan
