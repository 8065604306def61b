"""Look-up of the origins of applications that run in browsers."""

from typing import Protocol


class ClientOriginLookup(Protocol):
    """One statement and one round trip, outside any unit of work."""

    async def includes(self, origin: str) -> bool:
        """Whether a public web client of an active organization has a redirect URI of this origin."""
