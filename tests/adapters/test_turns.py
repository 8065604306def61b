"""Turns: one for each organization, a few for all, and nobody waits for ever."""

from uuid import UUID

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from adapters.limits import FairTurns
from core.domain.errors import Overloaded
from core.domain.identifiers import OrganizationId

ACME, GLOBEX, HOUSE = (OrganizationId(UUID(int=number)) for number in (1, 2, 3))


class Visitors:
    """They stay until they are let go, and note when they come in."""

    def __init__(self, turns: FairTurns) -> None:
        self.turns = turns
        self.inside: list[str] = []
        self.refused: list[str] = []
        self._leave: dict[str, trio.Event] = {}

    async def visit(self, name: str, organization: OrganizationId) -> None:
        self._leave[name] = trio.Event()
        try:
            async with self.turns.take(organization):
                self.inside.append(name)
                await self._leave[name].wait()
                self.inside.remove(name)
        except Overloaded:
            self.refused.append(name)

    async def let_go(self, name: str) -> list[str]:
        self._leave[name].set()
        await wait_all_tasks_blocked()
        return self.inside


async def test_one_of_each_and_few_of_all_in_the_order_in_which_they_came() -> None:
    visitors = Visitors(FairTurns(2))
    async with trio.open_nursery() as nursery:
        for name, organization in (("a1", ACME), ("a2", ACME), ("a3", ACME), ("b1", GLOBEX), ("c1", HOUSE)):
            nursery.start_soon(visitors.visit, name, organization)
            await wait_all_tasks_blocked()
        assert visitors.inside == ["a1", "b1"]
        # Acme's second waited longer than the house's first; but it was not its turn while Acme's first had one.
        assert await visitors.let_go("a1") == ["b1", "c1"]
        assert await visitors.let_go("b1") == ["c1", "a2"]
        assert await visitors.let_go("c1") == ["a2"]
        assert await visitors.let_go("a2") == ["a3"]
        assert await visitors.let_go("a3") == []
    assert not visitors.refused


async def test_a_caller_who_finds_the_queue_full_is_told_at_once_and_others_are_not() -> None:
    visitors = Visitors(FairTurns(2, most_waiting=1))
    async with trio.open_nursery() as nursery:
        for name, organization in (("a1", ACME), ("a2", ACME), ("a3", ACME), ("b1", GLOBEX)):
            nursery.start_soon(visitors.visit, name, organization)
            await wait_all_tasks_blocked()
        assert (visitors.inside, visitors.refused) == (["a1", "b1"], ["a3"])
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize("organization", [ACME, HOUSE])
async def test_a_caller_who_waits_too_long_is_told_and_stands_in_nobodys_way(
    organization: OrganizationId, autojump_clock: MockClock
) -> None:
    """For the organization's own turn, or for one of the few."""
    turns = FairTurns(2, patience=3)
    visitors = Visitors(turns)
    async with trio.open_nursery() as nursery:
        for name, of in (("a1", ACME), ("b1", GLOBEX)):
            nursery.start_soon(visitors.visit, name, of)
            await wait_all_tasks_blocked()
        began = autojump_clock.current_time()
        await visitors.visit("late", organization)
        assert (autojump_clock.current_time() - began, visitors.refused) == (3, ["late"])
        await visitors.let_go("a1")
        nursery.start_soon(visitors.visit, "next", organization)
        await wait_all_tasks_blocked()
        assert visitors.inside == ["b1", "next"]
        nursery.cancel_scope.cancel()
    assert not turns._queues


async def test_a_caller_who_goes_leaves_nothing_behind() -> None:
    turns = FairTurns(1)
    visitors = Visitors(turns)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(visitors.visit, "a1", ACME)
        await wait_all_tasks_blocked()
        with trio.move_on_after(0.01):
            await visitors.visit("a2", ACME)
        with trio.move_on_after(0.01):
            await visitors.visit("b1", GLOBEX)
        assert list(turns._queues) == [ACME]
        await visitors.let_go("a1")
    with pytest.raises(ValueError, match="inside"):
        async with turns.take(ACME):
            raise ValueError("inside")
    async with turns.take(ACME):
        pass
    assert not turns._queues
