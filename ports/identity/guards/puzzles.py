"""What is kept of puzzles: that a solved one was used."""

from datetime import datetime
from typing import Protocol
from uuid import UUID

from core.domain.email import Email
from core.domain.secrets import Token


class PuzzleStore(Protocol):
    """All methods are transactions of their own."""

    async def use(self, puzzle: UUID, until: datetime) -> bool:
        """Whether nobody has used it before, in any process. It is remembered until then. A repeat writes nothing."""

    async def is_known_device(self, email: Email, device_token: Token) -> bool:
        """Whether the token belongs to a device of the account with this address."""
