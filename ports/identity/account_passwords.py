"""The store of password hashes."""

from datetime import datetime
from typing import Protocol

from core.domain.email import Email
from core.domain.identifiers import UserId
from core.domain.identity.accounts import AccountPassword, BeforeReset, Registration, Unverified
from core.domain.identity.passwords.standing import PasswordStanding


class PasswordStandings(Protocol):
    async def get(self, user: UserId) -> PasswordStanding:
        """The rules of own memberships of active organizations, and the names of the person, of these organizations and of the services
        that the person uses by their own act; twenty of each at most. One statement, outside any unit of work.
        """


class AccountPasswordStore(Protocol):
    """All methods need a unit of work. Methods that change an account skip deactivated ones, unless they say otherwise."""

    async def find(self, user: UserId) -> AccountPassword | None:
        """None when there is no such account, or it is deactivated."""

    async def replace(self, user: UserId, old: str | None, new: str, at: datetime) -> bool:
        """Replaces the old hash, or the absence of one, and ends a pending change of address. False when the hash has changed meanwhile: of
        two callers, one gets True.
        """

    async def reset(self, user: UserId, email: Email, new: str, at: datetime) -> BeforeReset | None:
        """Replaces any password, after a link that was mailed to this address has proved the address. The address becomes verified, and an
        account that a directory has deactivated becomes active and nobody's. A pending change of address ends. An account that a stranger
        may have registered loses its origin in a service. Returns the account as it was before; None when it has another address by now.
        """

    async def registration(self, user: UserId) -> Registration | None:
        """None when the address is proved, or there is no such account. Finds deactivated accounts, too."""

    async def forget_unverified(self, user: UserId, at: datetime) -> Unverified | None:
        """Removes the password, the language and the origin in a service from an account whose address nobody has proved. None when the
        address is proved. May be repeated.
        """

    async def forget(self, user: UserId, at: datetime) -> None:
        """Removes the password and any pending change of address, also from a deactivated account. May be repeated."""
