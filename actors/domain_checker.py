"""The domain checkers: look every week whether the proofs of verified domains are still published."""

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Final, Protocol, TypeVar

import structlog
import trio

from actors.due_sweepers import DueSweeper
from actors.failures import Mishaps
from core.domain.errors import Overloaded, Unavailable
from core.domain.tenancy.domains import Domain
from ports.metrics import Metrics

log = structlog.get_logger()

_INTERVAL: Final = 600.0
# All domains of a batch are checked at the same time, each for seconds at most, because others run the name servers and web servers, which
# may be slow.
_BATCH: Final = 8

Proved = TypeVar("Proved", bound=Domain)


class ProvedDomains(Protocol[Proved]):
    """The use case that owns the proved domains."""

    async def claim_due(self, limit: int) -> Sequence[Proved]: ...

    async def recheck(self, domain: Proved, /) -> None: ...


def domain_checker(
    name: str,
    domains: ProvedDomains[Proved],
    *,
    metrics: Metrics,
    spread: Callable[[], float],
    interval: float = _INTERVAL,
    batch: int = _BATCH,
) -> DueSweeper:
    mishaps = Mishaps(name, metrics)

    async def check(domain: Proved) -> None:
        """Checks one domain. A failure does not stop the checks of the others. A failed domain is checked again when its lease ends."""
        try:
            await domains.recheck(domain)
        except (Unavailable, Overloaded) as error:
            log.warning("domain_check_left", actor=name, domain=domain.name, detail=error.detail)
        except Exception as error:  # noqa: BLE001 - a mishap of this domain must not stop the others
            mishaps.tell(error, domain=domain.name)

    async def check_due(_since: datetime | None, limit: int) -> tuple[int, None]:
        """Checks one batch. A claimed domain is no longer due, whether its check succeeds or fails. So a batch needs no position where the
        last batch ended.
        """
        due = await domains.claim_due(limit)
        async with trio.open_nursery() as nursery:
            for domain in due:
                nursery.start_soon(check, domain)
        return len(due), None

    def tell(total: int) -> None:
        log.info("domains_checked", actor=name, domains=total)

    return DueSweeper(name, check_due, tell, spread=spread, interval=interval, batch=batch)
