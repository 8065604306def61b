"""Account summaries: the first thing that people see of their own account."""

from collections.abc import Sequence
from datetime import datetime
from typing import Final

from core.domain.email import Email
from core.frozen import Frozen

# With so few codes left, the person should make new ones.
FEW_BACKUP_CODES: Final = 2


MOST_REQUIRING: Final = 5


class RequiringOrganization(Frozen):
    """An organization that requires a second factor of its members."""

    name: str
    due: datetime
    """Until this moment the person can work in the organization without a second factor, and set one up."""


class AccountSummary(Frozen, kw_only=True):
    email: Email
    pending_email: Email | None
    """A new address. It replaces the old one as soon as somebody opens its link."""
    created_at: datetime
    has_password: bool
    password_changed_at: datetime | None
    second_factor_since: datetime | None
    """None when the second factor is off. A set-up without a confirmed code does not count."""
    has_authenticator: bool = False
    """Whether an authenticator app is part of the second factor. Otherwise the second factor consists of passkeys alone."""
    passkeys: int = 0
    backup_codes: int
    """The codes that are left."""
    devices: int
    sessions: int
    organizations: int
    invitations: int
    """The invitations that the person can still answer."""
    connections: int = 0
    """The accounts at providers that the person signs in with."""
    failed_sign_ins: int
    """The number of refusals for a wrong password or code in the last week, among the last hundred attempts."""

    has_fields: bool = False
    """Whether the installation, or an organization of the person, has declared fields."""
    requiring: Sequence["RequiringOrganization"] = ()
    """The organizations that require a second factor of this member, the most urgent first. At most `MOST_REQUIRING`."""

    @property
    def must_set_up(self) -> bool:
        return bool(self.requiring) and self.second_factor_since is None

    @property
    def has_few_backup_codes(self) -> bool:
        return self.second_factor_since is not None and self.backup_codes <= FEW_BACKUP_CODES
