"""Who has started a test of a connection."""

from typing import Protocol

from core.domain.identifiers import ConnectionTestId


class TestStarters(Protocol):
    """One statement and one round trip."""

    async def may_go_on(self, test: ConnectionTestId) -> bool:
        """Whether the session, key or link that has started the test is still there, and whoever is behind it may still manage settings."""
