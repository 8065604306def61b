"""What ends by itself: certificates, keys and tokens with an end, and domains whose proof was not found. Such an end breaks sign-ins."""

from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final
from uuid import UUID

from core.domain.identifiers import OrganizationId
from core.frozen import Frozen

AHEAD: Final = timedelta(days=90)
"""What ends within this time is listed."""
BEHIND: Final = timedelta(days=30)
"""A key that has ended stays listed for this time, and a certificate as long as it is there."""
MOST_LISTED: Final = 200


class ExpiryKind(StrEnum):
    """The kind of thing that ends."""

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
    kind: ExpiryKind
    id: UUID
    name: str
    """The name of the thing. For the certificate of an application, the application's name."""
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
