"""Users, and what happens around their second factor, as those see it who govern the platform."""

from collections.abc import Sequence
from datetime import datetime
from typing import Protocol

from core.domain.alerts import Alert
from core.domain.identifiers import UserId
from core.domain.platform_users import FoundUser, MfaMetrics, MfaOverview


class UserDirectory(Protocol):
    """Outside any unit of work: each one statement."""

    async def search(self, part: str, user: UserId | None, limit: int) -> Sequence[FoundUser]:
        """Those whose address, compared as addresses are, contains this, by address; with `user` at most that one. Without either, the
        newest.
        """

    async def mfa(self, user: UserId) -> MfaOverview | None:
        """None when there is no such user."""

    async def mfa_metrics(self, since: datetime) -> MfaMetrics: ...


class SuspiciousActivity(Protocol):
    """Outside any unit of work: one statement."""

    async def alerts(self, since: datetime) -> Sequence[Alert]:
        """By the rules of `core/domain/alerts.py`, the latest first."""
