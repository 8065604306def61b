"""The log of an organization's sign-ins: who came to it or its services, in which way and from where, and who did not get in. It has the
login events that name the organization, so failures are those of people who have been there (`audience`).
"""

from datetime import UTC, datetime, timedelta
from typing import Final
from uuid import UUID

from core.domain.email import Email
from core.domain.errors import BadRequest
from core.domain.identifiers import ServiceId, UserId, first_id
from core.domain.identity.login_events import LoginEvent
from core.frozen import Frozen

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
    """An attempt to sign in, as the organization sees it."""

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
