"""The audit linker: its pace, and an outage. tests/adapters/postgres/record/test_audit_chains.py shows its work."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import cast

import trio

from actors.audit_log import AuditLinker
from actors.foundation import LONGEST_SILENCE, Mailbox
from adapters.postgres.jobs import PostgresDoorbell
from core.domain.errors import Unavailable
from core.domain.record.audit import AUDIT_TOPIC
from core.domain.tenancy.siem import SIEM_TOPIC
from core.usecases.record import LINKED_AT_ONCE, Audit
from ports.record import AuditChains, AuditLog
from tests.actors.observed import no_spread
from tests.conftest import CapturedLog

ON_A_JUMPING_CLOCK = True


class CountedEntries:
    """Implements the called methods of the ports of `Audit`, over a number."""

    def __init__(self, waiting: int = 0, *, taken_by_another_until: float = 0.0) -> None:
        self.waiting = waiting
        self.taken_by_another_until = taken_by_another_until
        self.away_until = 0.0
        self.doorbell = PostgresDoorbell("")
        self.asked_at: list[float] = []

    def come(self, number: int) -> None:
        """As a commit of this process that writes entries."""
        self.waiting += number
        self.doorbell.ring_here(AUDIT_TOPIC)

    async def get(self, purpose: str) -> bytes:
        assert purpose == "audit_chain"
        return b"k" * 32

    async def link(self, key: bytes, most: int) -> int | None:
        assert key == b"k" * 32
        await trio.lowlevel.checkpoint()
        self.asked_at.append(trio.current_time())
        if trio.current_time() < self.away_until:
            raise Unavailable(retry_after=2)
        if trio.current_time() < self.taken_by_another_until:
            return None
        linked = min(most, self.waiting)
        self.waiting -= linked
        return linked


@asynccontextmanager
async def at_work(queue: CountedEntries, *others: CountedEntries) -> AsyncIterator[None]:
    async with trio.open_nursery() as nursery:
        for one in (queue, *others):
            audit = Audit(cast("AuditLog", one), cast("AuditChains", one), one)
            linker = AuditLinker(audit, Mailbox.rung_by(one.doorbell, AUDIT_TOPIC), one.doorbell, spread=no_spread)
            await nursery.start(linker.run)
        yield
        nursery.cancel_scope.cancel()


async def test_while_nothing_comes_it_hardly_asks() -> None:
    queue = CountedEntries()
    async with at_work(queue):
        await trio.sleep(3600)
    assert len(queue.asked_at) <= 31


async def test_while_entries_come_all_the_time_it_looks_once_a_second() -> None:
    queue = CountedEntries()
    async with at_work(queue):
        for _ in range(950):
            queue.come(1)
            await trio.sleep(0.01)
    assert len(queue.asked_at) == 10


async def test_entries_of_a_process_that_died_before_it_rang_are_linked_by_another_in_the_end() -> None:
    queue = CountedEntries()
    async with at_work(queue):
        await trio.sleep(5)
        queue.waiting = 3
        await trio.sleep(LONGEST_SILENCE + 2)
        assert queue.waiting == 0


async def test_links_are_told_to_whoever_sends_them_on() -> None:
    queue = CountedEntries()
    sends = Mailbox.rung_by(queue.doorbell, SIEM_TOPIC)
    async with at_work(queue):
        await trio.sleep(5)
        assert not sends.is_full()
        queue.come(2)
        assert await sends.wait(1.1)


async def test_as_long_as_there_is_much_it_does_not_pause() -> None:
    queue = CountedEntries(5 * LINKED_AT_ONCE + 3)
    async with at_work(queue):
        await trio.sleep(0.5)
    assert queue.waiting == 0
    assert len(queue.asked_at) == 6


async def test_what_comes_is_linked_within_about_a_second() -> None:
    queue = CountedEntries()
    async with at_work(queue):
        await trio.sleep(3.1)
        queue.come(7)
        await trio.sleep(1.1)
        assert queue.waiting == 0


async def test_while_another_process_is_about_it_it_looks_again_a_second_later() -> None:
    queue = CountedEntries(5, taken_by_another_until=trio.current_time() + 3.5)
    async with at_work(queue):
        await trio.sleep(3.4)
        assert queue.waiting == 5
        await trio.sleep(1)
    assert queue.waiting == 0
    assert len(queue.asked_at) <= 5


async def test_an_outage_is_waited_out(log: CapturedLog) -> None:
    queue = CountedEntries(5)
    queue.away_until = trio.current_time() + 60
    async with at_work(queue):
        await trio.sleep(80)
    assert queue.waiting == 0
    assert len(log.events("actor_waits")) == len(log.events("actor_goes_on")) == 1
