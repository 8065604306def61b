"""The search for everything that has a name, in an organization and in the whole installation. Users have a search of their own, since
readers know users by their email addresses, and since a search for part of an address takes turns.
"""

from collections.abc import Iterator, Sequence
from enum import StrEnum
from itertools import pairwise
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


MOST_NAMED: Final = 8
MOST_NAME_WORDS: Final = 12
MOST_NAME_ADDRESSES: Final = 4
SHORTEST_NAME: Final = 3
"""In bytes: a letter of many scripts has three."""
_LONGEST_NAME_WORD: Final = 60
_SHORTEST_WITH_S: Final = 4
_TOGETHER, _WHOLE, _OWN, _BEGUN = 6, 3, 2, 1


class NameTerm(Frozen):
    """Part of what somebody typed that may be a name, or the beginning of one."""

    said: str
    is_whole: bool
    """Whether a word ends here. A word that somebody still types may go on."""
    weight: int


def name_terms(words: Sequence[str]) -> Sequence[NameTerm]:
    """What to look for among names, of words as people type them, without accents and capitals. Two words that stand together say more than
    each by itself, and of "toms" Tom is meant, too. The last word may be the beginning of a name.
    """
    return list(dict.fromkeys(_terms([one[:_LONGEST_NAME_WORD] for one in words[:MOST_NAME_WORDS]])))


def _terms(words: Sequence[str]) -> Iterator[NameTerm]:
    for first, second in pairwise(words):
        yield NameTerm(f"{first} {second}"[:_LONGEST_NAME_WORD], is_whole=True, weight=_TOGETHER)
    named = [one for one in words if len(one.encode()) >= SHORTEST_NAME]
    for one in named:
        yield NameTerm(one, is_whole=True, weight=_WHOLE)
        if one.endswith("s") and len(one) >= _SHORTEST_WITH_S:
            yield NameTerm(one[:-1], is_whole=True, weight=_OWN)
    if named and named[-1] == words[-1]:
        yield NameTerm(" ".join(words[-2:]), is_whole=False, weight=_BEGUN)
        yield NameTerm(named[-1], is_whole=False, weight=_BEGUN)


class NamedKind(StrEnum):
    """What a name that somebody typed can lead to."""

    MEMBER = "member"
    END_USER = "end_user"
    APPLICATION = "application"
    API = "api"
    TEAM = "team"
    ROLE = "role"
    DIRECTORY = "directory"
    WEBHOOK = "webhook"


class NamedOne(Frozen, kw_only=True):
    """Somebody or something whose name is among what somebody typed."""

    kind: NamedKind
    id: UUID
    name: str | None
    """None for a person whose name the organization may not see, or who has none."""
    beside: str
    """The address of a person, the short name of a thing, or nothing."""
