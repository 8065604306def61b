"""End users: whoever uses the services of an organization. Its members manage it; an end user need not be one of them."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from core.domain.email import Email
from core.domain.errors import BadRequest
from core.domain.events import Actor, Event, Target
from core.domain.identifiers import OrganizationId, ServiceId, UserId
from core.domain.pages import MOST_COUNTED, Page

# Of what is looked for; no address is longer (RFC 5321 section 4.5.3.1 makes it 64 and 255, and the @ between).
LONGEST_SEARCH: Final = 320


@dataclass(frozen=True, slots=True)
class EndUser:
    """As one organization may know somebody: `last_login_at` and `services` are of its own services alone."""

    id: UserId
    email: Email
    created_at: datetime
    last_login_at: datetime | None
    mfa_enabled: bool
    services: Sequence[str]
    """By their slugs."""


@dataclass(frozen=True, slots=True)
class UsedService:
    """`first_login_at` is None for whoever was made through the service and has not come since."""

    id: ServiceId
    slug: str
    name: str
    first_login_at: datetime | None
    last_login_at: datetime | None


@dataclass(frozen=True, slots=True)
class EndUserDetail:
    """Nothing here is of another organization, or of what the person does for themselves on the platform."""

    id: UserId
    email: Email
    email_verified: bool
    created_at: datetime
    updated_at: datetime
    mfa_enabled: bool
    services: Sequence[UsedService]
    active_sessions: int
    """In the organization's services."""
    last_session_at: datetime | None
    """When the youngest of them began."""

    @property
    def last_login_at(self) -> datetime | None:
        return max((one.last_login_at for one in self.services if one.last_login_at is not None), default=None)


def searched(text: str) -> str:
    """What to find within an address's key: whoever looks for `ADA@` finds `ada@`. Empty: everybody. Raises `BadRequest`."""
    wanted = Email(text.strip()).key
    if len(wanted) > LONGEST_SEARCH:
        raise BadRequest(f"search: at most {LONGEST_SEARCH} characters")
    return wanted


def require_reachable(page: Page, search: str) -> None:
    """A page of what was found that lies so far back is reached by looking for more of the address. Raises `BadRequest`."""
    if search and _is_far(page):
        raise BadRequest(f"page: a search ends after {MOST_COUNTED} end users; look for more of the address")


def is_dear(page: Page, search: str) -> bool:
    """Whether reading this page may be reading all of the organization's end users."""
    return bool(search) or _is_far(page)


def _is_far(page: Page) -> bool:
    return page.offset + page.limit > MOST_COUNTED


def sessions_in_services_ended(organization: OrganizationId, user: UserId, sessions: int, actor: Actor) -> Event:
    return Event(
        "security.sessions.revoked", actor, Target("user", str(user)), organization, details={"sessions": sessions}, published=False
    )
