"""Where accounts are kept."""

from collections.abc import Collection, Mapping
from datetime import datetime
from typing import Protocol

from core.domain.accounts import Account, AccountPassword
from core.domain.email import Email
from core.domain.identifiers import ServiceId, UserId


class AccountStore(Protocol):
    """Part of the unit of work. What changes an account passes over deactivated ones."""

    async def add(self, account: Account, password_hash: str | None, origin: ServiceId | None = None) -> bool:
        """`origin` is the service through which it comes to be, if any. False when the e-mail is taken: of two callers, one gets False."""

    async def find(self, email: Email) -> Account | None: ...

    async def hold(self, user: UserId) -> None:
        """One change to this account at a time, until the transaction ends. First in its unit of work, so that two of them cannot wait for
        each other. Returns when it is held: a time that is taken afterwards is later than all that others did to the account.
        """

    async def password(self, user: UserId) -> AccountPassword | None:
        """None when there is no such account, or it is deactivated."""

    async def replace_password(self, user: UserId, old: str | None, new: str, at: datetime) -> bool:
        """Put the new hash in the place of the old one, or of none. False when the hash is another by now: of two callers, one gets True.
        A pending change of address ends.
        """

    async def reset_password(self, user: UserId, email: Email, new: str, at: datetime) -> bool:
        """Whatever the password was. Whoever holds a link that was mailed to this address has proved it: it is verified now, and if
        somebody else may have registered it, no service is its origin any more. False when the account has another address by now. A
        pending change of address ends.
        """

    async def forget_unverified_password(self, user: UserId, at: datetime) -> bool:
        """Take the password, and the service that it came through, from an account whose address nobody has proved. False when it is
        verified. May be repeated.
        """

    async def verify_email(self, user: UserId, email: Email, at: datetime) -> bool:
        """False when the account has another address by now. May be repeated."""

    async def email_is_taken(self, email: Email, user: UserId) -> bool:
        """By somebody else than this user."""

    async def await_email(self, user: UserId, email: Email | None, at: datetime) -> Email | None:
        """Note the address that is to follow, or that none is. Returns the address in force; None when there is no such account."""

    async def change_email(self, user: UserId, email: Email, at: datetime) -> Email | None:
        """Put the address that was awaited in force. Returns the one before; None when another or none is awaited. Raises `BadRequest` when
        somebody was quicker to take it; the unit of work can then only be left.
        """

    async def promote(self, email: Email) -> UserId | None:
        """Make an existing, active account, whose address is verified, a platform owner. None when there is none such. May be repeated."""

    async def has_platform_owner(self) -> bool: ...

    async def find_all(self, users: Collection[UserId]) -> Mapping[UserId, Account]:
        """Those of them that there are."""

    async def put_in_office(self, user: UserId, at: datetime) -> bool:
        """Make an active account, whose address is verified, a platform owner. False when it is not such, or is one already."""

    async def put_out_of_office(self, user: UserId, at: datetime) -> bool:
        """False when it is no platform owner. After `hold_platform_owners`."""

    async def deactivate(self, user: UserId, at: datetime) -> bool:
        """False when it is deactivated already. Whoever calls sees to its sessions and links."""

    async def activate(self, user: UserId, at: datetime) -> bool:
        """False when it is active."""

    async def forget_password(self, user: UserId, at: datetime) -> bool:
        """The account has no password any more, and no pending change of address. False when it is deactivated. May be repeated."""

    async def has_other_platform_owner(self, user: UserId) -> bool:
        """An active one besides this."""

    async def hold_platform_owners(self) -> None:
        """Nobody else is put in or out of office by way of this until the transaction ends. Before any account is held."""

    async def hold_first_owner(self) -> None:
        """One first start at a time, over all processes, until the transaction ends."""


class EmailSyntax(Protocol):
    def parse(self, text: str) -> Email:
        """Raises `BadRequest` when it is not an e-mail address. Looks nothing up."""
