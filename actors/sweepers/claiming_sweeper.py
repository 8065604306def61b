"""Sweepers of things that are elsewhere: each thing has its turn, and for as long as its turn takes, no other process has it."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import datetime
from typing import Final, TypeVar

import structlog
import trio

from actors.failures import Mishaps
from actors.sweepers.due_sweepers import DueSweeper
from core.domain.errors import Overloaded, Unavailable
from ports.metrics import Metrics

log = structlog.get_logger()

INTERVAL: Final = 600.0
# All things of a batch have their turn at the same time, each for seconds at most, because others run the servers that are asked, which may
# be slow.
BATCH: Final = 8

Due = TypeVar("Due")


def claiming_sweeper(
    name: str,
    claim_due: Callable[[int], Awaitable[Sequence[Due]]],
    handle: Callable[[Due], Awaitable[None]],
    *,
    about: Callable[[Due], Mapping[str, str]],
    left: str,
    tell: Callable[[int], None],
    metrics: Metrics,
    spread: Callable[[], float],
    interval: float,
    batch: int,
) -> DueSweeper:
    """`about` names a thing in the log. `left` is the log's event for a turn that an outage has ended."""
    mishaps = Mishaps(name, metrics)

    async def turn(due: Due) -> None:
        """One turn. A failure does not stop the turns of the others. The thing has its next turn when its lease ends."""
        try:
            await handle(due)
        except (Unavailable, Overloaded) as error:
            log.warning(left, actor=name, detail=error.detail, **about(due))
        except Exception as error:  # noqa: BLE001 - a mishap of this thing must not stop the others
            mishaps.tell(error, **about(due))

    async def handle_due(_since: datetime | None, limit: int) -> tuple[int, None]:
        """One batch. What is claimed is no longer due, whether its turn succeeds or fails. So a batch needs no position where the last
        batch ended.
        """
        claimed = await claim_due(limit)
        async with trio.open_nursery() as nursery:
            for due in claimed:
                nursery.start_soon(turn, due)
        return len(claimed), None

    return DueSweeper(name, handle_due, tell, spread=spread, interval=interval, batch=batch)
