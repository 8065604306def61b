"""Random keys of the installation. HMACs under them cannot be computed from a dump of the database alone."""

from typing import Protocol


class ServerSecrets(Protocol):
    """PostgreSQL keeps the keys, sealed."""

    async def get(self, purpose: str) -> bytes:
        """32 random bytes for each purpose, the same in every process and for good. Only the first use of a purpose asks the database."""


class KeptSecrets(ServerSecrets, Protocol):
    """For those who must not write."""

    async def find(self, purpose: str) -> bytes | None:
        """As `get`, but makes nothing. None when nobody has used the purpose yet."""
