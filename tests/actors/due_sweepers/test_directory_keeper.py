"""The directory keeper: a directory that is slow costs others nothing, and a run that hangs ends."""

from collections.abc import Sequence
from typing import Final
from uuid import UUID, uuid4

import trio

from actors.foundation import LONGEST_WORK
from actors.supervisor import Supervisor
from actors.sweepers import directory_keeper
from core.domain.federation.directory_runs.runs import DirectoryStep
from core.domain.identifiers import OrganizationId, UpstreamProviderId
from tests.actors.observed import RememberedMetrics, no_spread
from tests.actors.test_heartbeats import Beats
from tests.conftest import CapturedLog

ON_A_JUMPING_CLOCK = True
SLOW: Final = 1200.0


def _step(number: int) -> DirectoryStep:
    return DirectoryStep(
        connection=UpstreamProviderId(UUID(int=number)),
        organization=OrganizationId(uuid4()),
        holder=uuid4(),
        runs=0,
        wants_whole=False,
        whole_at=None,
        marks=None,
        agreed_digest=None,
        agreed_run=None,
        held_digest=None,
        held_since=None,
    )


class KeptDirectories:
    """The first one is slow."""

    def __init__(self, slow: float, many: int, broken: int = -1) -> None:
        self.due = [_step(number) for number in range(many)]
        self.done: dict[int, float] = {}
        self._slow = slow
        self._broken = broken

    async def claim_due(self, limit: int) -> Sequence[DirectoryStep]:
        await trio.lowlevel.checkpoint()
        claimed, self.due = self.due[:limit], self.due[limit:]
        return claimed

    async def run(self, step: DirectoryStep, /) -> None:
        number = step.connection.int
        if number == self._broken:
            raise OverflowError("a mishap")
        await trio.sleep(self._slow if number == 0 else 1)
        self.done[number] = trio.current_time()


async def test_a_slow_directory_delays_no_other() -> None:
    directories, began = KeptDirectories(SLOW, 12), trio.current_time()
    await directory_keeper(directories, metrics=RememberedMetrics(), spread=no_spread).sweep()
    assert max(at for number, at in directories.done.items() if number) - began < 30
    assert len(directories.done) == 12


async def test_a_run_that_hangs_ends(log: CapturedLog) -> None:
    directories = KeptDirectories(10 * 3600.0, 1)
    await directory_keeper(directories, metrics=RememberedMetrics(), spread=no_spread).sweep()
    assert len(log.events("directory_run_too_long")) == 1


async def test_a_long_run_is_no_stalled_actor() -> None:
    beats = Beats()
    keeper = directory_keeper(KeptDirectories(SLOW, 1), metrics=beats, spread=no_spread)
    async with trio.open_nursery() as nursery:
        await nursery.start(Supervisor([keeper], beats, spread=no_spread).run)
        await trio.sleep(SLOW - 10)
        assert beats.due["directory_keeper"] > trio.current_time() + LONGEST_WORK / 2
        nursery.cancel_scope.cancel()


async def test_a_mishap_is_told_of_its_own_connection(log: CapturedLog) -> None:
    log.allow("work_broken")
    await directory_keeper(KeptDirectories(5, 6, broken=3), metrics=RememberedMetrics(), spread=no_spread).sweep()
    assert [one["connection"] for one in log.events("work_broken")] == [str(UUID(int=3))]
