"""Events: an actor did something to a target. One event is the source of the audit entry, of the webhook, and of the jobs that follow."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Final

from core.domain.formats import Json
from core.domain.identifiers import ApiKeyId, ClientId, ManagementKeyId, OrganizationId, ScimTokenId, SetupLinkId, UserId
from core.domain.languages import Language
from core.domain.record.changed_settings import SettingChange
from core.domain.record.event_types import Audience, EventType, event_type
from core.frozen import Frozen, field

ACTING_KEY: Final = "acting_key"
"""The member of an audit entry's stored details for the name and prefix that the API key had when it acted."""

DOCUMENT: Final = "document"
"""The member of an audit entry's stored details for the digest of the configuration document that asked for the change."""

AGENT: Final = "agent"
"""The member of an event's and an audit entry's details for the client id of the agent that acts for the actor, or that it is about."""

UNDOES: Final = "undoes"
"""The member of an audit entry's stored details for the id of the entry whose change this one takes back."""


class ActingKind(StrEnum):
    """The kind of the key, in the words of the audit log."""

    API_KEY = "api_key"
    MANAGEMENT_KEY = "management_key"
    SCIM_TOKEN = "scim_token"  # noqa: S105 - a kind, not a token
    SETUP_LINK = "setup_link"


class ActingKey(Frozen):
    """The API key of a service's servers, a management key, the SCIM token of a directory, or a set-up link, with the name that it then
    had.
    """

    id: ApiKeyId | ManagementKeyId | ScimTokenId | SetupLinkId
    name: str
    prefix: str
    kind: ActingKind = ActingKind.API_KEY


class Actor(Frozen):
    """The actor and the place: a user, or a program with its key. Background work has none of them, and no address."""

    user: UserId | None = None
    impersonator: UserId | None = None
    address: str | None = None
    user_agent: str | None = None
    key: ActingKey | None = None
    language: Language | None = None
    """The language that the request asks for, if any. It is used in mails to people who have not chosen a language."""
    operator: str = ""
    """The name of an operator who acts at the command line, without an account."""
    document: str = ""
    """The digest of the configuration document that asks for the change. Empty for every other change."""
    change: SettingChange | None = None
    """The settings that a page changes, so that they can be put back."""
    agent: ClientId | None = None
    """The agent that acts for the user, or that the user lets in or shuts out."""


SYSTEM = Actor()


class TargetType(StrEnum):
    """The target types that the audit log can be filtered by. The last five occur only in the platform's log."""

    USER = "user"
    SERVICE = "service"
    SIGNAL_STREAM = "signal_stream"
    ORGANIZATION = "organization"
    PLAN = "plan"
    SUBSCRIPTION = "subscription"
    INVITATION = "invitation"
    API_KEY = "api_key"
    USER_KEY = "user_key"
    MANAGEMENT_KEY = "management_key"
    SCIM_TOKEN = "scim_token"  # noqa: S105 - a kind, not a token
    DOMAIN = "domain"
    BRANDING = "branding"
    ROLE = "role"
    PROFILE_FIELD = "profile_field"
    TEAM = "team"
    WEBHOOK = "webhook"
    SIEM = "siem"
    HOOK = "hook"
    UPSTREAM_PROVIDER = "upstream_provider"
    RESOURCE_SERVER = "resource_server"
    TRUSTED_ISSUER = "trusted_issuer"
    SETUP_LINK = "setup_link"
    PROPOSAL = "proposal"
    SIGNING_KEY = "signing_key"
    ENCRYPTION_KEY = "encryption_key"
    BACKUP = "backup"
    IMPORT = "import"
    JOB = "job"
    MAIL_BUDGET = "mail_budget"
    PROVIDER = "provider"
    RISK_POLICIES = "risk_policies"
    TERMS = "terms"
    TEXTS = "texts"


class Target(Frozen):
    type: str
    id: str

    def __post_init__(self) -> None:
        if self.type not in _TARGETS:
            raise ValueError(f"{self.type} is not a type of target in the audit log")


_TARGETS: Final = frozenset(TargetType)


class Event(Frozen):
    """An event. Its type is in the catalogue, which also says whether the event is audited and published. `details` never contain a secret.

    `personal` holds details that identify a person: an address, a name. They are stored apart, so that they can be forgotten together with
    the actor's account. If nobody knows the actor, they are forgotten with the account of `person`, whom the event is about.
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
        for name in (ACTING_KEY, DOCUMENT, UNDOES, AGENT):
            if name in self.details or name in self.personal:
                raise ValueError(f"{name} comes from the actor, not from the details")

    @property
    def type(self) -> EventType:
        """Raises `UnknownEventType`, so an event of an unknown type cannot be built."""
        return event_type(self.name)

    @property
    def known_details(self) -> Mapping[str, Json]:
        """The details, with the agent."""
        return self.details if self.actor.agent is None else {**self.details, AGENT: self.actor.agent}

    @property
    def known_personal(self) -> Mapping[str, str]:
        """The personal details, with the operator's name."""
        return {**self.personal, "operator": self.actor.operator} if self.actor.operator else self.personal

    @property
    def audited(self) -> bool:
        return self.type.audited

    @property
    def published(self) -> bool:
        """Webhooks get successful actions. Failed attempts are in the audit log only, unless the failure is an event of its own."""
        return self.success and self.type.published


def differences(old: Mapping[str, Json], new: Mapping[str, Json]) -> dict[str, Json]:
    """Returns what an event states about a change.

    The same facts of both. First the earlier values, then the new ones.
    """
    changed = [name for name in new if old[name] != new[name]]
    return {f"old_{name}": old[name] for name in changed} | {f"new_{name}": new[name] for name in changed}
