"""What a sign-in asks for and leaves behind, besides sessions and devices."""

from datetime import datetime
from typing import Protocol

from core.domain.accounts import Account
from core.domain.devices import Approach
from core.domain.email import Email
from core.domain.identifiers import UserId
from core.domain.sign_in import Alone, Application, Tries


class Applications(Protocol):
    """Outside any unit of work: one statement, one round trip."""

    async def find(self, email: Email, approach: Approach) -> Application:
        """Whom the address names, and one token of the bucket that this try draws from. The same work whether anybody has the address."""


class SignInStore(Protocol):
    """Part of the unit of work."""

    async def confirm(self, user: UserId, encoded: str, alone: Alone | None = None) -> bool:
        """Whether the account is still active and its password the one that was checked; it stays so until the unit of work ends. With
        `alone`: and whether the password alone is still enough.
        """

    async def renew(self, user: UserId, encoded: str, renewed: str, alone: Alone | None = None) -> bool:
        """The same, and the same password is kept under another hash."""

    async def confirm_since(self, user: UserId, since: datetime) -> Account | None:
        """The account if it is active and its password has not changed since then; it stays so until the unit of work ends."""

    async def give_back(self, tries: Tries) -> None:
        """The try was a good one, and does not count."""
