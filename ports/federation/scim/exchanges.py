"""Where the last exchanges with directories are kept."""

from collections.abc import Sequence
from typing import Protocol

from core.domain.federation.scim.exchanges import ScimExchange
from core.domain.identifiers import OrganizationId


class ScimExchangeRecorder(Protocol):
    """Called by requests: never waits, never fails. When the buffer is full, the exchange is dropped."""

    def record(self, exchange: ScimExchange) -> None: ...


class ScimExchangeStore(Protocol):
    """Outside any unit of work, one statement each."""

    async def add(self, exchanges: Sequence[ScimExchange]) -> None:
        """In parts. Of each organization that is among them, the oldest beyond a number go."""

    async def list(self, organization: OrganizationId, limit: int, *, refused: bool) -> Sequence[ScimExchange]:
        """Newest first; with `refused`, only those that were."""
