"""Account summaries: the first thing that people see of their own account."""

from collections.abc import Sequence
from datetime import datetime
from typing import Final
from urllib.parse import urlsplit

from core.domain.email import Email
from core.frozen import Frozen

# With so few codes left, the person should make new ones.
FEW_BACKUP_CODES: Final = 2


MOST_REQUIRING: Final = 5
# The start page shows so many applications and so many organizations; other pages list all of them.
MOST_STARTED: Final = 12


class StartedApplication(Frozen):
    """An application that the person may use, and has used or finds in an organization of theirs."""

    name: str
    organization: str
    """The organization's name."""
    last_used_at: datetime | None
    at: str
    """The address to go on at. Empty if we know none."""


class AdministeredOrganization(Frozen):
    """An organization in whose console the person has something to do."""

    slug: str
    name: str
    waits: bool = False
    """The person has founded it, and the installation's owners have not approved it yet."""


class StartingPlaces(Frozen):
    """The places where a person goes on from their start page."""

    applications: tuple[StartedApplication, ...]
    """The last used first, and those that nobody has used yet by their names."""
    organizations: tuple[AdministeredOrganization, ...]


class RequiringOrganization(Frozen):
    """An organization that requires a second factor of its members."""

    name: str
    due: datetime
    """Until this moment the person can work in the organization without a second factor, and set one up."""
    passkey: bool = False
    """Whether the organization requires a passkey of the person, too."""
    is_stated: bool = False
    """Whether its directory has stated a second factor for the session that asks, which stands for one of ours."""


def origin_of(redirect_uri: str) -> str:
    """The address of the site that a redirect URI belongs to. Empty for an application without a site."""
    parts = urlsplit(redirect_uri)
    return f"{parts.scheme}://{parts.netloc}/" if parts.scheme in {"https", "http"} and parts.netloc else ""


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
    def unmet(self) -> Sequence["RequiringOrganization"]:
        """The organizations that require something that the person has not set up."""
        lacks = self.second_factor_since is None
        return [one for one in self.requiring if (lacks and (one.passkey or not one.is_stated)) or (one.passkey and not self.passkeys)]

    @property
    def must_set_up(self) -> bool:
        return bool(self.unmet)

    @property
    def has_few_backup_codes(self) -> bool:
        return self.second_factor_since is not None and self.backup_codes <= FEW_BACKUP_CODES
