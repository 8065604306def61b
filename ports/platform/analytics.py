"""Counted sign-ins."""

from collections.abc import Sequence
from datetime import date, datetime
from typing import Protocol

from core.domain.identifiers import LoginEventId, OrganizationId, ServiceId
from core.domain.platform.analytics import (
    ActiveOrganization,
    AttemptsOfWays,
    FailuresOfDays,
    Growth,
    LoginsOfDay,
    LoginsOfProvider,
    LoginsOfService,
    Overview,
    RecentLogin,
    Span,
)
from core.domain.platform.sign_in_log import LoggedSignIn, SignInFilter


class AnalyticsLookup(Protocol):
    """The counts contain every committed sign-in exactly once. Outside any unit of work."""

    async def by_day(self, organization: OrganizationId, span: Span) -> Sequence[LoginsOfDay]:
        """In order, without days on which nobody signed in."""

    async def failures(self, organization: OrganizationId, since: date, most_read: int) -> FailuresOfDays:
        """From this day on, or from a later one if more than `most_read` attempts came since."""

    async def by_way(self, organization: OrganizationId, service: ServiceId, since: date, most_read: int) -> AttemptsOfWays:
        """The application's attempts among the newest `most_read` of the organization, from this day on or from a later one."""

    async def by_service(self, organization: OrganizationId, span: Span) -> Sequence[LoginsOfService]:
        """The most used first, deleted services included. Sign-ins to the organization itself are not among them."""

    async def by_provider(self, organization: OrganizationId, span: Span) -> Sequence[LoginsOfProvider]:
        """The most used first."""

    async def recent(self, organization: OrganizationId, before: LoginEventId | None, limit: int) -> Sequence[RecentLogin]:
        """Newest first; with `before`, only older ones."""

    async def sign_ins(
        self, organization: OrganizationId, wanted: SignInFilter, before: LoginEventId | None, limit: int
    ) -> Sequence[LoggedSignIn]:
        """Newest first, failures included; with `before`, only older ones."""

    async def overview(self, at: datetime) -> Overview: ...

    async def of_installation(self, since: date) -> Sequence[LoginsOfDay]:
        """Of all organizations together, in order, without days on which nobody signed in."""

    async def failures_of_installation(self, since: date, most_read: int) -> FailuresOfDays:
        """As `failures`, of everybody."""

    async def growth(self, since: date, most_read: int) -> Growth:
        """From this day on, or from a later one if more than `most_read` people or organizations came since."""

    async def most_active(self, since: date, most_read: int, limit: int) -> Sequence[ActiveOrganization]:
        """Among the newest `most_read` attempts since this day: the organizations with the most sign-ins first."""


class LoginCounter(Protocol):
    async def count(self, limit: int) -> int:
        """Add up to this many sign-ins to the counts, each exactly once. Returns how many: 0 also while another process counts."""
