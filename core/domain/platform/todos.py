"""What needs attention: todos, upcoming expiries, and the counts in the frame of the console."""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from enum import StrEnum
from types import MappingProxyType
from typing import Final
from uuid import UUID

from core.domain.identifiers import OrganizationId
from core.domain.identity.accounts import AdministeredOrganization
from core.frozen import Frozen

SOON: Final = timedelta(days=30)
"""A certificate or key that ends within this time is a todo."""
MOST_COUNTED: Final = 100
"""Each count stops here."""


class Todo(StrEnum):
    """The type of an item that waits for a decision in an organization, or that will break something if nobody decides."""

    JOIN_REQUESTS = "join_requests"
    """People who want to become members wait for an answer."""
    CERTIFICATES = "certificates"
    """SAML certificates that end soon, or have ended, and have no successor."""
    CONNECTIONS = "connections"
    """Connections whose last certificate, or ours, ends soon or has ended, or with a certificate that waits for an owner."""
    WEBHOOKS = "webhooks"
    """Webhooks that fail, or that we have disabled because they failed for days."""
    DOMAINS = "domains"
    """Domains whose proof is gone."""
    RESOURCE_SERVERS = "resource_servers"
    """APIs that no tokens are made for, because nobody has shown whose host it is."""
    SECOND_FACTORS = "second_factors"
    """Members without a second factor although the organization requires one."""
    MAIL_SERVER = "mail_server"
    """The organization's mail server fails."""
    SIEM = "siem"
    """The delivery to the organization's SIEM fails."""
    OFFBOARDING = "offboarding"
    """Acts that end or weaken somebody's access, of which a receiver has not heard in time."""
    SETUP_LINKS = "setup_links"
    """Things that were set up with a link, are tested, and wait for an owner."""
    TEXTS = "texts"
    """Own texts beneath which a release has changed ours."""
    KEYS = "keys"
    """Management keys, SCIM tokens and API keys that end soon."""


class PlatformTodo(StrEnum):
    """The kind of a todo of the installation, for its owners."""

    ORGANIZATIONS = "organizations"
    """Organizations that wait for an approval."""
    APPROVALS = "approvals"
    """APIs whose organizations ask for an approval of the host."""
    TEXTS = "texts"
    """Organizations whose own texts wait for an approval, where the installation wants one."""
    JOBS = "jobs"
    """Background work that was given up."""


AnyTodo = Todo | PlatformTodo
Todos = Mapping[Todo, int]
"""The number of things of each todo, up to `MOST_COUNTED`. Todos of which there is nothing are left out."""


EXPIRIES_AHEAD: Final = timedelta(days=90)
"""What ends within this time is listed."""
EXPIRIES_BEHIND: Final = timedelta(days=30)
"""A key that has ended stays listed for this time, and a certificate as long as it is there."""
MOST_EXPIRIES_LISTED: Final = 200


class ExpiryKind(StrEnum):
    """The type of object that expires."""

    APPLICATION_CERTIFICATE = "application_certificate"
    """The certificate that signs an application's SAML assertions."""
    DIRECTORY_CERTIFICATE = "directory_certificate"
    """The last certificate of a directory that signs by SAML."""
    OWN_CERTIFICATE = "own_certificate"
    """Our certificate at a directory."""
    MANAGEMENT_KEY = "management_key"
    API_KEY = "api_key"
    SCIM_TOKEN = "scim_token"  # noqa: S105 - a kind
    DOMAIN = "domain"
    """A domain of people's addresses whose proof was not found at the last look."""
    OWN_DOMAIN = "own_domain"
    """The organization's own domain, likewise."""
    API_HOST = "api_host"
    """The host of an API, likewise. Its name is the API's."""


class Expiry(Frozen, kw_only=True):
    """Something that expires by itself: a certificate, a key or a token, or a domain whose verification was not found. The expiry breaks
    sign-ins.
    """

    kind: ExpiryKind
    id: UUID
    name: str
    """The name of the object. For an application's certificate, the application's name."""
    service_slug: str | None
    organization: OrganizationId | None
    """None for a key of the platform."""
    organization_slug: str | None
    organization_name: str | None
    ends_at: datetime | None
    """None for a domain: it ends when three looks in a row have not found its proof."""
    last_used_at: datetime | None
    has_successor: bool
    """The next certificate is there, and takes over by itself or on the owner's word."""


NO_TODOS: Final[Mapping[AnyTodo, int]] = MappingProxyType({})


class FrameFacts(Frozen):
    """What the frame of a console page shows beside the page itself."""

    places: Sequence[AdministeredOrganization] = ()
    """The organizations that the person looks after, the one of the page among them."""
    todos: Mapping[AnyTodo, int] = NO_TODOS
    """What waits for somebody's hand in the place of the page."""
