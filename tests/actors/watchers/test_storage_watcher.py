"""The storage watcher keeps a sample a day, and tells the metrics."""

from dataclasses import dataclass
from datetime import date

import trio
from trio.testing import MockClock

from actors.watchers import StorageWatcher
from core.domain.errors import Unavailable
from core.domain.platform.installation import Storage, StoredTable
from tests.actors.observed import RememberedMetrics
from tests.conftest import CapturedLog


@dataclass
class Samples:
    """Of a database that is away at first."""

    away: int = 2
    kept: int = 0

    async def keep(self) -> bool:
        await trio.lowlevel.checkpoint()
        if self.away:
            self.away -= 1
            raise Unavailable(retry_after=0.1)
        self.kept += 1
        return self.kept == 1

    async def look(self) -> Storage:
        await trio.lowlevel.checkpoint()
        return Storage(date(2026, 11, 23), None, 100, [StoredTable("events", 1, 70, 0.0, None)])


async def test_it_keeps_one_sample_and_tells_the_sizes(log: CapturedLog, autojump_clock: MockClock) -> None:  # noqa: ARG001 - waits in no time
    samples, metrics = Samples(), RememberedMetrics()
    with trio.move_on_after(25):
        async with trio.open_nursery() as nursery:
            await nursery.start(StorageWatcher(samples, metrics=metrics, spread=lambda: 0.0, interval=10).run)
    assert samples.kept == 3
    assert len(log.events("storage_sampled")) == 1
    assert metrics.sizes == {"": 100, "events": 70}


class RefusedSamples(Samples):
    """Of a role that may not write samples."""

    async def keep(self) -> bool:
        await super().keep()
        raise ValueError("permission denied for table storage_samples")


async def test_a_sample_that_is_refused_stops_nothing(log: CapturedLog, autojump_clock: MockClock) -> None:  # noqa: ARG001 - waits in no time
    log.allow("work_broken")
    samples, metrics = RefusedSamples(away=0), RememberedMetrics()
    with trio.move_on_after(25):
        async with trio.open_nursery() as nursery:
            await nursery.start(StorageWatcher(samples, metrics=metrics, spread=lambda: 0.0, interval=10).run)
    assert (samples.kept, metrics.broken["storage_watcher"]) == (3, 3)
    assert metrics.sizes == {"": 100, "events": 70}
