"""Look-ups of the organization that decides on a mail domain, and how a sign-in may end in a membership."""

from collections.abc import Mapping
from datetime import datetime
from typing import Protocol

from core.domain.email import Email
from core.domain.identifiers import OrganizationId, UserId
from core.domain.identity.realms import Realm, RealmProvider
from core.domain.json import Json


class RealmLookup(Protocol):
    """Each method is one statement and one round trip, outside any unit of work."""

    async def find(self, domain: str) -> Realm | None:
        """The realm of the active organization that has proved the domain. None when no organization decides on the domain."""

    async def of_user(self, user: UserId, domain: str) -> Realm | None:
        """As `find`, and whether this person could become a member by the domain."""


class RealmProviders(Protocol):
    """One statement and one round trip, outside any unit of work."""

    async def find(self, realm: Realm) -> RealmProvider | None:
        """The provider that the realm names. None when it names none, or names one that is not there."""


class ProviderOutageStore(Protocol):
    """All methods need a unit of work. Callers of a provider report here, under the name that `Realm.provider` has for it."""

    async def failed(self, provider: str, at: datetime) -> None:
        """The provider could not be reached, or answered that it is down (5xx). An answer about a sign-in is no failure."""

    async def worked(self, provider: str) -> None: ...


class ProvidedFields(Protocol):
    """A use case of tenancy implements it: identity stands below tenancy and does not import it."""

    async def keep(self, user: UserId, organization: OrganizationId, provider: str, given: Mapping[str, Json]) -> None:
        """Writes what the organization's own provider has told of its fields. Wrong values are ignored. Never raises a refusal. Outside any
        unit of work.
        """


class Joining(Protocol):
    """A use case of tenancy implements it: identity stands below tenancy and does not import it."""

    async def join_at_sign_in(self, user: UserId, email: Email) -> None:
        """The person becomes a member of the organization that has proved the domain of this address, or asks to become one if the
        organization wants that. The address is the account's own, and verified. Nothing happens if something is in the way, or the second
        time. Outside any unit of work.
        """
