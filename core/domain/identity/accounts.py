"""Accounts: each is a user, known by an email address, with a password and pending changes."""

import hmac
from collections.abc import Sequence
from datetime import datetime
from typing import Final
from urllib.parse import urlsplit

from core.domain.formats import with_parameters
from core.domain.identifiers import OrganizationId, UserId
from core.domain.identity.sessions import PLATFORM, Context
from core.domain.identity.upstream.claims import Voucher
from core.domain.languages import Language
from core.domain.mail import Email
from core.domain.rate_limits import RateLimit
from core.domain.record.events import SYSTEM, Actor, Event, Target
from core.domain.requests import is_just_past
from core.domain.secrets import Password, Token
from core.frozen import Frozen

SHORTEST_PASSWORD = 8
LONGEST_PASSWORD: Final = Password.longest

# Per account, from all addresses together. A thief of a session must not learn the password by trying.
PASSWORD_GUESSES = RateLimit("password_guesses", burst=5, seconds_per_request=60)
# A change of address sends mail to an address that somebody typed.
EMAIL_CHANGES = RateLimit("email_changes", burst=5, seconds_per_request=600)
# For each kind of mail. Links that strangers request must not flood a person's mailbox; nobody needs a sixth link within the hour.
ACCOUNT_MAILS = RateLimit("account_mails", burst=5, seconds_per_request=600)


class Account(Frozen):
    id: UserId
    email: Email
    is_platform_owner: bool
    email_verified_at: datetime | None
    deactivated_at: datetime | None
    created_at: datetime
    language: Language | None = None
    """The language of mails and pages that the person has chosen."""
    deactivated_by: OrganizationId | None = None
    """The organization whose directory has deactivated the account, if the query asked for it. None when the platform has deactivated the
    account, or nobody has.
    """
    address_vouched_by: Voucher | None = None
    """The organization's own provider that vouched for the address. None when nobody did, or when the address is proved."""
    locked_at: datetime | None = None
    """When the account was last locked, if the query asked for it. It stays when the account is open again."""
    lock_waits: bool = False
    """Nobody has chosen a password since the lock, if the query asked for it. So it is also when a directory has deactivated the account
    after the lock.
    """

    password_changed_at: datetime | None = None
    """When somebody last chose a password, or one was taken away, if the query asked for it."""

    @property
    def is_locked(self) -> bool:
        """The person, the account's maker or the platform has locked the account: it lets nobody in before the reader of the mailbox has
        chosen a new password.
        """
        return self.deactivated_at is not None and self.deactivated_at == self.locked_at

    @property
    def awaits_new_password(self) -> bool:
        """The account was locked, and nothing but a new password opens it, even if a directory has deactivated it since. The lock's
        question, which of its ways in are the person's, is still to be asked.
        """
        return self.is_locked or self.lock_waits

    @property
    def address_is_proved(self) -> bool:
        """Whether somebody has shown that they read the mailbox: what counts for everything, except where a vouched address is enough."""
        return self.email_verified_at is not None

    @property
    def address_is_vouched(self) -> bool:
        """An organization's own provider has vouched for the address, and nobody has proved it."""
        return not self.address_is_proved and self.address_vouched_by is not None

    @property
    def nobody_knows_address(self) -> bool:
        return not self.address_is_proved and self.address_vouched_by is None

    def address_is_verified_for(self, organization: OrganizationId | None) -> bool:
        """Whether the address counts as verified towards this organization. None is the platform."""
        if self.address_is_proved:
            return True
        return self.address_vouched_by is not None and self.address_vouched_by.organization == organization

    @property
    def opens_by_proof(self) -> bool:
        """An organization's directory has deactivated the account. A link that the reader of the mailbox asks for afterwards opens it:
        otherwise any organization could lock any address out. If the platform has deactivated the account, no link opens it.
        """
        return self.deactivated_at is not None and self.deactivated_by is not None

    @property
    def opens_by_first_proof(self) -> bool:
        """A directory has deactivated the account, and nobody has proved the address. So the first proof of any kind opens it, without
        being asked for: also an invitation that our own server has mailed afterwards, or the word of a provider of the installation.
        """
        return self.opens_by_proof and not self.address_is_proved

    def is_switched_off_by(self, directory: OrganizationId) -> bool:
        """The organization's own directory has deactivated the account. Of any other deactivation, the organization learns nothing."""
        return self.deactivated_at is not None and self.deactivated_by == directory

    @property
    def is_shut(self) -> bool:
        """The account is deactivated, and no link opens it. A locked account opens by a new password, and by nothing else."""
        return self.deactivated_at is not None and not self.opens_by_proof and not self.is_locked

    def is_new(self, now: datetime) -> bool:
        """The account was registered a moment ago, perhaps by the first of two equal forms."""
        return is_just_past(self.created_at, now)


def unverified_account(
    user: UserId, email: Email, now: datetime, language: Language | None = None, voucher: Voucher | None = None
) -> Account:
    """A new account: nobody has proved its address yet."""
    return Account(
        user,
        email,
        is_platform_owner=False,
        email_verified_at=None,
        deactivated_at=None,
        created_at=now,
        language=language,
        address_vouched_by=voucher,
    )


class AccountPassword(Frozen):
    """An active account, and the hash of its password. `encoded` is None when the account has no password."""

    email: Email
    encoded: str | None
    changed_at: datetime | None = None
    language: Language | None = None

    def is_new(self, now: datetime) -> bool:
        """The password was chosen a moment ago, perhaps by the first of two equal forms."""
        return self.encoded is not None and is_just_past(self.changed_at, now)


class PasswordChosen(Frozen):
    """What choosing a password by a mailed link has done."""

    had_password: bool
    was_vouched: bool
    """The link was the first proof of the address: all that somebody might have set up in the account before is gone."""


class BeforeReset(Frozen):
    """An account as it was before its password was reset."""

    account: Account
    had_password: bool


class Registration(Frozen):
    """An account whose address nobody has proved yet, as its registration left it. `encoded` is the hash of its password; an account that
    somebody else made has none.
    """

    encoded: str | None
    browser: bytes | None = None
    """The digest of the secret that the registering browser has for its flows. None when the account was not registered in a browser."""
    is_vouched: bool = False
    """Nobody registered, or it does not matter any more: an organization's own provider vouches for the address."""

    def was_made_in(self, browser: Token | None) -> bool:
        """False for a registration without a password: nothing is left of what the browser did."""
        if browser is None or self.browser is None or self.encoded is None:
            return False
        return hmac.compare_digest(browser.digest(), self.browser)


class Unverified(Frozen):
    """An account whose address nobody has proved."""

    is_vouched: bool


class EmailChange(Frozen):
    """The current address, and the new address that waits for its verification. `pending` is None when no change is under way."""

    email: Email
    pending: Email | None


def signed_up(user: UserId, actor: Actor, provider: str, through: Context = PLATFORM) -> Event:
    """If a service created the account, the event goes to the organization of this service."""
    service = {} if through.service is None else {"service_id": str(through.service)}
    return Event("user.signup.success", actor, Target("user", str(user)), through.organization, {"provider": provider, **service})


def registration_refused(user: UserId, actor: Actor, *, removed: bool) -> Event:
    """`removed`: the whole account is gone. Otherwise only what its registration had left is gone."""
    return Event("user.registration.refused", actor, Target("user", str(user)), details={"account": "removed" if removed else "kept"})


def registration_lapsed(user: UserId) -> Event:
    """Nobody proved the address in time, and nobody used the account. It is gone."""
    return Event("user.registration.lapsed", SYSTEM, Target("user", str(user)))


def email_change_refused(user: UserId, actor: Actor) -> Event:
    return Event("user.email.change_refused", actor, Target("user", str(user)))


def opened_by_proof(user: UserId, actor: Actor) -> Event:
    """A directory had deactivated the account, and the reader of its mailbox has now opened it. The person's membership stays as the
    directory set it.
    """
    return Event("user.activated", actor, Target("user", str(user)), details={"how": "address_proved"})


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
    initiates_at: str | None = None
    """The application's own page where it begins a sign-in."""

    def opens_at(self, issuer: str) -> str:
        """The application begins the sign-in itself if it can. It learns who asks for that, and nothing of the person (OpenID Connect Core
        section 4).
        """
        return self.at if self.initiates_at is None else with_parameters(self.initiates_at, iss=issuer)


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
    """The summary that users see first on the pages of their own account."""

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
