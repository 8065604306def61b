"""Wrong passwords that a directory got from us."""

from datetime import datetime
from typing import Protocol
from uuid import UUID

from core.domain.identifiers import UpstreamProviderId


class DirectoryFailureStore(Protocol):
    """Each method is one statement and one round trip, outside any unit of work."""

    async def begin(self, person: UUID, provider: UpstreamProviderId, *, most: int, now: datetime, until: datetime) -> bool:
        """Before the directory gets a password. False when it has got `most` wrong ones of this person, those counted that it has not
        judged yet: then it must get none. However many ask at once, in whatever process, no more than `most` get True.
        """

    async def end(self, person: UUID, *, was_wrong: bool, was_right: bool, until: datetime) -> None:
        """After the directory has judged it, or cannot. A right password forgets the wrong ones, as the directory does. One that is neither
        does not count. Until then, it counts as wrong. A cancelled caller ends it, too.
        """
