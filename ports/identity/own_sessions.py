"""Where a person's own sessions are looked up."""

from collections.abc import Sequence
from datetime import datetime
from typing import Protocol

from core.domain.identifiers import SessionId, UserId
from core.domain.identity.own_sessions import OwnSession, OwnSessionList
from core.domain.pages import Page


class OwnSessionLookup(Protocol):
    """Outside any unit of work: one statement each."""

    async def list(self, user: UserId, of: SessionId, now: datetime, page: Page) -> OwnSessionList:
        """The living ones. `of` is the session of the person who looks: it comes first. Beyond the last page there is none, and the numbers
        are 0.
        """

    async def tree(self, user: UserId, session: SessionId, of: SessionId, now: datetime) -> Sequence[OwnSession]:
        """A living session of this person's, and after it those that were opened from it and end with it. Empty when there is none."""

    async def was_there(self, user: UserId, session: SessionId) -> bool:
        """Whether this is, or was, a session of the person's."""
