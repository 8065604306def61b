"""Notices outages of upstream providers. If an organization's policy allows it, its people sign in another way during an outage."""

from collections.abc import Awaitable
from typing import TypeVar

from core.domain.identity.upstream.providers import Upstream
from core.domain.identity.upstream.sign_in import ProviderAway, WayThrough
from core.frozen import Frozen
from ports.clock import Clock
from ports.metrics import Metrics
from ports.unit_of_work import UnitOfWorkFactory

Answer = TypeVar("Answer")


class ProviderOutages(Frozen):
    unit_of_work: UnitOfWorkFactory
    metrics: Metrics
    clock: Clock

    async def watch(self, upstream: Upstream, call: Awaitable[Answer]) -> Answer:
        """Makes a call to the provider and notes whether the provider answered. Returns the call's answer and raises the call's errors."""
        try:
            return await call
        except ProviderAway:
            self.metrics.upstream_sign_in(upstream.label, "away")
            async with self.unit_of_work() as uow:
                await uow.provider_outages.failed(upstream.key, self.clock.now())
                await uow.commit()
            raise

    async def watch_return(self, upstream: Upstream, way: WayThrough, call: Awaitable[Answer]) -> Answer:
        """Does what `watch` does, for the call after a person's return. A success shows that people get through, and ends an outage."""
        answer = await self.watch(upstream, call)
        if way.is_away:
            async with self.unit_of_work() as uow:
                await uow.provider_outages.worked(upstream.key)
                await uow.commit()
        return answer
