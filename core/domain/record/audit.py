"""The audit log: the content of an entry, the filter for entries, and every action that an entry can record."""

from collections.abc import Mapping
from datetime import datetime
from typing import Final

from core.domain.errors import BadRequest
from core.domain.identifiers import AuditEntryId, OrganizationId, UserId
from core.domain.json import Json
from core.domain.pages import MOST_COUNTED, Page
from core.domain.record.events import ActingKey, Actor, TargetType
from core.frozen import Frozen

LONGEST_USER_AGENT: Final = 512
# The address of an actor whose account is deleted.
DELETED_USER: Final = "deleted-user@unknown"
# These replace the forgotten part of an entry.
FORGOTTEN_ADDRESS: Final = "0.0.0.0"  # noqa: S104 - nothing is bound to it
FORGOTTEN_USER_AGENT: Final = "anonymized"


def kept_user_agent(actor: Actor) -> str | None:
    return None if actor.user_agent is None else actor.user_agent[:LONGEST_USER_AGENT]


class Person(Frozen):
    """The actor, with the account's present data."""

    id: UserId
    email: str
    is_platform_owner: bool
    name: str | None = None
    """The present name. None in the log of an organization that may not see it."""


class NamedService(Frozen):
    """The service that an entry is about, by its present names."""

    slug: str
    name: str


class AuditEntry(Frozen, kw_only=True):
    """An entry. `actor` is None for the system."""

    id: AuditEntryId
    organization: OrganizationId
    actor: Person | ActingKey | None
    impersonator: Person | None
    subject: Person | None = None
    """The person whom the entry is about, while the person is a member of the organization or uses one of its services."""
    service: NamedService | None = None
    """The service that the entry is about, while there is one."""
    action: str
    target_type: str
    target_id: str
    address: str | None
    user_agent: str | None
    success: bool
    details: Mapping[str, Json]
    created_at: datetime


class AuditFilter(Frozen, kw_only=True):
    """Selects the entries that satisfy all of these conditions. The span includes `since`, and excludes `until`."""

    action: str | None = None
    target_type: TargetType | None = None
    target_id: str | None = None
    actor: UserId | None = None
    success: bool | None = None
    since: datetime | None = None
    until: datetime | None = None

    def __post_init__(self) -> None:
        if self.target_id is not None and self.target_type is None:
            raise BadRequest("target_id: needs a target_type", words="target_without_kind")
        if self.since is not None and self.until is not None and self.since >= self.until:
            raise BadRequest("until: must be later than since", words="since_until")

    @property
    def is_empty(self) -> bool:
        return self == _EVERYTHING


_EVERYTHING: Final = AuditFilter()


def require_reachable(page: Page) -> None:
    """Refuses a page far down a filtered list. Such a page would have to walk over everything before it, so the answer
    names a better way.
    """
    if page.offset + page.limit > MOST_COUNTED:
        raise BadRequest(f"page: a filtered list ends after {MOST_COUNTED} entries; narrow it with since and until", words="span_narrower")
