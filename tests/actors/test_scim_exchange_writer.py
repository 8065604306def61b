"""The flight recorder's actor: no request waits for it, and it loses only exchanges that find no room."""

from collections.abc import Sequence
from datetime import UTC, datetime
from uuid import uuid4

import pytest
import trio
from trio.testing import MockClock

from actors.recorders import ScimExchangeWriter
from core.domain.errors import Unavailable
from core.domain.federation.scim.tokens import ScimExchange
from core.domain.identifiers import OrganizationId, ScimExchangeId, ScimTokenId
from tests.actors.observed import RememberedMetrics
from tests.conftest import CapturedLog


def exchange() -> ScimExchange:
    return ScimExchange(
        id=ScimExchangeId(uuid4()),
        organization=OrganizationId(uuid4()),
        token=ScimTokenId(uuid4()),
        token_name="Directory",
        method="GET",
        path="/scim/v2/Users",
        query=None,
        request=None,
        status=200,
        scim_type=None,
        reason=None,
        occurred_at=datetime(2026, 1, 1, tzinfo=UTC),
    )


class ExchangeStore:
    """A store that takes exchanges, unless it is away."""

    def __init__(self) -> None:
        self.written: list[ScimExchange] = []
        self.away = 0

    async def add(self, exchanges: Sequence[ScimExchange]) -> None:
        if self.away:
            self.away -= 1
            raise Unavailable(retry_after=1)
        self.written += exchanges

    async def list(self, _organization: OrganizationId, _limit: int, *, refused: bool) -> Sequence[ScimExchange]:
        return [one for one in self.written if one.status >= 400 or not refused]


@pytest.mark.parametrize("away", [0, 2])
async def test_what_is_recorded_is_written_also_after_an_outage(
    away: int,
    autojump_clock: MockClock,  # noqa: ARG001 - waits in no time
) -> None:
    store, told = ExchangeStore(), [exchange(), exchange(), exchange()]
    store.away = away
    recorder = ScimExchangeWriter(store, RememberedMetrics(), spread=lambda: 0.5)
    async with trio.open_nursery() as nursery:
        await nursery.start(lambda task_status: recorder.run(task_status=task_status))
        recorder.record(told[0])
        recorder.record(told[1])
        await trio.sleep(5)
        assert store.written == told[:2]
        recorder.record(told[2])
        nursery.cancel_scope.cancel()
    assert store.written == told, "what waits at the end is written"


async def test_an_exchange_that_cannot_be_written_costs_no_other_organization_its_own(
    log: CapturedLog,
    autojump_clock: MockClock,  # noqa: ARG001 - waits in no time
) -> None:
    log.allow("work_broken")
    told = [exchange(), exchange(), exchange()]

    class Choosy(ExchangeStore):
        async def add(self, exchanges: Sequence[ScimExchange]) -> None:
            if told[1] in exchanges:
                raise ValueError("not this one")
            await super().add(exchanges)

    store, metrics = Choosy(), RememberedMetrics()
    recorder = ScimExchangeWriter(store, metrics, spread=lambda: 0.5)
    async with trio.open_nursery() as nursery:
        await nursery.start(lambda task_status: recorder.run(task_status=task_status))
        for one in told:
            recorder.record(one)
        await trio.sleep(5)
        later = exchange()
        recorder.record(later)
        await trio.sleep(5)
        nursery.cancel_scope.cancel()
    assert store.written == [told[0], told[2], later]
    assert metrics.broken == {"scim_recorder": 1}


async def test_what_there_is_no_room_for_is_dropped_and_told(
    log: CapturedLog,
    autojump_clock: MockClock,  # noqa: ARG001 - waits in no time
) -> None:
    store, told = ExchangeStore(), [exchange(), exchange()]
    recorder = ScimExchangeWriter(store, RememberedMetrics(), spread=lambda: 0.5, most=1)
    async with trio.open_nursery() as nursery:
        await nursery.start(lambda task_status: recorder.run(task_status=task_status))
        for one in told:
            recorder.record(one)
        await trio.sleep(3)
        nursery.cancel_scope.cancel()
    assert store.written == told[:1]
    (dropped,) = log.events("scim_exchanges_dropped")
    assert dropped["exchanges"] == 1
