"""Random keys of the installation: for HMACs that must not be computable from a dump of the database."""

from typing import Protocol


class ServerSecrets(Protocol):
    async def get(self, purpose: str) -> bytes:
        """32 random bytes, one set for each purpose, the same in every process and for ever. Asks the database at the first use only."""
