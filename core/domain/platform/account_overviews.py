"""What an operator wants to see of an account before acting on it."""

from datetime import datetime

from core.domain.email import Email
from core.domain.identity.accounts import Account
from core.frozen import Frozen


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
    """An account at a provider that lets the person in."""

    provider: str
    email: str
    """As the provider told it last."""
    linked_at: datetime


class LinkSeen(Frozen):
    """A mailed or printed link that has not been used."""

    purpose: str
    expires_at: datetime


class CredentialSeen(Frozen):
    """What the person made for programs of an organization, and still works. It opens the organization, and not the account."""

    kind: str
    prefix: str
    place: str
    """The slugs of the organization and, for what is a service's, of the service."""
    created_at: datetime


class SignInAttempt(Frozen):
    at: datetime
    success: bool
    address: str | None
    user_agent: str | None


class AccountOverview(Frozen):
    account: Account
    pending_email: Email | None
    has_password: bool
    password_changed_at: datetime | None
    mfa_enabled_at: datetime | None
    backup_codes: int
    sessions: int
    """Living sessions, impersonations included."""
    impersonations: int
    devices: int
    trusted_devices: int
    passkeys: tuple[PasskeySeen, ...]
    """Oldest first, as all that follow unless they say otherwise."""
    identities: tuple[IdentitySeen, ...]
    links: tuple[LinkSeen, ...]
    credentials: tuple[CredentialSeen, ...]
    """Newest first, and not more than an operator reads."""
    organizations: tuple[OrganizationRole, ...]
    latest_attempts: tuple[SignInAttempt, ...]
    """Newest first."""
