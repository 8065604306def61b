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
    organizations: tuple[OrganizationRole, ...]
    latest_attempts: tuple[SignInAttempt, ...]
    """Newest first."""
