"""The watcher of others: one line a minute, however many deliveries fail."""

from uuid import uuid4

import trio

from actors.watchers import OutboundWatcher
from core.domain.identifiers import OrganizationId
from core.domain.record.deliveries import ReceiverKind
from core.usecases.outbound_reach import OutboundReach
from core.usecases.tenancy.hook_asking import HookWaits
from tests.actors.kept_queue import TrioClock
from tests.actors.observed import RememberedMetrics
from tests.conftest import CapturedLog

ON_A_JUMPING_CLOCK = True


async def test_it_tells_failures_once_a_minute_and_nothing_while_all_is_received(log: CapturedLog) -> None:
    began, reach, metrics = trio.current_time(), OutboundReach(TrioClock()), RememberedMetrics()
    acme, told = OrganizationId(uuid4()), []
    async with trio.open_nursery() as nursery:
        await nursery.start(OutboundWatcher(reach, HookWaits(TrioClock()), metrics).run)
        for minute in range(4):
            await trio.sleep_until(began + 60 * minute + 30)
            told.append(len(log.events("deliveries_failing")))
            for _ in range(100):
                reach.attempted(ReceiverKind.SIGNAL, uuid4(), acme, received=minute == 2)
        nursery.cancel_scope.cancel()
    assert told == [0, 1, 2, 2]
    assert log.events("deliveries_failing")[0]["signal"] == {"failed": 100, "received": 0, "failing_receivers": 100}
    assert metrics.reached[-1] == ("signal", 100, 200)
