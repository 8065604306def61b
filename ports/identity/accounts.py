"""The store of accounts."""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Protocol

from core.domain.email import Email
from core.domain.identifiers import IdentityId, OrganizationId, PasskeyId, ServiceId, UserId
from core.domain.identity.accounts import Account
from core.domain.identity.ways_in import WaysIn


class AccountStore(Protocol):
    """All methods need a unit of work. Methods that change an account skip deactivated ones."""

    async def add(
        self,
        account: Account,
        password_hash: str | None,
        origin: ServiceId | None = None,
        *,
        origin_organization: OrganizationId | None = None,
        registered_in: bytes | None = None,
    ) -> bool:
        """`origin` is the service through which somebody makes the account, if any; `origin_organization` the organization whose directory,
        key or own provider makes it. `registered_in` is the digest of the browser's secret, if a page makes it. False when the e-mail
        address is taken: of two callers, one gets False.
        """

    async def open_by_proof(self, user: UserId, at: datetime) -> bool:
        """Activates an account that a directory has deactivated, after a proof of its address. From now on the account is nobody's. False
        when no directory has deactivated it.
        """

    async def forget_holder(self, user: UserId) -> None:
        """Removes everything that the earlier holder could sign in with, what they have allowed, and what tells of them: devices, sessions,
        sign-ins. Called after the account is held to be moved.
        """

    async def find(self, email: Email) -> Account | None: ...

    async def hold(self, user: UserId) -> None:
        """Allows one change to this account at a time, until the transaction ends. Comes first in its unit of work, so that two units of
        work cannot wait for each other. Returns once the account is held: a time read afterwards is later than everything that others did
        to the account.
        """

    async def hold_to_move(self, user: UserId) -> None:
        """As `hold`, for a change of address: rows that refer to the account cannot be added meanwhile either. After a plain `hold`, the
        change of address would wait for others who have added such rows, and they may wait for the account.
        """

    async def hold_shared(self, user: UserId) -> None:
        """Nobody changes this account until the transaction ends; others may hold it in the same way. Comes first, as `hold` does."""

    async def ways_in(self, user: UserId) -> WaysIn:
        """Called after the account is held."""

    async def other_ways_in(self, user: UserId, email: Email, *, but: PasskeyId | IdentityId, shared: Collection[str]) -> WaysIn:
        """The ways in that would remain without this passkey or identity. `email` is the account's address. `shared` names the providers at
        which the installation has a client for everybody. Called after the account is held.
        """

    async def verify_email(self, user: UserId, email: Email, at: datetime) -> Account | None:
        """None when the account has another address by now. May be repeated."""

    async def is_nobodys(self, user: UserId) -> bool:
        """True for an active account of which nobody has ever proved an address, and which no organization, no service and not the platform
        holds. Called after the account is held to move.
        """

    async def hold_unproved(self, now: datetime, retention: timedelta, after: datetime | None, limit: int) -> Sequence[Account]:
        """Holds, to delete them, active accounts that are older than `retention`, both at `now` and by the database's clock, that were
        made after `after`, and of which nobody has proved the address. The oldest come first. Leaves out accounts that somebody else holds,
        and those that a directory or the platform has made.
        """

    async def never_used(self, users: Collection[UserId], now: datetime) -> Sequence[UserId]:
        """Those among the accounts that are nobody's, as `is_nobodys` says, to which nobody was ever let in, which no import brought, and
        to which no mailed link leads any more, neither at `now` nor by the database's clock. Called after the accounts are held.
        """

    async def email_is_taken(self, email: Email, user: UserId) -> bool:
        """True when another user has the address."""

    async def await_email(self, user: UserId, email: Email, at: datetime) -> Account | None:
        """Records the address that the person wants next. Returns the account with its current address; None when the account is gone."""

    async def withdraw_email(self, user: UserId, at: datetime) -> None:
        """Forgets the address that the person wanted next."""

    async def change_email(self, user: UserId, email: Email, at: datetime) -> Account | None:
        """Makes the pending address the current one. Returns the account as it was before; None when another address or none is pending.
        Raises `BadRequest` when somebody else has taken the address meanwhile; the caller must then leave the unit of work.
        """

    async def find_all(self, users: Collection[UserId]) -> Mapping[UserId, Account]:
        """The accounts that exist among these ids."""

    async def deactivate(self, user: UserId, at: datetime) -> bool:
        """False when the account is deactivated already. The caller ends the account's sessions and links."""

    async def activate(self, user: UserId, at: datetime) -> bool:
        """False when the account is active already."""


class EmailSyntax(Protocol):
    """A library implements it."""

    def parse(self, text: str) -> Email:
        """Raises `BadRequest` when the text is not an e-mail address. Looks nothing up."""
