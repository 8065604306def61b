"""Users of a service: people who signed in to it, and people whom its servers added. This is what an API key may do to them, and what it
may not, because an account belongs to its owner and may be in use elsewhere.
"""

from datetime import datetime
from enum import StrEnum
from typing import Final

from core.domain.email import Email
from core.domain.errors import Forbidden
from core.domain.identifiers import UserId
from core.domain.identity.accounts import Account
from core.domain.json import Json
from core.domain.rate_limits import RateLimit
from core.domain.record.events import Actor, Event, Target
from core.domain.services.api_keys import KeyHolder
from core.frozen import Frozen

# For each key. An import of many users goes on at this pace; a caller who tries addresses does not get far.
ADDITIONS: Final = RateLimit("service_user_additions", burst=60, seconds_per_request=1)
# Stands where the way to sign in would stand if the person had registered.
THROUGH_A_KEY: Final = "api_key"


class ServiceUser(Frozen):
    """`created_at` is when the account was made. Of somebody who never came to the service, it is when they were made its user."""

    id: UserId
    email: Email
    created_at: datetime


class AccountFate(StrEnum):
    """What becomes of an account when a service deletes its user."""

    DELETED = "deleted"
    KEPT = "kept"


class HeldServiceUser(Frozen):
    """A user of a service, with everything else that holds the account. All of it stays as it is until the unit of work ends."""

    account: Account
    came_through_service: bool
    """The account was made through this service."""
    owns_an_organization: bool
    is_held_elsewhere: bool
    """A membership holds it, a directory, another service, or an office."""
    since: datetime
    """What the service is shown as `created_at`."""

    @property
    def user(self) -> ServiceUser:
        return ServiceUser(self.account.id, self.account.email, self.since)

    @property
    def belongs_to_service(self) -> bool:
        """The service may do to this account what otherwise only its owner may. Not if its owner has proved the address: then they hold it.
        Not if the platform has deactivated it either: deleting it would let the person register again.
        """
        return (
            self.came_through_service
            and not self.is_held_elsewhere
            and not self.owns_an_organization
            and not self.account.is_platform_owner
            and self.account.email_verified_at is None
            and self.account.deactivated_at is None
        )

    def require_belonging(self) -> None:
        """Raises `Forbidden`."""
        if not self.belongs_to_service:
            raise Forbidden("The owner has proved this address, or others use the account too: only its owner can change it")

    def fate(self) -> AccountFate:
        """Raises `Forbidden` for a person whom no service may remove."""
        if self.account.is_platform_owner or self.owns_an_organization:
            raise Forbidden("The user owns an organization or is a platform owner")
        return AccountFate.DELETED if self.belongs_to_service else AccountFate.KEPT


def user_created(user: UserId, holder: KeyHolder, actor: Actor) -> Event:
    """Only the service has acted. No mail is sent, and the person may never hear of it."""
    return _event("user.signup.success", user, holder, actor, {"provider": THROUGH_A_KEY})


def user_joined(user: UserId, holder: KeyHolder, actor: Actor) -> Event:
    """An existing account became a user of the service."""
    return _event("user.joined", user, holder, actor, {})


def email_changed(user: UserId, holder: KeyHolder, actor: Actor) -> Event:
    return _event("user.email.changed", user, holder, actor, {})


def user_deleted(user: UserId, fate: AccountFate, holder: KeyHolder, actor: Actor) -> Event:
    return _event("user.removed", user, holder, actor, {"account": fate.value})


def _event(name: str, user: UserId, holder: KeyHolder, actor: Actor, details: dict[str, Json]) -> Event:
    told: dict[str, Json] = {
        **details,
        "service_id": str(holder.service),
        "service_slug": holder.service_slug,
        "api_key_id": str(holder.key),
    }
    return Event(name, actor, Target("user", str(user)), holder.organization, told)
