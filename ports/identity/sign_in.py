"""The reads and writes of a sign-in, besides sessions and devices."""

from collections.abc import Sequence
from datetime import datetime
from typing import Protocol

from core.domain.email import Email
from core.domain.identifiers import ServiceId, UserId
from core.domain.identity.guards.guesses import OriginPlaces
from core.domain.identity.risk import Approach
from core.domain.identity.sessions import PLATFORM, Context
from core.domain.identity.sign_in import Attempt, Confirmed, Destination, LastLook, ServiceName, Tries


class Attempts(Protocol):
    """One statement and one round trip, outside any unit of work."""

    async def find(
        self,
        email: Email,
        approach: Approach,
        service: ServiceName | None = None,
        *,
        application: Context = PLATFORM,
        places: OriginPlaces | None = None,
    ) -> Attempt:
        """The account that the address names, and one token of the bucket that this try draws from. The work is the same whether or not an
        account has the address. With `service`, the service that the person wants to enter comes along. `application` is the one that the
        browser's flow leads to: only whether its organization may know of failures comes along. `places` are those whose counts
        of guesses come along.
        """


class Destinations(Protocol):
    """One statement and one round trip, outside any unit of work."""

    async def find(self, service: ServiceName) -> Destination | None: ...


class SignInStore(Protocol):
    """All methods need a unit of work."""

    async def confirm(self, look: LastLook) -> Confirmed | None:
        """Returns the account, if it is active and has the password that `look` names. Locks the account, the service, the connected
        account and the flow until the unit of work ends, so that nobody changes them meanwhile: the account as `accounts.hold` does. The
        lock does not prevent the deletion of the service; after a deletion, the session ends at its first request.
        """

    async def is_known_to(self, user: UserId, application: Context) -> bool:
        """Whether the application's organization may know of the person's failures: see `NamedAccount.may_know_of_failures`."""

    async def renew(self, user: UserId, encoded: str, renewed: str) -> None:
        """Keeps the same password under another hash, unless the account has another hash than `encoded` by now."""

    async def let_hold(self, user: UserId, service: ServiceId, methods: Sequence[str], at: datetime) -> None:
        """From now on the service's organization holds the account, which another organization has made, if the person has come by a way in
        of theirs. `methods` are those of the sign-in. Call it as `enter`, before `enter`.
        """

    async def enter(self, user: UserId, service: ServiceId, at: datetime) -> None:
        """Records that the person has signed in to the service. The first sign-in makes the person a user of the service. Call `enter`
        after `confirm` has found the service, and near the end of the unit of work: a new user changes the count in the service's row and
        so locks this row until the commit.
        """

    async def give_back(self, tries: Tries) -> None:
        """Returns the token of the bucket: a try that succeeded does not count."""
