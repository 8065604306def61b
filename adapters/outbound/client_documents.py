"""Metadata documents of clients, fetched through the guarded dialer."""

from core.domain.federation.oauth.client_documents import LARGEST_DOCUMENT, PATIENCE
from core.domain.outbound import destination
from ports.outbound import Outbound, OutboundAnswer


class GuardedDocuments:
    """Implements `ports.federation.oauth.DocumentSource`."""

    def __init__(self, outbound: Outbound) -> None:
        self._outbound = outbound

    async def fetch(self, address: str) -> OutboundAnswer:
        return await self._outbound.get(destination(address), PATIENCE, most=LARGEST_DOCUMENT, headers={"accept": "application/json"})
