"""Where login events are kept."""

from typing import Protocol

from core.domain.identity.login_events import LoginEvent


class LoginEventStore(Protocol):
    """Part of the unit of work."""

    async def add(self, event: LoginEvent) -> None: ...
