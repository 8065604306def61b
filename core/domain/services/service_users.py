"""Users of an application, as its own servers and its organization see them, and its usage figures."""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final

from core.domain.errors import BadRequest, Forbidden
from core.domain.formats import Json
from core.domain.identifiers import OrganizationId, ServiceId, UserId
from core.domain.identity.accounts import Account
from core.domain.mail import Email
from core.domain.rate_limits import RateLimit
from core.domain.record.events import Actor, Event, Target
from core.domain.requests import MOST_ROWS_COUNTED, Page
from core.domain.services.api_keys import KeyHolder
from core.domain.tenancy.organizations import Metadata
from core.frozen import Frozen

# For each key. An import of many users goes on at this pace, and a caller who tries addresses does not get far.
ADDITIONS: Final = RateLimit("service_user_additions", burst=60, seconds_per_request=1)
# The provider in the event of an account that a service made. A registered account has its way to sign in there.
THROUGH_A_KEY: Final = "api_key"


class ServiceUser(Frozen):
    """A user of a service. `created_at` is when the account was made. For a person who never signed in to the service, it is when the
    service added the person.
    """

    id: UserId
    email: Email
    created_at: datetime
    name: str | None = None
    """None for people who never came to the service by themselves."""


class ServiceUserDetail(Frozen):
    """A user with what the service keeps of them, and what its organization keeps by fields."""

    user: ServiceUser
    metadata: Metadata
    profile: Mapping[str, Json]
    """The values by the keys of the organization's fields, in the order of the fields."""


class AccountFate(StrEnum):
    """The effect on an account when a service deletes its user."""

    DELETED = "deleted"
    KEPT = "kept"


class HeldServiceUser(Frozen):
    """A user of an application, who signed in to it or whom its servers added, with everything else that uses the account. It limits what
    an API key may do to the user, because an account belongs to its owner and may be in use elsewhere. The rows are locked until the unit
    of work ends.
    """

    account: Account
    is_made_here: bool
    """A key of this service has made the account, and nobody else holds it: see `core.domain.identity.made_accounts`."""
    owns_an_organization: bool
    is_used_here: bool
    """The service's own organization has another tie to the person: as a member, in its directory, or in another service. A key reaches
    none of these.
    """
    is_used_elsewhere: bool
    """Another organization has a tie to the account, if only as one that lists the person."""

    @property
    def belongs_to_service(self) -> bool:
        """Whether the service may delete this account."""
        return self.is_made_here and not self.is_used_here and not self.owns_an_organization and not self.account.is_platform_owner

    @property
    def is_movable(self) -> bool:
        """Whether the service may give the account another address: until somebody proves the address, and while no other organization
        lists the person, because the place there would go over to the holder of the new address.
        """
        return self.belongs_to_service and not self.is_used_elsewhere and not self.account.address_is_proved

    def require_movable(self) -> None:
        """Raises `Forbidden` for an account that only its owner can move."""
        if not self.is_movable:
            raise Forbidden(
                "The owner has verified this email address, or others also use the account: only its owner can change it",
                words="platform_can_help",
            )

    def fate(self) -> AccountFate:
        """The effect of deleting this user. Raises `Forbidden` for a person whom no service may remove."""
        if self.account.is_platform_owner or self.owns_an_organization:
            raise Forbidden("The user owns an organization or is a platform owner", words="transfer_first")
        return AccountFate.DELETED if self.belongs_to_service else AccountFate.KEPT


def user_created(user: UserId, holder: KeyHolder, actor: Actor) -> Event:
    """The event of an account that a service made. The actor is the service alone. No mail is sent, and the person may never hear of it."""
    return _event("user.signup.success", user, holder, actor, {"provider": THROUGH_A_KEY})


def user_joined(user: UserId, holder: KeyHolder, actor: Actor) -> Event:
    """The event of an existing account that became a user of the service."""
    return _event("user.joined", user, holder, actor, {})


def email_changed(user: UserId, holder: KeyHolder, actor: Actor) -> Event:
    return _event("user.email.changed", user, holder, actor, {})


def metadata_changed(user: UserId, holder: KeyHolder, actor: Actor) -> Event:
    return _event("user.metadata.updated", user, holder, actor, {})


def user_deleted(user: UserId, fate: AccountFate, holder: KeyHolder, actor: Actor) -> Event:
    return _event("user.removed", user, holder, actor, {"account": fate.value})


def _event(name: str, user: UserId, holder: KeyHolder, actor: Actor, details: dict[str, Json]) -> Event:
    facts: dict[str, Json] = {
        **details,
        "service_id": str(holder.service),
        "service_slug": holder.service_slug,
        "api_key_id": str(holder.key),
    }
    return Event(name, actor, Target("user", str(user)), holder.organization, facts)


# The longest text to search for. No address is longer: RFC 5321 section 4.5.3.1 allows 64 and 255 characters with the @ between.
LONGEST_SEARCH: Final = 320


class EndUser(Frozen):
    """A user of an organization's applications, with the data that this organization may know. Members manage the organization; an end user
    need not be a member. `last_login_at` and `services` cover its own applications only.
    """

    id: UserId
    email: Email
    created_at: datetime
    last_login_at: datetime | None
    mfa_enabled: bool
    services: Sequence[str]
    """The slugs of the services."""
    name: str | None = None
    """None for people who never came by themselves."""


class UsedService(Frozen):
    """A service that a person uses. `first_login_at` is None when the service has added the person, and the person has
    not signed in since.
    """

    id: ServiceId
    slug: str
    name: str
    first_login_at: datetime | None
    last_login_at: datetime | None
    metadata: Metadata


class UsedIdentity(Frozen):
    """An account at a provider by which a person signs in to a service."""

    provider: str
    subject: str
    email: str
    linked_at: datetime


class EndUserDetail(Frozen):
    """An end user in detail. No data comes from another organization, or from the person's use of the platform."""

    id: UserId
    email: Email
    email_verified: bool
    created_at: datetime
    updated_at: datetime
    mfa_enabled: bool
    services: Sequence[UsedService]
    identities: Sequence[UsedIdentity]
    """The accounts at providers by which the person signs in to the organization's services."""
    active_sessions: int
    """The number of sessions in the organization's services."""
    last_session_at: datetime | None
    """The beginning of the newest of these sessions."""
    name: str | None = None
    """None for people who never came by themselves."""

    @property
    def last_login_at(self) -> datetime | None:
        return max((one.last_login_at for one in self.services if one.last_login_at is not None), default=None)


class LockedOut(Frozen):
    """What an organization has ended for a person whose account somebody else may be in."""

    account_locked: bool
    """The organization has made the account, and nobody else holds it. Otherwise only what is the organization's own has ended."""
    sessions: int
    keys: int


def searched(text: str) -> str:
    """The text to find in normalized addresses, so that `ADA@` finds `ada@`. An empty text finds everybody. Raises `BadRequest`."""
    wanted = Email(text.strip()).key
    if len(wanted) > LONGEST_SEARCH:
        raise BadRequest(f"search: at most {LONGEST_SEARCH} characters", words="text_too_long", values={"most": LONGEST_SEARCH})
    return wanted


def require_reachable(page: Page, search: str) -> None:
    """A search does not show pages this far back. The reader searches for a longer text instead. Raises `BadRequest`."""
    if search and _is_far(page):
        raise BadRequest(
            f"page: a search ends after {MOST_ROWS_COUNTED} end users; search for a longer part of the email address",
            words="search_narrower",
        )


def is_dear(page: Page, search: str) -> bool:
    """Whether the database may have to read all of the organization's end users for this page."""
    return bool(search) or _is_far(page)


def _is_far(page: Page) -> bool:
    return page.offset + page.limit > MOST_ROWS_COUNTED


def sessions_in_services_ended(organization: OrganizationId, user: UserId, sessions: int, actor: Actor) -> Event:
    return Event("security.sessions.revoked", actor, Target("user", str(user)), organization, {"sessions": sessions})


# The time over which sign-ins are counted.
LOOKED_BACK: Final = timedelta(days=30)


class ServiceAnalytics(Frozen, kw_only=True):
    """The usage figures that an application may know: the sign-ins of the last 30 days, and the users behind them."""

    total_users: int
    total_subscriptions: int
    active_subscriptions: int
    total_logins: int
    unique_users: int
