"""The places for questions to hooks: how many there are, who gets a free one, and who is turned away."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final
from uuid import UUID

import pytest
import trio
import trio.testing

from adapters.outbound.hook_places import MOST_OF_KIND, MOST_OF_PERSON, MOST_OF_PROCESS, FairHookPlaces
from core.domain.identifiers import OrganizationId, UserId
from core.domain.identity.guards.hook_verdicts import NO_HOOKS, HooksBusy, HookVerdict
from core.domain.tenancy.hooks import HookPeople
from ports.tenancy.hooks import WaitingQuestion

ACME: Final = OrganizationId(UUID(int=1))
PATIENCE: Final = 5.0


def question(person: int, people: HookPeople = HookPeople.MEMBERS, organization: OrganizationId = ACME) -> WaitingQuestion:
    return WaitingQuestion(organization=organization, people=people, person=UserId(UUID(int=1000 + person)), seconds=PATIENCE)


class Questions:
    """Questions that hold their place until they are told to end, in the order in which they got it."""

    def __init__(self, nursery: trio.Nursery) -> None:
        self.places = FairHookPlaces()
        self.nursery = nursery
        self.asking: list[WaitingQuestion] = []
        self.turned_away: list[WaitingQuestion] = []
        self._ends: list[trio.Event] = []

    async def ask(self, *questions: WaitingQuestion) -> None:
        for one in questions:
            self.nursery.start_soon(self._one, one)
            await trio.testing.wait_all_tasks_blocked()

    async def _one(self, one: WaitingQuestion) -> None:
        try:
            async with self.places.place(one):
                end = trio.Event()
                self.asking.append(one)
                self._ends.append(end)
                await end.wait()
        except HooksBusy:
            self.turned_away.append(one)

    async def end(self, number: int = 0) -> None:
        """Ends the question that got the place so manieth."""
        self._ends[number].set()
        await trio.testing.wait_all_tasks_blocked()


@asynccontextmanager
async def staged() -> AsyncIterator[Questions]:
    async with trio.open_nursery() as nursery:
        yield Questions(nursery)
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize("people", HookPeople)
async def test_each_kind_of_people_has_places_of_its_own(people: HookPeople) -> None:
    most = MOST_OF_KIND[people]
    async with staged() as scene:
        await scene.ask(*(question(number, people) for number in range(most + 3)))
        assert len(scene.asking) == most
        for other in HookPeople:
            if other is not people:
                await scene.ask(question(0, other))
        assert len(scene.asking) == most + 2
        await scene.ask(question(0, people, OrganizationId(UUID(int=2))))
        assert len(scene.asking) == most + 3


async def test_a_free_place_goes_to_whoever_holds_the_fewest() -> None:
    async with staged() as scene:
        others = HookPeople.OTHERS
        await scene.ask(*[question(1, others)] * 8)
        await scene.ask(question(2, others), question(3, others))
        assert [one.person.int - 1000 for one in scene.asking] == [1] * 5
        await scene.end(0)
        await scene.end(1)
        assert [one.person.int - 1000 for one in scene.asking[5:]] == [2, 3]


async def test_places_of_the_process_go_to_organizations_in_turn() -> None:
    async with staged() as scene:
        crowded = [OrganizationId(UUID(int=10 + number)) for number in range(MOST_OF_PROCESS // 20)]
        for organization in crowded:
            await scene.ask(*(question(number, organization=organization) for number in range(20)))
        assert len(scene.asking) == MOST_OF_PROCESS
        await scene.ask(*(question(number, HookPeople.KNOWN, crowded[0]) for number in range(3)))
        await scene.ask(question(0), question(1))
        await scene.end(0)
        await scene.end(20)
        # The organization that holds none is served first, although it came last.
        assert [one.organization for one in scene.asking[MOST_OF_PROCESS:]] == [ACME, ACME]


async def test_whoever_waits_in_vain_is_turned_away_and_leaves_no_trace(
    autojump_clock: trio.testing.MockClock,  # noqa: ARG001 - waits in no time
) -> None:
    async with staged() as scene:
        most = MOST_OF_KIND[HookPeople.OTHERS]
        await scene.ask(*(question(number, HookPeople.OTHERS) for number in range(most)))
        began = trio.current_time()
        with pytest.raises(HooksBusy):
            async with scene.places.place(question(9, HookPeople.OTHERS)):
                pytest.fail("there was no place")
        assert trio.current_time() - began == pytest.approx(PATIENCE)
        for number in range(most):
            await scene.end(number)
        assert (scene.places._all, scene.places._line, +scene.places._of_kind) == (0, {}, {})


async def test_whoever_leaves_the_line_takes_no_place() -> None:
    async with staged() as scene:
        await scene.ask(*(question(number, HookPeople.OTHERS) for number in range(5)))
        with trio.CancelScope() as scope:
            async with trio.open_nursery() as nursery:

                async def waits() -> None:
                    async with scene.places.place(question(9, HookPeople.OTHERS)):
                        pytest.fail("there was no place")

                nursery.start_soon(waits)
                await trio.testing.wait_all_tasks_blocked()
                scope.cancel()
        await scene.end(0)
        assert scene.places._all == 4
        assert scene.places._line == {}


async def test_eight_of_a_person_wait_and_the_ninth_is_turned_away_at_once() -> None:
    places, said, got = FairHookPlaces(), trio.Event(), list[HookVerdict]()
    asked = 0

    async def ask() -> HookVerdict:
        nonlocal asked
        asked += 1
        await said.wait()
        return NO_HOOKS

    async def one() -> None:
        got.append(await places.join("thing", question(1), ask))

    async with trio.open_nursery() as nursery:
        for _ in range(MOST_OF_PERSON):
            nursery.start_soon(one)
        await trio.testing.wait_all_tasks_blocked()
        with pytest.raises(HooksBusy):
            await places.join("thing", question(1), ask)
        # Neither another person nor another organization waits for that.
        nursery.start_soon(places.join, "another", question(2), ask)
        nursery.start_soon(places.join, "elsewhere", question(1, organization=OrganizationId(UUID(int=2))), ask)
        await trio.testing.wait_all_tasks_blocked()
        said.set()
    assert (len(got), asked) == (MOST_OF_PERSON, 3)
    assert (+places._of_person, places._under_way) == ({}, {})


async def test_one_of_those_that_wait_asks_anew_when_the_first_has_left() -> None:
    places, asked, said = FairHookPlaces(), 0, trio.Event()

    async def ask() -> HookVerdict:
        nonlocal asked
        asked += 1
        await said.wait()
        return NO_HOOKS

    async with trio.open_nursery() as nursery:
        first = trio.CancelScope()

        async def leaves() -> None:
            with first:
                await places.join("thing", question(1), ask)

        nursery.start_soon(leaves)
        await trio.testing.wait_all_tasks_blocked()
        nursery.start_soon(places.join, "thing", question(1), ask)
        await trio.testing.wait_all_tasks_blocked()
        assert asked == 1
        first.cancel()
        await trio.testing.wait_all_tasks_blocked()
        assert asked == 2
        said.set()


async def test_whoever_waits_for_a_question_that_is_turned_away_is_turned_away_too() -> None:
    places, goes = FairHookPlaces(), trio.Event()

    async def ask() -> HookVerdict:
        await goes.wait()
        raise HooksBusy(retry_after=3, detail="none was free")

    waits: list[float] = []

    async def one() -> None:
        with pytest.raises(HooksBusy) as refused:
            await places.join("thing", question(1), ask)
        waits.append(refused.value.retry_after)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(one)
        nursery.start_soon(one)
        await trio.testing.wait_all_tasks_blocked()
        goes.set()
    assert waits == [3, 3]
