"""Where the origins of applications that run in browsers are looked up."""

from typing import Protocol


class ClientOriginLookup(Protocol):
    """Outside any unit of work, one statement."""

    async def includes(self, origin: str) -> bool:
        """Whether a public web client of an active organization has a redirect URI of this origin."""
