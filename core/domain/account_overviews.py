"""What an operator wants to see of an account before doing anything to it."""

from dataclasses import dataclass
from datetime import datetime

from core.domain.accounts import Account
from core.domain.email import Email


@dataclass(frozen=True, slots=True)
class OrganizationRole:
    organization: str
    """Its slug."""
    is_active: bool
    role: str


@dataclass(frozen=True, slots=True)
class SignInAttempt:
    at: datetime
    success: bool
    address: str | None
    user_agent: str | None


@dataclass(frozen=True, slots=True)
class AccountOverview:
    account: Account
    pending_email: Email | None
    has_password: bool
    password_changed_at: datetime | None
    mfa_enabled_at: datetime | None
    backup_codes: int
    sessions: int
    """Live ones, the impersonators' included."""
    impersonations: int
    devices: int
    trusted_devices: int
    organizations: tuple[OrganizationRole, ...]
    latest_attempts: tuple[SignInAttempt, ...]
    """The newest first."""
