"""Callers that wait for a place."""

from contextlib import suppress

import trio
import trio.testing

from entrypoints.http.pages.saml import FewAtOnce


async def test_a_few_are_inside_and_the_others_come_in_line() -> None:
    few, inside, came = FewAtOnce(2), 0, []
    go_on = trio.Event()

    async def one(number: int) -> None:
        nonlocal inside
        async with few:
            inside += 1
            came.append(number)
            assert inside <= 2
            await go_on.wait()
            inside -= 1

    async with trio.open_nursery() as nursery:
        for number in range(5):
            nursery.start_soon(one, number)
            await trio.testing.wait_all_tasks_blocked()
        assert inside == 2
        go_on.set()
    # Two whose turn comes in the same round of the loop go in any order.
    assert came[:2] == [0, 1]
    assert [set(came[2:4]), came[4:]] == [{2, 3}, [4]]


async def test_a_place_is_given_back_by_whoever_fails_or_gives_up() -> None:
    few = FewAtOnce(1)
    with suppress(ValueError):
        async with few:
            raise ValueError
    async with few:
        with trio.move_on_after(0):
            async with few:
                raise AssertionError
    async with few:
        pass
