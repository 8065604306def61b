"""Lets concurrent look-ups share one statement."""

from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final, Generic, TypeVar

import trio

from adapters.postgres.driver.connection import round_trips
from adapters.postgres.statements import shared_lookup_span

Key = TypeVar("Key")
Found = TypeVar("Found")

MOST: Final = 100
"""The largest number of look-ups in one statement. All rows of a statement become objects in one turn of the event loop."""
PATIENCE: Final = 0.25
"""After this many seconds, callers no longer wait for a statement under way: the server may have stopped answering, or the statement may
wait for a lock.
"""


class _Traveller(Generic[Key, Found]):
    """A task that waits: either for its turn to lead, or for the answer of a look-up that another task leads."""

    __slots__ = ("error", "found", "key", "leads", "task")

    def __init__(self, key: Key) -> None:
        self.key = key
        self.task: trio.lowlevel.Task | None = trio.lowlevel.current_task()
        self.leads = False
        self.found: Found | None = None
        self.error: Exception | None = None

    def leave(self, _raise_cancel: object) -> trio.lowlevel.Abort:
        """Called on cancellation. A task that would wake this one finds no task to wake."""
        self.task = None
        return trio.lowlevel.Abort.SUCCEEDED

    def wake(self) -> None:
        if self.task is not None:
            trio.lowlevel.reschedule(self.task)


class SharedLookups(Generic[Key, Found]):
    """`find` looks up several keys at once, and each caller gets what was found for its own key.

    A caller never joins a look-up that began before the caller arrived, so each caller sees what was true after it asked. The leader looks
    up for all callers that travel with it: they share the leader's failure, and no other caller does. A leader that is cancelled hands the
    lead on, and the new leader repeats the look-up for the other callers.

    A look-up that arrives while a statement is under way waits for the statement's return, and joins the next statement. A single look-up
    costs no more than without sharing. Each of many concurrent look-ups costs a share of a round trip.
    """

    def __init__(
        self,
        look_up: Callable[[Sequence[Key]], Awaitable[Mapping[Key, Found]]],
        *,
        abreast: int = 1,
        most: int = MOST,
        gathers: bool = False,
    ) -> None:
        """`look_up` gets each key once, at most `most` keys, and leaves out keys that it does not find. At most `abreast` look-ups are
        under way at once: with more of them, fewer callers share each look-up, but each caller waits less for other look-ups. `gathers`: a
        leader gives the other tasks one turn before it departs. Callers whom another shared look-up has woken come at the same moment.
        """
        self._look_up = look_up
        self._abreast = abreast
        self._most = most
        self._gathers = gathers
        self._under_way = 0
        self._departed = 0.0
        # While any task waits here, at least `abreast` look-ups are under way. A look-up that returns wakes the next waiting task.
        self._waiting: deque[_Traveller[Key, Found]] = deque()

    async def find(self, key: Key) -> Found | None:
        """None when nothing is found. Raises what the look-up raises."""
        if self._under_way < self._abreast or trio.current_time() - self._departed > PATIENCE:
            self._under_way += 1
            if self._gathers:
                self._departed = trio.current_time()
                await trio.lowlevel.cancel_shielded_checkpoint()
            return await self._lead(key)
        traveller: _Traveller[Key, Found] = _Traveller(key)
        self._waiting.append(traveller)
        with shared_lookup_span():
            await trio.lowlevel.wait_task_rescheduled(traveller.leave)
        if traveller.leads:
            return await self._lead(key)
        # This task waited for the server, as the leader did.
        counter = round_trips.get()
        if counter is not None:
            counter.count += 1
        if traveller.error is not None:
            raise traveller.error
        return traveller.found

    async def _lead(self, key: Key) -> Found | None:
        self._departed = trio.current_time()
        others = self._all_aboard()
        try:
            keys = list(dict.fromkeys([key, *(one.key for one in others)])) if others else [key]
            found = await self._look_up(keys)
        except Exception as error:
            for one in others:
                one.error = error
                one.wake()
            raise
        except BaseException:
            # The leader was cancelled. The other travellers arrived before all that wait now, so they go to the front.
            self._waiting.extendleft(reversed(others))
            raise
        else:
            for one in others:
                one.found = found.get(one.key)
                one.wake()
            return found.get(key)
        finally:
            self._call_next()

    def _all_aboard(self) -> list[_Traveller[Key, Found]]:
        """The waiting tasks that travel with the leader, oldest first."""
        others: list[_Traveller[Key, Found]] = []
        while self._waiting and len(others) < self._most - 1:
            one = self._waiting.popleft()
            if one.task is not None:
                others.append(one)
        return others

    def _call_next(self) -> None:
        """The task that has waited longest takes over the free place. When that task runs, all tasks that have arrived by then travel with
        it.
        """
        while self._waiting:
            one = self._waiting.popleft()
            if one.task is not None:
                one.leads = True
                one.wake()
                return
        self._under_way -= 1
