"""Overviews of accounts, for an operator who is about to change one."""

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
