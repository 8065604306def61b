"""The store of the last exchanges with directories."""

from collections.abc import Sequence
from typing import Protocol

from core.domain.federation.scim.exchanges import ScimExchange
from core.domain.identifiers import OrganizationId


class ScimExchangeRecorder(Protocol):
    """Requests call it: it never waits and never fails. A full buffer drops the exchange. An actor implements it."""

    def record(self, exchange: ScimExchange) -> None: ...


class ScimExchangeStore(Protocol):
    """Outside any unit of work."""

    async def add(self, exchanges: Sequence[ScimExchange]) -> None:
        """Adds the exchanges in parts. The oldest exchanges of each organization go when there are too many."""

    async def list(self, organization: OrganizationId, limit: int, *, refused: bool) -> Sequence[ScimExchange]:
        """Newest first; with `refused`, only refused exchanges."""
