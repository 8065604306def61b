"""Where refresh tokens are exchanged."""

from datetime import datetime
from typing import Protocol

from core.domain.identity.refresh_tokens import Holder, PresentedRefreshToken


class RefreshTokens(Protocol):
    """Outside any unit of work: one statement, one round trip."""

    async def rotate(
        self, digest: bytes, successor: bytes, by: bytes, at: datetime, holder: Holder | None = None
    ) -> PresentedRefreshToken | None:
        """Exchanges the token for its successor if it is a live session's current one, and moves the session's end. Of many callers, one
        rotates it. None when no such token exists: for an application (`holder`), among those of sessions that it was given; for others,
        among all that no application was given which could show who it is.
        """
