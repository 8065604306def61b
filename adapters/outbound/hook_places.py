"""Limits the concurrent calls of hooks: which organization may call, which calls wait, and which are refused. In the memory of one
process.
"""

from collections import Counter, deque
from collections.abc import AsyncIterator, Awaitable, Callable, Hashable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Final, TypeVar

import trio

from core.domain.identifiers import OrganizationId, UserId
from core.domain.identity.guards.hook_verdicts import HooksBusy, HookVerdict
from core.domain.tenancy.hooks import HookPeople
from ports.tenancy.hooks import WaitingQuestion

MOST_OF_PROCESS: Final = 200
MOST_OF_KIND: Final = {HookPeople.MEMBERS: 20, HookPeople.KNOWN: 20, HookPeople.OTHERS: 5}
"""In one organization, at once."""
MOST_OF_PERSON: Final = 8
"""Requests of one person in one organization that wait, whether they ask, wait for a place, or wait for another one's answer."""
RETRY_AFTER: Final = 1.0

_Kind = tuple[OrganizationId, HookPeople]
_Key = TypeVar("_Key", bound=Hashable)


@dataclass(slots=True, eq=False)
class _Waiting:
    question: WaitingQuestion
    called: trio.Event = field(default_factory=trio.Event)
    has_place: bool = False


@dataclass(slots=True, eq=False)
class _UnderWay:
    ended: trio.Event = field(default_factory=trio.Event)
    verdict: HookVerdict | None = None
    busy: HooksBusy | None = None


class FairHookPlaces:
    """Implements `ports.tenancy.hooks.HookPlaces`."""

    def __init__(self) -> None:
        self._under_way: dict[Hashable, _UnderWay] = {}
        self._of_person: Counter[tuple[OrganizationId, UserId]] = Counter()
        self._all = 0
        self._of_organization: Counter[OrganizationId] = Counter()
        self._of_kind: Counter[_Kind] = Counter()
        self._asking: Counter[tuple[OrganizationId, UserId]] = Counter()
        # Whoever has waited longest stands first, at each of the three.
        self._line: dict[_Kind, dict[UserId, deque[_Waiting]]] = {}

    async def join(self, thing: Hashable | None, question: WaitingQuestion, ask: Callable[[], Awaitable[HookVerdict]]) -> HookVerdict:
        person = question.organization, question.person
        if self._of_person[person] >= MOST_OF_PERSON:
            raise HooksBusy(retry_after=RETRY_AFTER, detail="too many requests of one person wait for a hook")
        self._of_person[person] += 1
        try:
            return await self._joined(thing, ask)
        finally:
            _less(self._of_person, person)

    async def _joined(self, thing: Hashable | None, ask: Callable[[], Awaitable[HookVerdict]]) -> HookVerdict:
        if thing is None:
            return await ask()
        while (other := self._under_way.get(thing)) is not None:
            await other.ended.wait()
            if other.verdict is not None:
                return other.verdict
            if other.busy is not None:
                raise HooksBusy(retry_after=other.busy.retry_after, detail="the question that this one waited for was turned away")
            # Whoever asked has left, or its flow was over. One of those that waited asks anew.
        own = self._under_way[thing] = _UnderWay()
        try:
            own.verdict = await ask()
        except HooksBusy as busy:
            own.busy = busy
            raise
        finally:
            del self._under_way[thing]
            own.ended.set()
        return own.verdict

    @asynccontextmanager
    async def place(self, question: WaitingQuestion) -> AsyncIterator[None]:
        waiting = _Waiting(question)
        self._line.setdefault((question.organization, question.people), {}).setdefault(question.person, deque()).append(waiting)
        self._give_places()
        try:
            if not waiting.has_place:
                with trio.move_on_after(question.seconds):
                    await waiting.called.wait()
            if not waiting.has_place:
                raise HooksBusy(retry_after=RETRY_AFTER, detail="no place for a question to a hook was free in time")
            yield
        finally:
            if waiting.has_place:
                self._leave(question)
                self._give_places()
            else:
                self._give_up(waiting)

    def _give_places(self) -> None:
        while self._all < MOST_OF_PROCESS:
            free = [kind for kind in self._line if self._of_kind[kind] < MOST_OF_KIND[kind[1]]]
            if not free:
                return
            kind = min(free, key=lambda one: (self._of_organization[one[0]], self._of_kind[one]))
            organization, line = kind[0], self._line[kind]
            person = min(line, key=lambda one: self._asking[organization, one])
            waiting = line[person].popleft()
            # Both go to the end of their line.
            others = line.pop(person)
            if others:
                line[person] = others
            del self._line[kind]
            if line:
                self._line[kind] = line
            self._all += 1
            self._of_organization[organization] += 1
            self._of_kind[kind] += 1
            self._asking[organization, person] += 1
            waiting.has_place = True
            waiting.called.set()

    def _leave(self, question: WaitingQuestion) -> None:
        self._all -= 1
        _less(self._of_organization, question.organization)
        _less(self._of_kind, (question.organization, question.people))
        _less(self._asking, (question.organization, question.person))

    def _give_up(self, waiting: _Waiting) -> None:
        kind, person = (waiting.question.organization, waiting.question.people), waiting.question.person
        line = self._line[kind]
        line[person].remove(waiting)
        if not line[person]:
            del line[person]
        if not line:
            del self._line[kind]


def _less(counter: Counter[_Key], key: _Key) -> None:
    counter[key] -= 1
    if not counter[key]:
        del counter[key]
