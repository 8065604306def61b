"""Accounts as platform owners and operators see them."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final
from uuid import UUID

from core.domain.identifiers import OrganizationId, UserId
from core.domain.identity.accounts import Account
from core.domain.languages import Language
from core.domain.mail import Email
from core.frozen import Frozen

DEFAULT_FOUND: Final = 20
MOST_OWNERS: Final = 1000
MOST_FOUND: Final = 100
# The limit of organizations shown for one user. Only automated accounts belong to more.
MOST_ORGANIZATIONS: Final = 100
# The longest address has so many characters (RFC 5321 section 4.5.3.1), so no part of one is longer.
LONGEST_SOUGHT: Final = 320
# A search for a part of a name or address reads the newest accounts, up to this number. A whole address is found among all.
MOST_READ: Final = 200_000
# Whose turn a search over the whole installation takes.
INSTALLATION: Final = OrganizationId(UUID(int=0))
COUNTED_BACK: Final = timedelta(days=7)
# Events are counted one by one up to this number.
MOST_COUNTED: Final = 100_000


class UserMembership(Frozen):
    organization: OrganizationId
    slug: str
    name: str
    role: str


class FoundUser(Frozen):
    """A result of a platform owner's search by a part of the email address: the account, its organizations and its second factor."""

    account: Account
    mfa_enabled: bool
    organizations: Sequence[UserMembership]
    name: str | None = None


class FoundUsers(Frozen):
    users: Sequence[FoundUser]
    complete: bool = True
    """False if there are older accounts, which the search has not read."""


class MfaOverview(Frozen):
    user: UserId
    email: Email
    enabled_at: datetime | None
    backup_codes: int
    """The number of unused codes."""
    last_challenge: datetime | None
    """When somebody last sent a code, right or wrong."""
    language: Language | None = None
    name: str | None = None


class MfaMetrics(Frozen):
    """The second factors of active users, in the last seven days."""

    users: int
    mfa_enabled: int
    backup_codes_used: int
    failures: int

    @property
    def adoption(self) -> float:
        """In percent."""
        # Both numbers are estimates for large tables, so they may not fit each other exactly.
        return round(min(100.0, 100 * self.mfa_enabled / self.users), 2) if self.users else 0.0


class OrganizationRole(Frozen):
    organization: str
    """The organization's slug."""
    is_active: bool
    role: str


class PasskeySeen(Frozen):
    name: str
    created_at: datetime
    last_used_at: datetime | None


class IdentitySeen(Frozen):
    """An account at a provider by which the person can sign in."""

    provider: str
    email: str
    """The latest address that the provider told."""
    linked_at: datetime


class LinkSeen(Frozen):
    """A mailed or printed link that has not been used."""

    purpose: str
    expires_at: datetime


class CredentialSeen(Frozen):
    """A key or token that the person made for programs of an organization, and that still works. It opens the
    organization, and not the account.
    """

    kind: str
    prefix: str
    place: str
    """The slug of the organization, and, for a service's credential, of the service."""
    created_at: datetime


class SignInAttempt(Frozen):
    at: datetime
    success: bool
    address: str | None
    user_agent: str | None


class AccountOverview(Frozen):
    """The overview of an account, for an operator who is about to change it."""

    account: Account
    pending_email: Email | None
    has_password: bool
    password_changed_at: datetime | None
    mfa_enabled_at: datetime | None
    backup_codes: int
    sessions: int
    """The number of living sessions, impersonations included."""
    impersonations: int
    devices: int
    trusted_devices: int
    passkeys: tuple[PasskeySeen, ...]
    """The oldest first; so are the lists below, unless they say otherwise."""
    identities: tuple[IdentitySeen, ...]
    links: tuple[LinkSeen, ...]
    credentials: tuple[CredentialSeen, ...]
    """The newest first. There is a limit, because an operator does not read more."""
    organizations: tuple[OrganizationRole, ...]
    latest_attempts: tuple[SignInAttempt, ...]
    """The newest first."""
