"""How often people sign in. Sign-ins are counted by the hour as they happen, so that nobody has to read their rows to know how many there
were; the counts outlive the rows.
"""

from collections.abc import Mapping
from datetime import UTC, date, datetime, time, timedelta
from typing import Final

from core.domain.errors import BadRequest
from core.domain.identifiers import LoginEventId, ServiceId, UserId
from core.frozen import Frozen

DEFAULT_DAYS: Final = 30
DEFAULT_RECENT: Final = 10
# What a list of recent sign-ins reads at a time: more would keep the event loop for longer than others should wait.
PAGE: Final = 100
# Counted in one transaction, and nobody waits for that.
COUNTED_AT_ONCE: Final = 5_000


class Span(Frozen):
    """Whole days in UTC, both of them included."""

    first: date
    last: date

    @property
    def begins(self) -> datetime:
        return datetime.combine(self.first, time.min, UTC)

    @property
    def ends(self) -> datetime | None:
        """The first moment that is no part of it. None: it has no end that could be named."""
        return None if self.last == date.max else datetime.combine(self.last + timedelta(days=1), time.min, UTC)


class LoginsOfDay(Frozen):
    day: date
    logins: int


class LoginsOfService(Frozen):
    service: ServiceId
    name: str
    """Its last one, if it has been deleted."""
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
    """The installation in figures. Large numbers of people and organizations are estimates."""

    users: int
    users_with_second_factor: int
    organizations: int
    organizations_by_status: Mapping[str, int]
    services: int
    logins_today: int
    logins_7d: int
    logins_30d: int


def span(first: date | None, last: date | None, today: date) -> Span:
    """The last thirty days, unless they say otherwise. Raises `BadRequest`."""
    ends = today if last is None else last
    if first is None:
        # Thirty days before the end, which may be long ago.
        first = date.fromordinal(max(1, ends.toordinal() - DEFAULT_DAYS))
    if first > ends:
        raise BadRequest("end_date: must not be before start_date")
    return Span(first, ends)


def day_of(text: str | None, field: str) -> date | None:
    """Raises `BadRequest`, which names the field."""
    if text is None:
        return None
    try:
        # `fromisoformat` alone also takes weeks, and days without hyphens.
        day = date.fromisoformat(text)
    except ValueError:
        raise BadRequest(f"{field}: not a day in the form YYYY-MM-DD") from None
    if day.isoformat() != text:
        raise BadRequest(f"{field}: not a day in the form YYYY-MM-DD")
    return day
