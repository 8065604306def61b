"""The domain checkers: look every week whether the proofs of verified domains are still published."""

from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

import structlog

from actors.sweepers.claiming_sweeper import BATCH, INTERVAL, claiming_sweeper
from actors.sweepers.due_sweepers import DueSweeper
from core.domain.tenancy.domains import Domain
from ports.metrics import Metrics

log = structlog.get_logger()

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
    interval: float = INTERVAL,
    batch: int = BATCH,
) -> DueSweeper:
    def tell(total: int) -> None:
        log.info("domains_checked", actor=name, domains=total)

    return claiming_sweeper(
        name,
        domains.claim_due,
        domains.recheck,
        about=lambda domain: {"domain": domain.name},
        left="domain_check_left",
        tell=tell,
        metrics=metrics,
        spread=spread,
        interval=interval,
        batch=batch,
    )
