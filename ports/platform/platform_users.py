"""Users and their second factors, as platform owners see them."""

from collections.abc import Sequence
from datetime import datetime
from typing import Protocol

from core.domain.identifiers import UserId
from core.domain.identity.guards.guesses import Suspicions
from core.domain.platform.platform_users import FoundUser, FoundUsers, MfaMetrics, MfaOverview


class UserDirectory(Protocol):
    """Each method is one statement and one round trip, outside any unit of work."""

    async def search(self, part: str, user: UserId | None, limit: int) -> Sequence[FoundUser]:
        """Accounts whose normalized address contains this text, by address; only the one whose address it is, if there is one. With `user`,
        at most that account. With neither text nor user, the newest accounts.
        """

    async def find(self, text: str, limit: int, most_read: int) -> FoundUsers:
        """Of the newest `most_read` accounts those whose normalized address, name or user name contains this text, newest first. Before
        them the account whose address it is, whatever its age.
        """

    async def owners(self, limit: int) -> Sequence[FoundUser]:
        """Platform owners, deactivated ones included."""

    async def mfa(self, user: UserId) -> MfaOverview | None:
        """None when there is no such user."""

    async def mfa_metrics(self, since: datetime) -> MfaMetrics: ...


class AlertLookup(Protocol):
    """Each method is one statement and one round trip, outside any unit of work."""

    async def alerts(self, since: datetime) -> Suspicions:
        """Alerts by the rules of `core/domain/identity/alerts.py` and `guards/guesses.py`."""
