"""Events: something happened, to somebody, by somebody. One record is the source of the audit entry, of the webhook event, and of the jobs
that follow.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from core.domain.identifiers import OrganizationId, UserId
from core.domain.json import Json


@dataclass(frozen=True, slots=True)
class Actor:
    """Who did it, and from where. Background work has no user and no address."""

    user: UserId | None = None
    impersonator: UserId | None = None
    address: str | None = None
    user_agent: str | None = None


SYSTEM = Actor()


@dataclass(frozen=True, slots=True)
class Target:
    type: str
    id: str


@dataclass(frozen=True, slots=True)
class Event:
    """`audited` writes an audit entry, `published` offers the event to webhooks. Most are both. `details` never carries a secret.

    `personal` are details that say who somebody is: an address, a name. The audit log keeps them apart, so that they can be forgotten: with
    the actor's account, or, where nobody can tell who it was, with that of the `person` whom they are about.
    """

    name: str
    actor: Actor
    target: Target
    organization: OrganizationId | None = None
    details: Mapping[str, Json] = field(default_factory=dict)
    success: bool = True
    audited: bool = True
    published: bool = True
    personal: Mapping[str, str] = field(default_factory=dict)
    person: UserId | None = None
