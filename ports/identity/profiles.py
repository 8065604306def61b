"""The store of profiles."""

from datetime import datetime
from typing import Protocol

from core.domain.identifiers import PictureId, UserId
from core.domain.identity.profile.profiles import HeldProfile


class ProfileStore(Protocol):
    """All methods need a unit of work, in which the account is held. The look-up of the caller reads the caller's own profile."""

    async def find(self, user: UserId) -> HeldProfile | None:
        """None when there is no such account, or the account is deactivated."""

    async def save(self, user: UserId, profile: HeldProfile, at: datetime) -> None:
        """Stores everything but the picture."""

    async def use_up(self, username_digest: bytes) -> bool:
        """False when the user name was issued before. Of two callers, the second waits for the first's commit, and gets False."""

    async def point(self, user: UserId, picture: PictureId | None, at: datetime) -> None:
        """Names the picture of the profile."""

    async def forget(self, user: UserId) -> None:
        """Empties the profile and removes the picture. The user name stays used."""
