"""Users of a service: people who signed in to it, and people whom its servers added. The rules say what an API key may do to these people.
There are limits, because an account belongs to its owner and may be in use elsewhere.
"""

from collections.abc import Mapping
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
from core.domain.tenancy.metadata import Metadata
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
    """A user of a service, with everything else that uses the account. The rows are locked until the unit of work ends."""

    account: Account
    came_through_service: bool
    """The account was created through this service."""
    owns_an_organization: bool
    is_held_elsewhere: bool
    """A membership, a directory, another service or a role on the platform uses the account."""

    @property
    def belongs_to_service(self) -> bool:
        """Whether the service may change and delete this account as its owner may. Not when the owner has proved the address, because then
        the account is the owner's. Not when the platform has deactivated the account, because after a deletion the person could register
        again.
        """
        return (
            self.came_through_service
            and not self.is_held_elsewhere
            and not self.owns_an_organization
            and not self.account.is_platform_owner
            and not self.account.address_is_proved
            and self.account.deactivated_at is None
        )

    def require_belonging(self) -> None:
        """Raises `Forbidden` when the account does not belong to the service."""
        if not self.belongs_to_service:
            raise Forbidden("The owner has proved this address, or others use the account too: only its owner can change it")

    def fate(self) -> AccountFate:
        """The effect of deleting this user. Raises `Forbidden` for a person whom no service may remove."""
        if self.account.is_platform_owner or self.owns_an_organization:
            raise Forbidden("The user owns an organization or is a platform owner")
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
    told: dict[str, Json] = {
        **details,
        "service_id": str(holder.service),
        "service_slug": holder.service_slug,
        "api_key_id": str(holder.key),
    }
    return Event(name, actor, Target("user", str(user)), holder.organization, told)
