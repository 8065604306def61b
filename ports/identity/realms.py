"""Where sign-ins look up who decides on a mail domain, and how a sign-in may end in a membership."""

from datetime import datetime
from typing import Protocol

from core.domain.email import Email
from core.domain.identifiers import UserId
from core.domain.identity.realms import Realm, RealmProvider


class RealmLookup(Protocol):
    """Outside any unit of work, one statement each."""

    async def find(self, domain: str) -> Realm | None:
        """Of the active organization that has proved the domain. None: no organization decides on it."""

    async def of_user(self, user: UserId, domain: str) -> Realm | None:
        """The same, with whether this person could become a member by it."""


class RealmProviders(Protocol):
    """Outside any unit of work."""

    async def find(self, realm: Realm) -> RealmProvider | None:
        """The provider that the realm names. None when it names none, or there is none of that name."""


class ProviderOutageStore(Protocol):
    """Part of the unit of work. Told by whatever calls a provider, as `Realm.provider` names it."""

    async def failed(self, provider: str, at: datetime) -> None:
        """It could not be reached, or answered that it is down (5xx). What it says about a sign-in is no failure."""

    async def worked(self, provider: str) -> None: ...


class Joining(Protocol):
    async def join_at_sign_in(self, user: UserId, email: Email) -> None:
        """The person becomes a member of the organization that has proved the domain of this address, or asks to, where it wants that. It
        is that of the account, and verified. Nothing happens where something is in the way, and a second time. Outside any unit of work.
        """
