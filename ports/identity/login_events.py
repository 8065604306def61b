"""The store of login events."""

from collections.abc import Sequence
from typing import Protocol

from core.domain.identifiers import LoginEventId, UserId
from core.domain.identity.login_events import LoginEvent, OwnLogin
from core.domain.identity.risk_policies.policies import Decided


class LoginEventStore(Protocol):
    """Outside a unit of work, `list_own` is one statement and one round trip. `add` needs a unit of work."""

    async def list_own(self, user: UserId, before: LoginEventId | None, limit: int) -> Sequence[OwnLogin]:
        """The attempts to sign in to this account, newest first; with `before`, only older ones. A device that the person does not have, or
        no longer has, is without a name.
        """

    async def add(self, event: LoginEvent, by_installation: Decided | None = None) -> None:
        """`by_installation`: the rule for risk of the installation that decided. No organization reads it."""
