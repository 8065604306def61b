"""The connection refresher: each connection of an organization has its turn every day. Its metadata are read again, and owners are warned
of certificates that end.
"""

from collections.abc import Callable, Sequence
from typing import Protocol

import structlog

from actors.sweepers.claiming_sweeper import BATCH, INTERVAL, claiming_sweeper
from actors.sweepers.due_sweepers import DueSweeper
from ports.metrics import Metrics
from ports.tenancy.connections import DueConnection

log = structlog.get_logger()


class RefreshedConnections(Protocol):
    """The use case that owns the connections' turns."""

    async def claim_due(self, limit: int) -> Sequence[DueConnection]: ...

    async def refresh(self, due: DueConnection, /) -> None: ...


def connection_refresher(
    connections: RefreshedConnections,
    *,
    metrics: Metrics,
    spread: Callable[[], float],
    interval: float = INTERVAL,
    batch: int = BATCH,
) -> DueSweeper:
    def tell(total: int) -> None:
        log.info("connections_refreshed", actor="connection_refresher", connections=total)

    return claiming_sweeper(
        "connection_refresher",
        connections.claim_due,
        connections.refresh,
        about=lambda due: {"connection": str(due.provider.id)},
        left="connection_refresh_left",
        tell=tell,
        metrics=metrics,
        spread=spread,
        interval=interval,
        batch=batch,
    )
