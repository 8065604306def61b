"""The domain checkers: look every week whether the proofs of verified domains are still published."""

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Final, Generic, Protocol, TypeVar

import structlog
import trio

from actors.due_sweeper import DueSweeper
from actors.failures import Mishaps
from core.domain.errors import Overloaded, Unavailable
from core.domain.tenancy.domains import Domain
from ports.metrics import Metrics

log = structlog.get_logger()

_INTERVAL: Final = 600.0
# All of a batch are looked at together, each for seconds at most: name servers and web servers that others run may take their time.
_BATCH: Final = 8

Proved = TypeVar("Proved", bound=Domain)


class ProvedDomains(Protocol[Proved]):
    """What domains are proved for."""

    async def claim_due(self, limit: int) -> Sequence[Proved]: ...

    async def recheck(self, domain: Proved, /) -> None: ...


class DomainChecker(DueSweeper, Generic[Proved]):
    name = "domain_checker"

    def __init__(
        self,
        domains: ProvedDomains[Proved],
        *,
        metrics: Metrics,
        spread: Callable[[], float],
        interval: float = _INTERVAL,
        batch: int = _BATCH,
    ) -> None:
        super().__init__(self._check_due, spread=spread, interval=interval, batch=batch)
        self._domains = domains
        self._mishaps = Mishaps(self.name, metrics)

    async def _check_due(self, _since: datetime | None, limit: int) -> tuple[int, datetime | None]:
        """What was claimed is due later, whatever comes of it: so no batch begins where the last one ended."""
        due = await self._domains.claim_due(limit)
        async with trio.open_nursery() as nursery:
            for domain in due:
                nursery.start_soon(self._check, domain)
        return len(due), None

    async def _check(self, domain: Proved) -> None:
        """What comes of one domain changes nothing for the others. It is looked at again when its lease has run out."""
        try:
            await self._domains.recheck(domain)
        except (Unavailable, Overloaded) as error:
            log.warning("domain_check_left", actor=self.name, domain=domain.name, detail=error.detail)
        except Exception as error:  # noqa: BLE001 - the mishap of this one
            self._mishaps.tell(error, domain=domain.name)

    def _tell(self, total: int) -> None:
        log.info("domains_checked", actor=self.name, domains=total)


class DomainRouteChecker(DomainChecker[Proved]):
    """The same for the mail domains that routes are for."""

    name = "domain_route_checker"
