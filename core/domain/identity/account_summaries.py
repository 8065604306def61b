"""Account summaries: what a person sees first of their own account."""

from collections.abc import Sequence
from datetime import datetime
from typing import Final

from core.domain.email import Email
from core.frozen import Frozen

# So few that the person should make new ones.
FEW_BACKUP_CODES: Final = 2


MOST_REQUIRING: Final = 5


class RequiringOrganization(Frozen):
    """One that requires a second factor of its members."""

    name: str
    due: datetime
    """The end of the time in which the person can set it up, and still work there without."""


class AccountSummary(Frozen, kw_only=True):
    email: Email
    pending_email: Email | None
    """A new address that waits for its link to be opened."""
    created_at: datetime
    has_password: bool
    password_changed_at: datetime | None
    second_factor_since: datetime | None
    """None: it is off. A set-up that was begun does not count."""
    has_authenticator: bool = False
    """Whether an authenticator app is part of it; otherwise it is passkeys alone."""
    passkeys: int = 0
    backup_codes: int
    """Those that are left."""
    devices: int
    sessions: int
    organizations: int
    invitations: int
    """Those that the person can still answer."""
    failed_sign_ins: int
    """Of the last hundred attempts, those of the last week that were refused for a wrong password or code."""

    requiring: Sequence["RequiringOrganization"] = ()
    """The organizations that require a second factor of the person as a member, the most urgent first. At most `MOST_REQUIRING`."""

    @property
    def must_set_up(self) -> bool:
        return bool(self.requiring) and self.second_factor_since is None

    @property
    def has_few_backup_codes(self) -> bool:
        return self.second_factor_since is not None and self.backup_codes <= FEW_BACKUP_CODES
