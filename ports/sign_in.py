"""What a sign-in asks for and leaves behind, besides sessions and devices."""

from datetime import datetime
from typing import Protocol

from core.domain.devices import Approach
from core.domain.email import Email
from core.domain.identifiers import ServiceId, UserId
from core.domain.sign_in import Alone, Application, Confirmed, Destination, ServiceName, Tries


class Applications(Protocol):
    """Outside any unit of work: one statement, one round trip."""

    async def find(self, email: Email, approach: Approach, service: ServiceName | None = None) -> Application:
        """Whom the address names, and one token of the bucket that this try draws from. The same work whether anybody has the address. With
        `service`: and where they want to get in.
        """


class Destinations(Protocol):
    """Outside any unit of work: one statement, one round trip."""

    async def find(self, service: ServiceName) -> Destination | None: ...


class SignInStore(Protocol):
    """Part of the unit of work."""

    async def confirm(self, user: UserId, encoded: str, alone: Alone | None = None, service: ServiceId | None = None) -> Confirmed | None:
        """The account if it is still active and its password the one that was checked; it stays so until the unit of work ends. With
        `alone`: and if the password alone is still enough. The rows of the service, if it is found, stay as long.
        """

    async def renew(
        self, user: UserId, encoded: str, renewed: str, alone: Alone | None = None, service: ServiceId | None = None
    ) -> Confirmed | None:
        """The same, and the same password is kept under another hash."""

    async def confirm_since(self, user: UserId, since: datetime, service: ServiceId | None = None) -> Confirmed | None:
        """The account if it is active and its password has not changed since then; it stays so until the unit of work ends."""

    async def enter(self, user: UserId, service: ServiceId, at: datetime) -> None:
        """They have signed in to the service; whoever had not before is a user of it from now on. After one of the above found it. Near the
        end of the unit of work: a newcomer is counted in the service's row.
        """

    async def give_back(self, tries: Tries) -> None:
        """The try was a good one, and does not count."""
