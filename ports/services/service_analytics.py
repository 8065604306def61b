"""Counts of how much a service is used."""

from datetime import datetime
from typing import Protocol

from core.domain.identifiers import ServiceId
from core.domain.services.service_analytics import ServiceAnalytics


class ServiceAnalyticsLookup(Protocol):
    """One statement and one round trip, outside any unit of work."""

    async def find(self, service: ServiceId, since: datetime) -> ServiceAnalytics | None:
        """Sign-ins from `since` on. None when the service is gone."""
