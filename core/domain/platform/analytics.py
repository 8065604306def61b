"""Sign-ins in numbers. Each sign-in is counted for its hour when it happens, so that reports need not read the rows of all sign-ins. The
counts stay when the rows are deleted.
"""

from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime, time, timedelta
from typing import Final

from core.domain.errors import BadRequest
from core.domain.identifiers import LoginEventId, OrganizationId, ServiceId, UserId
from core.frozen import Frozen

DEFAULT_DAYS: Final = 30
DEFAULT_RECENT: Final = 10
# A list of recent sign-ins reads so many rows at a time. More would keep the event loop busy for longer than other requests should wait.
PAGE: Final = 100
# Failures are not counted when they happen. Their figures read the newest rows of the log, up to this number.
MOST_READ_FOR_FAILURES: Final = 20_000
# The overview of the installation names so many organizations.
MOST_ACTIVE: Final = 5
# The number of sign-ins that one transaction counts. No request waits for it.
COUNTED_AT_ONCE: Final = 5_000


class Span(Frozen):
    """Whole days in UTC. The span includes both."""

    first: date
    last: date

    @property
    def begins(self) -> datetime:
        return datetime.combine(self.first, time.min, UTC)

    @property
    def ends(self) -> datetime | None:
        """The first moment after the span. None when no later date exists."""
        return None if self.last == date.max else datetime.combine(self.last + timedelta(days=1), time.min, UTC)


class LoginsOfDay(Frozen):
    day: date
    logins: int


class FailuresOfDays(Frozen):
    """Failed attempts to sign in, of people who know the organization."""

    since: date
    """The first day whose attempts were all read."""
    days: Sequence[LoginsOfDay]
    """In order, without days on which nobody failed."""


class AttemptsOfWay(Frozen):
    """Attempts to sign in to an application in one way, on one day."""

    day: date
    way: str
    """The provider, as the log of sign-ins has it."""
    logins: int
    failures: int


class AttemptsOfWays(Frozen):
    since: date
    """The first day whose attempts were all read."""
    attempts: Sequence[AttemptsOfWay]
    """In order of the days. There is nothing of ways and days without an attempt."""


class Growth(Frozen):
    """The organizations and people of today by the days on which they came."""

    since: date
    """The first day of which all are known."""
    organizations: Mapping[date, int]
    people: Mapping[date, int]


class ActiveOrganization(Frozen):
    """An organization with its attempts to sign in, among the newest of the installation."""

    id: OrganizationId
    name: str
    logins: int
    failures: int


class LoginsOfService(Frozen):
    service: ServiceId
    name: str
    """The service's last name, if the service is deleted."""
    logins: int


class LoginsOfProvider(Frozen):
    provider: str
    logins: int


class RecentLogin(Frozen):
    id: LoginEventId
    user: UserId
    service: ServiceId | None
    provider: str
    created_at: datetime


class Overview(Frozen, kw_only=True):
    """The installation in numbers. Large numbers of people and organizations are estimates."""

    users: int
    users_with_second_factor: int
    organizations: int
    organizations_by_status: Mapping[str, int]
    services: int
    logins_today: int
    logins_7d: int
    logins_30d: int


def span(first: date | None, last: date | None, today: date) -> Span:
    """The span of these days, or of the last thirty days when no days are given. Raises `BadRequest`."""
    ends = today if last is None else last
    if first is None:
        # Thirty days before the end, which may be long ago.
        first = date.fromordinal(max(1, ends.toordinal() - DEFAULT_DAYS))
    if first > ends:
        raise BadRequest("end_date: must not be before start_date", words="since_until")
    return Span(first, ends)


def day_of(text: str | None, field: str) -> date | None:
    """A day. Raises `BadRequest`, which names the field."""
    if text is None:
        return None
    try:
        # `fromisoformat` alone also accepts weeks, and days without hyphens.
        day = date.fromisoformat(text)
    except ValueError:
        raise BadRequest(f"{field}: not a day in the form YYYY-MM-DD", words="field_date") from None
    if day.isoformat() != text:
        raise BadRequest(f"{field}: not a day in the form YYYY-MM-DD", words="field_date")
    return day
