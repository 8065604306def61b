"""The directory keeper: each connection by LDAP that keeps in step has a run when its interval is over. An owner who lets a run go on waits
for it, so the keeper looks every minute. A run takes as long as its directory does, which may be slow on purpose: it takes one place, and
the other places go on with the runs of others.
"""

from collections.abc import Callable, Sequence
from typing import Final, Protocol

import structlog
import trio

from actors.heartbeats import turned
from actors.sweepers.claiming_sweeper import claiming_sweeper
from actors.sweepers.due_sweepers import DueSweeper
from core.domain.federation.directory_runs.runs import DirectoryStep
from core.domain.identifiers import UpstreamProviderId
from ports.metrics import Metrics

log = structlog.get_logger()

_EVERY: Final = 60.0
# Runs are long, and each holds identities.
_AT_ONCE: Final = 2
# Reading has its own bounds. This is one for all of it, so that no run is under way for good.
_LONGEST: Final = 3600.0


class KeptDirectories(Protocol):
    """The use case that owns the runs."""

    async def claim_due(self, limit: int) -> Sequence[DirectoryStep]: ...

    async def run(self, step: DirectoryStep, /) -> None: ...


def directory_keeper(
    directories: KeptDirectories,
    *,
    metrics: Metrics,
    spread: Callable[[], float],
    interval: float = _EVERY,
    batch: int = _AT_ONCE,
) -> DueSweeper:
    def tell(total: int) -> None:
        log.info("directories_kept_in_step", actor="directory_keeper", connections=total)

    under_way: dict[UpstreamProviderId, UpstreamProviderId] = {}

    async def beat() -> None:
        """A run is no turn that hangs."""
        while True:
            turned(pause=interval)
            await trio.sleep(interval)

    async def one(step: DirectoryStep) -> None:
        with trio.move_on_after(_LONGEST) as scope:
            await directories.run(step)
        if scope.cancelled_caught:
            log.warning("directory_run_too_long", connection=str(step.connection))

    async def in_place(claimed: DirectoryStep) -> None:
        """The run, and then what is due besides: who waits for a place does not wait for the run in the other one."""
        due: Sequence[DirectoryStep] = [claimed]
        async with trio.open_nursery() as nursery:
            nursery.start_soon(beat)
            while due:
                under_way[claimed.connection] = due[0].connection
                await one(due[0])
                due = await directories.claim_due(1)
            nursery.cancel_scope.cancel()

    return claiming_sweeper(
        "directory_keeper",
        directories.claim_due,
        in_place,
        about=lambda step: {"connection": str(under_way.pop(step.connection, step.connection))},
        left="directory_run_stopped",
        tell=tell,
        metrics=metrics,
        spread=spread,
        interval=interval,
        batch=batch,
    )
