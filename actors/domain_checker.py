"""The domain checker: looks every week whether the proofs of verified domains are still published."""

from collections.abc import Callable
from datetime import datetime
from typing import Final

import structlog
import trio

from actors.due_sweeper import DueSweeper
from core.usecases.tenancy.domains import Domains

log = structlog.get_logger()

_INTERVAL: Final = 600.0
# All of a batch are looked at together, each for seconds at most: name servers and web servers that others run may take their time.
_BATCH: Final = 8


class DomainChecker(DueSweeper):
    name = "domain_checker"

    def __init__(self, domains: Domains, *, spread: Callable[[], float], interval: float = _INTERVAL, batch: int = _BATCH) -> None:
        super().__init__(self._check_due, spread=spread, interval=interval, batch=batch)
        self._domains = domains

    async def _check_due(self, _since: datetime | None, limit: int) -> tuple[int, datetime | None]:
        """What was claimed is due later, whatever comes of it: so no batch begins where the last one ended."""
        due = await self._domains.claim_due(limit)
        async with trio.open_nursery() as nursery:
            for domain in due:
                nursery.start_soon(self._domains.recheck, domain)
        return len(due), None

    def _tell(self, total: int) -> None:
        log.info("domains_checked", domains=total)
