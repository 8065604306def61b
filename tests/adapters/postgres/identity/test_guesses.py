"""Counts of guesses in PostgreSQL: what fails most keeps its row, rows are few whatever comes, and concurrent failures all count."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Final

import trio

from adapters.postgres.identity.proofs.login_events import PostgresSuspiciousActivity
from core.domain.identifiers import UserId
from core.domain.identity.guards.guesses import FailedGuess, GuessAlert, GuessCount, GuessKind, GuessOrigin, GuessPlace
from core.domain.identity.login_events import AlertType
from tests.adapters.postgres.conftest import Store
from tests.patience import PATIENCE

HOUR: Final = datetime(2026, 11, 27, 10, tzinfo=UTC)
ORIGIN: Final = GuessOrigin("192.0.2.0/24", "firefox")


async def count(store: Store, *counts: tuple[GuessKind, str, int], hour: datetime = HOUR, user: UserId | None = None) -> None:
    """Counts a failure; everything has the slot 7."""
    made = tuple(GuessCount(GuessPlace(kind, 7, key), mark) for kind, key, mark in counts)
    async with store.unit_of_work() as uow:
        await uow.guesses.count(FailedGuess(hour, hour + timedelta(minutes=5), ORIGIN, user, made))
        await uow.commit()


async def row(store: Store) -> tuple[str, int, int]:
    (only,) = await store.query("select key, failures, seen from guess_counts")
    return only["key"], only["failures"], only["seen"]


async def test_what_fails_most_keeps_the_slot_and_a_flood_of_others_makes_no_row(store: Store) -> None:
    for mark in (0, 1, 63):
        await count(store, (GuessKind.NETWORK, "busy", mark))
    assert await row(store) == ("busy", 3, 0b11 - 2**63)
    await count(store, (GuessKind.NETWORK, "another", 5))
    assert await row(store) == ("busy", 2, 0b11 - 2**63)
    await count(store, (GuessKind.NETWORK, "another", 5))
    await count(store, (GuessKind.NETWORK, "a third", 6))
    assert await row(store) == ("a third", 1, 1 << 6)


async def test_another_hour_begins_anew_even_if_a_clock_was_ahead(store: Store) -> None:
    for hour in (HOUR + timedelta(days=300), HOUR, HOUR + timedelta(hours=1)):
        await count(store, (GuessKind.PASSWORD, "", 1), hour=hour)
        await count(store, (GuessKind.PASSWORD, "", 2), hour=hour)
        assert await row(store) == ("", 2, 0b110)


async def test_failures_at_once_in_any_order_all_count(store: Store) -> None:
    with trio.fail_after(PATIENCE):
        async with trio.open_nursery() as nursery:
            for number in range(20):
                kinds = list(GuessKind) if number % 2 else list(reversed(GuessKind))
                nursery.start_soon(count, store, *((kind, "one", number) for kind in kinds))
    assert [one["failures"] for one in await store.query("select failures from guess_counts")] == [20] * len(GuessKind)


async def found(store: Store, since: datetime = HOUR) -> Sequence[GuessAlert]:
    return (await PostgresSuspiciousActivity(store.pool).alerts(since)).of_nobody


async def test_a_count_that_is_no_coincidence_is_told_once_and_follows(store: Store) -> None:
    assert await found(store) == []
    for number in range(30):
        await count(store, (GuessKind.PASSWORD, "", number), (GuessKind.WIDE, "192.0.2.0/24", number))
    (alert,) = await found(store, HOUR - timedelta(hours=1))
    assert await found(store, HOUR + timedelta(hours=1)) == []
    # The counts as they were before the last failure. Of a password's, nobody knows more than the hour: a time would say whose it was.
    assert (alert.type, alert.network, alert.family, alert.failures) == (AlertType.ONE_PASSWORD_OVER_MANY_ACCOUNTS, None, None, 29)
    assert (alert.first_at, alert.last_at) == (HOUR, HOUR)
    assert alert.accounts > 29


async def test_the_latest_hundred_are_told(store: Store) -> None:
    await store.query(
        "insert into guess_alerts (id, type, marks, failures, first_at, last_at)"
        " select gen_random_uuid(), 'one_password_over_many_accounts', 17, n, %(at)s, %(at)s + n * interval '1 second'"
        " from generate_series(1, 101) as n",
        {"at": HOUR},
    )
    assert [one.failures for one in await found(store)] == list(range(101, 1, -1))


async def test_an_alert_of_a_person_is_not_among_those_of_nobody(store: Store) -> None:
    for number in range(20):
        await count(store, (GuessKind.ACCOUNT, "ada", number), user=UserId(store.ids.new()))
    assert await found(store) == []
    assert await store.count("guess_alerts") == 1
