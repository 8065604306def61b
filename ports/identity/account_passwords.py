"""Where the hashes of passwords are kept."""

from datetime import datetime
from typing import Protocol

from core.domain.email import Email
from core.domain.identifiers import UserId
from core.domain.identity.accounts import Account, AccountPassword, Registration


class AccountPasswordStore(Protocol):
    """Part of the unit of work. Methods that change an account skip deactivated ones, unless they say otherwise."""

    async def find(self, user: UserId) -> AccountPassword | None:
        """None when there is no such account, or it is deactivated."""

    async def replace(self, user: UserId, old: str | None, new: str, at: datetime) -> bool:
        """Replaces the old hash, or the absence of one. False when the hash has changed meanwhile: of two callers, one gets True. A pending
        change of address ends.
        """

    async def reset(self, user: UserId, email: Email, new: str, at: datetime, *, asked: bool = True) -> Account | None:
        """Replaces any password. The holder of a link that was mailed to this address has proved it, so the address is verified now, and
        an account that opens by that is active. If a stranger may have registered the account, it loses its origin in a service; and if
        this is the first proof, its origin in a directory, unless the link was not `asked` for but sent by it. A pending change of address
        ends. Returns the account as it was before; None when it has another address by now.
        """

    async def registration(self, user: UserId) -> Registration | None:
        """None when the address is verified, or there is no such account. Finds deactivated ones, too."""

    async def forget_unverified(self, user: UserId, at: datetime) -> bool:
        """Removes the password, the language and the origin in a service from an account whose address nobody has proved. False when the
        address is verified. May be repeated.
        """

    async def forget(self, user: UserId, at: datetime) -> None:
        """Removes the password and any pending change of address, also of a deactivated account. May be repeated."""
