"""Sign-in analytics, and the login events of an organization."""

from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime, time, timedelta
from typing import Final
from uuid import UUID

from core.domain.errors import BadRequest
from core.domain.identifiers import LoginEventId, OrganizationId, ServiceId, UserId, first_id
from core.domain.identity.login_events import LoginEvent
from core.domain.mail import Email
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
    """Each sign-in is counted for its hour when it happens, so that reports need not read the rows of all sign-ins. The counts stay when
    the rows are deleted.
    """

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


# A login event has its id before its time, and the two are seldom far apart.
_APART: Final = timedelta(hours=1)
# Nobody signed in before. An earlier time may be one that cannot be reckoned with.
_BEGINNING: Final = datetime(2020, 1, 1, tzinfo=UTC)


class SignInFilter(Frozen, kw_only=True):
    """Selects the sign-ins that satisfy all of these conditions. The span includes `since`, and excludes `until`."""

    user: UserId | None = None
    email: Email | None = None
    service: ServiceId | None = None
    provider: str | None = None
    success: bool | None = None
    since: datetime | None = None
    until: datetime | None = None

    def __post_init__(self) -> None:
        if self.since is not None and self.until is not None and self.since >= self.until:
            raise BadRequest("until: must be later than since", words="since_until")

    @property
    def is_empty(self) -> bool:
        return self == _EVERYTHING

    @property
    def first(self) -> UUID | None:
        """No sign-in of the span has a smaller id. The table is divided by ids."""
        return None if self.since is None else first_id(max(self.since, _BEGINNING) - _APART)


_EVERYTHING: Final = SignInFilter()


class LoggedSignIn(Frozen, kw_only=True):
    """An attempt to sign in, as the organization sees it.

    The log has the login events that name the organization, so failures are those of users who have been there (`audience`).
    """

    event: LoginEvent
    email: str | None
    """The person's present address. None when the account is deleted."""
    name: str | None
    """The present name. None when the organization may not see it."""
    service_slug: str | None
    service_name: str | None
    """Both are None when the attempt led to the organization itself, or to a service that is deleted."""


def person_wanted(text: str) -> tuple[UserId | None, Email | None]:
    """A person by id or by address."""
    try:
        return UserId(UUID(text)), None
    except ValueError:
        return None, Email(text)
