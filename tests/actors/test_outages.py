"""How soon an actor goes on after an outage of any length."""

from collections.abc import Callable

import pytest
import trio

from actors.foundation import LONGEST_SILENCE, Mailbox, Outage
from core.domain.errors import Overloaded, Unavailable
from tests.conftest import CapturedLog

ON_A_JUMPING_CLOCK = True


@pytest.mark.parametrize("lasting", [3.0, 40.0, 3600.0])
@pytest.mark.parametrize("spread", [0.0, 0.999])
@pytest.mark.parametrize("refusal", [lambda: Unavailable(retry_after=2), lambda: Overloaded(retry_after=60)], ids=["away", "full"])
async def test_it_goes_on_within_two_seconds(
    lasting: float, spread: float, refusal: Callable[[], Unavailable | Overloaded], log: CapturedLog
) -> None:
    back_at = trio.current_time() + lasting
    tries = 0

    async def ask() -> float:
        nonlocal tries
        tries += 1
        await trio.lowlevel.checkpoint()
        if trio.current_time() < back_at:
            raise refusal()
        return trio.current_time()

    went_on = await Outage("worker", lambda: spread).wait_out(ask)
    assert 0 <= went_on - back_at <= 2
    # The actor does not try too often meanwhile.
    assert tries <= lasting * 2 + 2
    assert len(log.events("actor_waits")) == len(log.events("actor_goes_on")) == 1


@pytest.mark.parametrize(("sees_all", "looks"), [(True, 0), (False, 30)])
async def test_an_actor_whose_due_times_do_not_see_all_looks_by_itself(sees_all: bool, looks: int) -> None:
    outage, mailbox, looked = Outage("worker", lambda: 0.0), Mailbox(), list[bool]()

    async def due_in() -> float | None:
        await trio.lowlevel.checkpoint()
        return None

    with trio.move_on_after(30 * LONGEST_SILENCE + 1):
        while True:
            looked.append(await outage.until_due(mailbox, due_in, sees_all=sees_all))
    assert looked == [False] * looks
