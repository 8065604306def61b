"""End users: the people who use an organization's services. Members manage the organization; an end user need not be a member."""

from collections.abc import Sequence
from datetime import datetime
from typing import Final

from core.domain.email import Email
from core.domain.errors import BadRequest
from core.domain.identifiers import OrganizationId, ServiceId, UserId
from core.domain.pages import MOST_COUNTED, Page
from core.domain.record.events import Actor, Event, Target
from core.domain.tenancy.metadata import Metadata
from core.frozen import Frozen

# The longest text to search for. No address is longer: RFC 5321 section 4.5.3.1 allows 64 and 255 characters with the @ between.
LONGEST_SEARCH: Final = 320


class EndUser(Frozen):
    """The data about a person that one organization may know. `last_login_at` and `services` cover its own services only."""

    id: UserId
    email: Email
    created_at: datetime
    last_login_at: datetime | None
    mfa_enabled: bool
    services: Sequence[str]
    """The slugs of the services."""
    name: str | None = None
    """None for people who never came by themselves."""


class UsedService(Frozen):
    """A service that a person uses. `first_login_at` is None when the service has added the person, and the person has
    not signed in since.
    """

    id: ServiceId
    slug: str
    name: str
    first_login_at: datetime | None
    last_login_at: datetime | None
    metadata: Metadata


class UsedIdentity(Frozen):
    """An account at a provider by which a person signs in to a service."""

    provider: str
    subject: str
    email: str
    linked_at: datetime


class EndUserDetail(Frozen):
    """An end user in detail. No data comes from another organization, or from the person's use of the platform."""

    id: UserId
    email: Email
    email_verified: bool
    created_at: datetime
    updated_at: datetime
    mfa_enabled: bool
    services: Sequence[UsedService]
    identities: Sequence[UsedIdentity]
    """The accounts at providers by which the person signs in to the organization's services."""
    active_sessions: int
    """The number of sessions in the organization's services."""
    last_session_at: datetime | None
    """The beginning of the newest of these sessions."""
    name: str | None = None
    """None for people who never came by themselves."""

    @property
    def last_login_at(self) -> datetime | None:
        return max((one.last_login_at for one in self.services if one.last_login_at is not None), default=None)


class LockedOut(Frozen):
    """What an organization has ended for a person whose account somebody else may be in."""

    account_locked: bool
    """The organization has made the account, and nobody else holds it. Otherwise only what is the organization's own has ended."""
    sessions: int
    keys: int


def searched(text: str) -> str:
    """The text to find in normalized addresses, so that `ADA@` finds `ada@`. An empty text finds everybody. Raises `BadRequest`."""
    wanted = Email(text.strip()).key
    if len(wanted) > LONGEST_SEARCH:
        raise BadRequest(f"search: at most {LONGEST_SEARCH} characters", words="text_too_long", values={"most": LONGEST_SEARCH})
    return wanted


def require_reachable(page: Page, search: str) -> None:
    """A search does not show pages this far back. The reader searches for a longer text instead. Raises `BadRequest`."""
    if search and _is_far(page):
        raise BadRequest(
            f"page: a search ends after {MOST_COUNTED} end users; search for a longer part of the address", words="search_narrower"
        )


def is_dear(page: Page, search: str) -> bool:
    """Whether the database may have to read all of the organization's end users for this page."""
    return bool(search) or _is_far(page)


def _is_far(page: Page) -> bool:
    return page.offset + page.limit > MOST_COUNTED


def sessions_in_services_ended(organization: OrganizationId, user: UserId, sessions: int, actor: Actor) -> Event:
    return Event("security.sessions.revoked", actor, Target("user", str(user)), organization, {"sessions": sessions})
