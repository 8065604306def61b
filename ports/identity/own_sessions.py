"""Look-ups of a person's own sessions."""

from collections.abc import Sequence
from datetime import datetime
from typing import Protocol

from core.domain.identifiers import SessionId, UserId
from core.domain.identity.own_sessions import OwnSession, OwnSessionList
from core.domain.pages import Page


class OwnSessionLookup(Protocol):
    """Each method is one statement and one round trip, outside any unit of work."""

    async def list(self, user: UserId, of: SessionId, now: datetime, page: Page) -> OwnSessionList:
        """The living sessions of the person. `of` is the session from which the person looks, and comes first. Beyond the last page the
        list is empty, and the numbers are 0.
        """

    async def tree(self, user: UserId, session: SessionId, of: SessionId, now: datetime) -> Sequence[OwnSession]:
        """A living session of this person, and after it the sessions that were opened from it and end with it. Empty when there is no such
        session.
        """

    async def was_there(self, user: UserId, session: SessionId) -> bool:
        """Whether this is, or was, a session of the person."""
