"""What a sign-in looks up and writes, besides sessions and devices."""

from datetime import datetime
from typing import Protocol

from core.domain.email import Email
from core.domain.identifiers import ServiceId, UserId
from core.domain.identity.risk import Approach
from core.domain.identity.sign_in import Attempt, Confirmed, Destination, LastLook, ServiceName, Tries


class Attempts(Protocol):
    """Outside any unit of work: one statement, one round trip."""

    async def find(self, email: Email, approach: Approach, service: ServiceName | None = None) -> Attempt:
        """The account that the address names, and one token of the bucket that this try draws from. The work is the same whether or not an
        account has the address. With `service` it also brings the service that they want to enter.
        """


class Destinations(Protocol):
    """Outside any unit of work: one statement, one round trip."""

    async def find(self, service: ServiceName) -> Destination | None: ...


class SignInStore(Protocol):
    """Part of the unit of work."""

    async def confirm(self, look: LastLook) -> Confirmed | None:
        """The account, if it is active and its password is the one that the look names; account, service, connected account and flow stay
        as they are until the unit of work ends. A service may be deleted all the same: then the session is over on its first request.
        """

    async def renew(self, user: UserId, encoded: str, renewed: str) -> bool:
        """Keeps the same password under another hash. False when the account has another hash by now."""

    async def enter(self, user: UserId, service: ServiceId, at: datetime) -> None:
        """They have signed in to the service; a person who had not before is a user of it from now on. Called after
        `confirm` has found the service, and near the end of the unit of work: a newcomer is counted in the service's row.
        """

    async def give_back(self, tries: Tries) -> None:
        """The try succeeded, and does not count."""
