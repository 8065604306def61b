"""How much a service is used, for the service's own servers."""

from core.domain.errors import Unauthorized
from core.domain.services.api_keys import KeyHolder
from core.domain.services.service_analytics import LOOKED_BACK, ServiceAnalytics
from ports.clock import Clock
from ports.services.service_analytics import ServiceAnalyticsLookup


class ServiceAnalysis:
    def __init__(self, lookup: ServiceAnalyticsLookup, clock: Clock) -> None:
        self._lookup = lookup
        self._clock = clock

    async def get(self, holder: KeyHolder) -> ServiceAnalytics:
        found = await self._lookup.find(holder.service, self._clock.now() - LOOKED_BACK)
        if found is None:
            # The service, and its keys with it, was deleted since the request came in.
            raise Unauthorized("The API key is not valid")
        return found
