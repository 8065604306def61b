"""Users of a service: whoever signed in to it, or came to be through it. What its own servers may do to them with an API key, and what not,
because an account is its owner's and may be in use elsewhere.
"""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Final

from core.domain.accounts import Account
from core.domain.api_keys import KeyHolder
from core.domain.email import Email
from core.domain.errors import Forbidden
from core.domain.events import Actor, Event, Target
from core.domain.identifiers import UserId
from core.domain.json import Json

# In place of the way in that whoever registers themselves has chosen.
THROUGH_A_KEY: Final = "api_key"


@dataclass(frozen=True, slots=True)
class ServiceUser:
    """`created_at` is when the account came to be, through this service or another way."""

    id: UserId
    email: Email
    created_at: datetime


class Fate(StrEnum):
    """What becomes of the account of a user whom a service deletes."""

    DELETED = "deleted"
    KEPT = "kept"


@dataclass(frozen=True, slots=True)
class HeldServiceUser:
    """A user of a service, and what else there is to their account; all of it stays as it is until the unit of work ends."""

    account: Account
    came_through_service: bool
    """The account would not be there without this service."""
    owns_an_organization: bool
    is_held_elsewhere: bool
    """By a membership, or as a user of another service."""

    @property
    def user(self) -> ServiceUser:
        return ServiceUser(self.account.id, self.account.email, self.account.created_at)

    @property
    def belongs_to_service(self) -> bool:
        """The service may do to the account what only its owner may otherwise. Not to one that the platform has deactivated: deleted, it
        could be made anew.
        """
        return (
            self.came_through_service
            and not self.is_held_elsewhere
            and not self.owns_an_organization
            and not self.account.is_platform_owner
            and self.account.deactivated_at is None
        )

    def require_belonging(self) -> None:
        """Raises `Forbidden`."""
        if not self.belongs_to_service:
            raise Forbidden("The account is not this service's alone: only its owner can change its e-mail address")

    def fate(self) -> Fate:
        """Raises `Forbidden` for somebody whom no service may remove."""
        if self.account.is_platform_owner or self.owns_an_organization:
            raise Forbidden("The user is owner of an organization or of the platform")
        return Fate.DELETED if self.belongs_to_service else Fate.KEPT


def user_created(user: UserId, holder: KeyHolder, actor: Actor) -> Event:
    """Nobody but the service has done anything: there is no mail, and the person may never hear of it."""
    return _event("user.signup.success", user, holder, actor, {"provider": THROUGH_A_KEY})


def user_joined(user: UserId, holder: KeyHolder, actor: Actor) -> Event:
    """An account that was there became a user of the service."""
    return _event("user.joined", user, holder, actor, {})


def email_changed(user: UserId, holder: KeyHolder, actor: Actor) -> Event:
    return _event("user.email.changed", user, holder, actor, {}, published=False)


def user_deleted(user: UserId, fate: Fate, holder: KeyHolder, actor: Actor) -> Event:
    return _event("user.removed", user, holder, actor, {"account": fate.value})


def _event(name: str, user: UserId, holder: KeyHolder, actor: Actor, details: dict[str, Json], *, published: bool = True) -> Event:
    told: dict[str, Json] = {
        **details,
        "service_id": str(holder.service),
        "service_slug": holder.service_slug,
        "api_key_id": str(holder.key),
    }
    return Event(name, actor, Target("user", str(user)), holder.organization, told, published=published)
