"""The exchange of refresh tokens."""

from datetime import datetime
from typing import Protocol

from core.domain.identity.refresh_tokens import Holder, PresentedRefreshToken


class RefreshTokens(Protocol):
    """One statement and one round trip, outside any unit of work."""

    async def rotate(
        self, digest: bytes, successor: bytes, by: bytes, at: datetime, holder: Holder | None = None
    ) -> PresentedRefreshToken | None:
        """Exchanges the token for its successor if it is a live session's current one, and moves the session's end. Of many callers, one
        rotates it. None when there is no such token. With a `holder`, only the tokens of sessions that the application was given are looked
        through. Without one, the search leaves out the tokens of applications that have a secret or keys.
        """
