"""Where login events are kept."""

from collections.abc import Sequence
from typing import Protocol

from core.domain.identifiers import LoginEventId, UserId
from core.domain.identity.login_events import LoginEvent, OwnLogin


class LoginEventStore(Protocol):
    """Part of the unit of work."""

    async def add(self, event: LoginEvent) -> None: ...


class LoginEventLookup(Protocol):
    """Outside any unit of work."""

    async def list_own(self, user: UserId, before: LoginEventId | None, limit: int) -> Sequence[OwnLogin]:
        """The attempts to sign in to this account, newest first; with `before`, only those that are older. A device that the person does
        not have, or no longer, has no name.
        """
