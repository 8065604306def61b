"""The look-up behind each request to an application behind a proxy, and the signature of what the application is told."""

from collections.abc import Mapping
from datetime import datetime
from typing import Protocol

from core.domain.federation.proxy_checks import FoundProxy, ProxiedRequest
from core.domain.identifiers import ClientId
from core.domain.json import Json


class ProxyLookup(Protocol):
    """One statement and one round trip, outside any unit of work. Look-ups by many requests share one statement."""

    async def find(self, request: ProxiedRequest) -> FoundProxy | None:
        """The application by the proxy's secret, and who comes by the cookie or the key. A session that has ended is none. None when there
        is no such secret of an application behind a proxy.
        """

    async def client_at(self, host: str) -> ClientId | None:
        """The application of the host. Another statement, for requests that are refused."""


class ProxyAssertions(Protocol):
    async def signed(self, claims: Mapping[str, Json], now: datetime) -> str:
        """ES256, under the current access key; its type is `proxy+jwt`. The same claims get the same assertion for some seconds."""
