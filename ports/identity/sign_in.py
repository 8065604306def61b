"""What a sign-in looks up and writes, besides sessions and devices."""

from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import Protocol

from core.domain.email import Email
from core.domain.identifiers import ServiceId, UserId
from core.domain.identity.risk import Approach
from core.domain.identity.sign_in import Alone, Attempt, Confirmed, Destination, ServiceName, Tries


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

    async def confirm(self, user: UserId, encoded: str, alone: Alone | None = None, service: ServiceId | None = None) -> Confirmed | None:
        """The account if it is still active and its password is the one that was checked; it stays so until the unit of work ends. With
        `alone`, also whether the password alone is still enough. The rows of the service, if it is found, stay as long.
        """

    async def demand(self, user: UserId, encoded: str, alone: Alone) -> Callable[[], Awaitable[Confirmed]]:
        """`confirm` without a round trip of its own, for what leads to no service: the commit raises `NotConfirmed`, and nothing has
        happened, where `confirm` would return None. What is returned says after the commit what was confirmed. Nothing may be asked in the
        unit of work meanwhile.
        """

    async def demand_since(self, user: UserId, since: datetime, alone: Alone) -> Callable[[], Awaitable[Confirmed]]:
        """The same for `confirm_since`. It also says whether they belong to several organizations."""

    async def renew(
        self, user: UserId, encoded: str, renewed: str, alone: Alone | None = None, service: ServiceId | None = None
    ) -> Confirmed | None:
        """Keeps the same password under another hash."""

    async def confirm_since(
        self, user: UserId, since: datetime, service: ServiceId | None = None, alone: Alone | None = None
    ) -> Confirmed | None:
        """The account if it is active and its password has not changed since then; it stays so until the unit of work ends. With `alone`,
        also whether one proof is enough.
        """

    async def enter(self, user: UserId, service: ServiceId, at: datetime) -> None:
        """They have signed in to the service; a person who had not before is a user of it from now on. Called after one of the methods
        above has found the service, and near the end of the unit of work: a newcomer is counted in the service's row.
        """

    async def give_back(self, tries: Tries) -> None:
        """The try succeeded, and does not count."""
