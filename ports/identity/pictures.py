"""The store of people's pictures."""

from datetime import datetime
from typing import Protocol

from core.domain.identifiers import PictureId, UserId
from core.domain.identity.profile.pictures import Picture


class PictureStore(Protocol):
    """Outside a unit of work, `find` is one statement and one round trip. The other methods need a unit of work in which the account is
    held. Only PostgreSQL implements `PictureStore`.
    """

    async def find(self, picture: PictureId) -> Picture | None: ...

    async def replace(self, user: UserId, picture: Picture, id: PictureId, at: datetime) -> None:  # noqa: A002 - the noun's own word
        """A person has one picture at most."""

    async def remove(self, user: UserId) -> bool:
        """False when there was none."""
