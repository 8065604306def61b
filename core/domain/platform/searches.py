"""One search over everything that has a name, in an organization and in the whole installation. People have searches of their own, since
readers know people by their addresses, and since a search for part of an address takes turns.
"""

from enum import StrEnum
from typing import Final
from uuid import UUID

from core.domain.identifiers import OrganizationId
from core.frozen import Frozen

LONGEST_TEXT: Final = 200
MOST_OF_A_KIND: Final = 10
# An organization has a bounded number of things of each kind. An installation has any number of organizations and applications: a search
# reads the newest of them, up to this number.
MOST_READ: Final = 100_000


class ThingKind(StrEnum):
    """The type of a search result, in display order."""

    ORGANIZATION = "organization"
    APPLICATION = "application"
    APPLICATION_ROLE = "application_role"
    PERMISSION = "permission"
    CLAIM = "claim"
    API = "api"
    """A resource server."""
    PLAN = "plan"
    API_KEY = "api_key"
    TEAM = "team"
    ROLE = "role"
    FIELD = "field"
    INVITATION = "invitation"
    """An invitation that waits for its answer. Its name is the address."""
    DIRECTORY = "directory"
    DOMAIN = "domain"
    """A domain of people's addresses."""
    OWN_DOMAIN = "own_domain"
    """The domain on which the organization's people sign in."""
    SCIM_TOKEN = "scim_token"  # noqa: S105 - a kind
    SETUP_LINK = "setup_link"
    WEBHOOK = "webhook"
    SIEM = "siem"
    MANAGEMENT_KEY = "management_key"
    TIER = "tier"


class FoundThing(Frozen, kw_only=True):
    kind: ThingKind
    id: UUID
    name: str
    slug: str | None
    """The short name, or the key of a field. None where the kind has none."""
    service_slug: str | None
    """Of the application that the thing belongs to. None where it belongs to none."""
    organization: OrganizationId | None
    """None for a thing of the installation, and for an organization itself."""
    organization_slug: str | None
    organization_name: str | None


class FoundThings(Frozen):
    things: list[FoundThing]
    complete: bool
    """False if the installation has more organizations or applications than a search reads."""
