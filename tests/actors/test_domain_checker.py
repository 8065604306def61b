"""The domain checker: a failure at one domain does not affect the others."""

from collections.abc import Sequence
from datetime import UTC, datetime
from uuid import uuid4

import pytest
import trio

from actors.sweepers import domain_checker
from core.domain.errors import Unavailable
from core.domain.identifiers import DomainId, OrganizationId
from core.domain.tenancy.domains import Domain
from tests.actors.observed import RememberedMetrics, no_spread
from tests.conftest import CapturedLog

ON_A_JUMPING_CLOCK = True


class Domains:
    """Three domains are due, and the first of them fails."""

    def __init__(self, mishap: Exception) -> None:
        self.due = [
            Domain(id=DomainId(uuid4()), organization=OrganizationId(uuid4()), name=f"{n}.example", token="t", created_at=datetime.now(UTC))
            for n in range(3)
        ]
        self.checked: list[str] = []
        self._mishap = mishap

    async def claim_due(self, limit: int) -> Sequence[Domain]:
        await trio.lowlevel.checkpoint()
        claimed, self.due = self.due[:limit], self.due[limit:]
        return claimed

    async def recheck(self, domain: Domain) -> None:
        if domain.name == "0.example":
            raise self._mishap
        await trio.sleep(7)
        self.checked.append(domain.name)


@pytest.mark.parametrize(("mishap", "broken"), [(OverflowError("a year"), 1), (Unavailable(retry_after=1), 0)])
async def test_a_check_that_fails_costs_no_other_domain_its_own(mishap: Exception, broken: int, log: CapturedLog) -> None:
    log.allow("work_broken")
    domains, metrics = Domains(mishap), RememberedMetrics()
    checker = domain_checker("domain_checker", domains, metrics=metrics, spread=no_spread)
    assert await checker.sweep() == 3
    assert sorted(domains.checked) == ["1.example", "2.example"]
    assert metrics.broken["domain_checker"] == broken
    assert len(log.events("domain_check_left")) == 1 - broken
