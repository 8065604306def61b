"""Events: something happened, who did it, and whom it concerns. One record is the source of the audit entry, of the webhook event, and of
the jobs that follow.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Final

from core.domain.identifiers import ApiKeyId, OrganizationId, ScimTokenId, UserId
from core.domain.json import Json
from core.domain.languages import Language
from core.domain.record.event_types import Audience, EventType, event_type
from core.frozen import Frozen, field

ACTING_KEY: Final = "acting_key"
"""The key in the stored details of an audit entry that holds the name and prefix which the API key had when it acted."""


class ActingKind(StrEnum):
    """What kind of key it is, as the record keeps it."""

    API_KEY = "api_key"
    SCIM_TOKEN = "scim_token"  # noqa: S105 - a kind, not a token


class ActingKey(Frozen):
    """The API key that somebody's servers act with, or the SCIM token of a directory, under its name at that moment."""

    id: ApiKeyId | ScimTokenId
    name: str
    prefix: str
    kind: ActingKind = ActingKind.API_KEY


class Actor(Frozen):
    """Who did it, and from where: a user, an API key, or a directory with its SCIM token. Background work has neither, and no address."""

    user: UserId | None = None
    impersonator: UserId | None = None
    address: str | None = None
    user_agent: str | None = None
    key: ActingKey | None = None
    language: Language | None = None
    """What they read, if the request says so: for mails to people who have not chosen a language."""


SYSTEM = Actor()


class TargetType(StrEnum):
    """What an event is about, and what the audit log can be asked for. The last two stand in the platform's log alone."""

    USER = "user"
    SERVICE = "service"
    ORGANIZATION = "organization"
    PLAN = "plan"
    SUBSCRIPTION = "subscription"
    INVITATION = "invitation"
    API_KEY = "api_key"
    SCIM_TOKEN = "scim_token"  # noqa: S105 - a kind, not a token
    DOMAIN = "domain"
    BRANDING = "branding"
    ROLE = "role"
    WEBHOOK = "webhook"
    SIEM = "siem"
    UPSTREAM_PROVIDER = "upstream_provider"
    SIGNING_KEY = "signing_key"
    ENCRYPTION_KEY = "encryption_key"


class Target(Frozen):
    type: str
    id: str

    def __post_init__(self) -> None:
        if self.type not in _TARGETS:
            raise ValueError(f"{self.type} is not a type of target that the audit log can be asked for")


_TARGETS: Final = frozenset(TargetType)


class Event(Frozen):
    """Of a type from the catalogue, which also says whether the event is audited and published. `details` never carries a secret.

    `personal` holds details that identify a person: an address, a name. They are stored apart, so that they can be forgotten together with
    the actor's account or, where nobody can tell who acted, with the account of the `person` that they are about.
    """

    name: str
    actor: Actor
    target: Target
    organization: OrganizationId | None = None
    details: Mapping[str, Json] = field(default_factory=dict)
    success: bool = True
    personal: Mapping[str, str] = field(default_factory=dict)
    person: UserId | None = None

    def __post_init__(self) -> None:
        type_of_it = self.type
        if self.organization is not None and type_of_it.audience is not Audience.ORGANIZATION:
            raise ValueError(f"{self.name} does not concern an organization")
        if ACTING_KEY in self.details or ACTING_KEY in self.personal:
            raise ValueError(f"{ACTING_KEY} comes from the actor, not from the details")

    @property
    def type(self) -> EventType:
        """Raises `UnknownEventType`, so an event of an unknown type cannot be built."""
        return event_type(self.name)

    @property
    def audited(self) -> bool:
        return self.type.audited

    @property
    def published(self) -> bool:
        """Webhooks get what has happened. A failed try stands in the audit log only, unless the failure is an event of its own."""
        return self.success and self.type.published
