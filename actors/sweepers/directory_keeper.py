"""The directory keeper: each connection by LDAP that keeps in step has a run when its interval is over. An owner who lets a run go on waits
for it, so the keeper looks every minute.
"""

from collections.abc import Callable, Sequence
from typing import Final, Protocol

import structlog

from actors.sweepers.claiming_sweeper import claiming_sweeper
from actors.sweepers.due_sweepers import DueSweeper
from core.domain.federation.directory_runs.runs import DirectoryStep
from ports.metrics import Metrics

log = structlog.get_logger()

_EVERY: Final = 60.0
# Runs are long, and each holds identities.
_AT_ONCE: Final = 2


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

    return claiming_sweeper(
        "directory_keeper",
        directories.claim_due,
        directories.run,
        about=lambda step: {"connection": str(step.connection)},
        left="directory_run_stopped",
        tell=tell,
        metrics=metrics,
        spread=spread,
        interval=interval,
        batch=batch,
    )
