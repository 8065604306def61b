"""Random keys of the installation, for HMACs that a dump of the database must not be enough to compute."""

from typing import Protocol


class ServerSecrets(Protocol):
    async def get(self, purpose: str) -> bytes:
        """32 random bytes for each purpose, the same in every process and for good. Asks the database only on first use."""
