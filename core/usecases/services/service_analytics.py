"""Figures about the use of a service, for the service's own servers."""

from core.domain.errors import Unauthorized
from core.domain.services.api_keys import KeyHolder
from core.domain.services.service_analytics import LOOKED_BACK, ServiceAnalytics
from core.frozen import Frozen
from ports.clock import Clock
from ports.services.service_analytics import ServiceAnalyticsLookup


class ServiceAnalysis(Frozen):
    lookup: ServiceAnalyticsLookup
    clock: Clock

    async def get(self, holder: KeyHolder) -> ServiceAnalytics:
        found = await self.lookup.find(holder.service, self.clock.now() - LOOKED_BACK)
        if found is None:
            # Since the request came in, the service was deleted together with its keys.
            raise Unauthorized("The API key is not valid")
        return found
