"""Users and their second factors, as platform owners see them."""

from collections.abc import Sequence
from datetime import datetime
from typing import Protocol

from core.domain.identifiers import UserId
from core.domain.identity.alerts import Alert
from core.domain.platform.platform_users import FoundUser, MfaMetrics, MfaOverview


class UserDirectory(Protocol):
    """Outside any unit of work, one statement each."""

    async def search(self, part: str, user: UserId | None, limit: int) -> Sequence[FoundUser]:
        """Accounts whose normalized address contains this text, by address. With `user`, at most that one. With neither, the newest."""

    async def mfa(self, user: UserId) -> MfaOverview | None:
        """None when there is no such user."""

    async def mfa_metrics(self, since: datetime) -> MfaMetrics: ...


class AlertLookup(Protocol):
    """Outside any unit of work: one statement."""

    async def alerts(self, since: datetime) -> Sequence[Alert]:
        """By the rules of `core/domain/identity/alerts.py`, latest first."""
