"""How many answers wait, and of how many places a process remembers that somebody guesses there."""

from datetime import UTC, datetime, timedelta

import trio
import trio.testing

from core.domain.identity.guards.guesses import LONGEST_DELAY, GuessOrigin
from core.usecases.identity.guards.guesses import MOST_NOTICED, WAITING_HERE, WAITING_THERE, NoticedOrigins

HOUR = datetime(2026, 11, 27, 10, tzinfo=UTC)


def origin(number: int) -> GuessOrigin:
    return GuessOrigin(f"198.51.{number}.0/24", "firefox")


async def test_a_flood_from_many_networks_fills_no_process() -> None:
    noticed, leave = NoticedOrigins(), trio.Event()

    async def pause(_seconds: float) -> None:
        await leave.wait()

    async with trio.open_nursery() as nursery:
        for number in range(WAITING_HERE):
            assert noticed.has_room(origin(number // WAITING_THERE))
            nursery.start_soon(noticed.wait, origin(number // WAITING_THERE), 1.0, pause)
            await trio.testing.wait_all_tasks_blocked()
            assert noticed.has_room(origin(number // WAITING_THERE)) is ((number + 1) % WAITING_THERE != 0)
        assert not noticed.has_room(origin(10_000))
        leave.set()
    assert all(noticed.has_room(origin(number)) for number in (0, 1, 10_000))


async def test_whoever_hangs_up_leaves_the_place_to_others() -> None:
    noticed = NoticedOrigins()
    with trio.CancelScope() as hung_up:
        hung_up.cancel()
        await noticed.wait(origin(1), 1.0, trio.sleep)
    assert hung_up.cancelled_caught
    assert noticed._waiting == {}
    assert noticed._all_waiting == 0


def test_the_places_that_are_remembered_are_few_and_the_least_recently_seen_goes() -> None:
    noticed = NoticedOrigins(2)
    for number in (1, 2, 1, 3):
        noticed.note(origin(number), HOUR, 9.0)
    assert [noticed.delay(origin(number), HOUR) for number in (1, 2, 3)] == [LONGEST_DELAY, 0.0, LONGEST_DELAY]
    assert (len(noticed), MOST_NOTICED) == (2, 10_000)


def test_what_was_noticed_ends_with_its_hour() -> None:
    noticed = NoticedOrigins()
    noticed.note(origin(1), HOUR, 2.0)
    assert noticed.delay(origin(1), HOUR) == 2.0
    assert noticed.delay(origin(1), HOUR + timedelta(hours=1)) == 0.0
