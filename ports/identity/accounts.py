"""Where accounts are kept."""

from collections.abc import Collection, Mapping
from datetime import datetime
from typing import Protocol

from core.domain.email import Email
from core.domain.identifiers import IdentityId, OrganizationId, PasskeyId, ServiceId, UserId
from core.domain.identity.accounts import Account
from core.domain.identity.ways_in import WaysIn
from core.domain.languages import Language


class AccountStore(Protocol):
    """Part of the unit of work. Methods that change an account skip deactivated ones."""

    async def add(
        self,
        account: Account,
        password_hash: str | None,
        origin: ServiceId | None = None,
        *,
        origin_organization: OrganizationId | None = None,
        registered_in: bytes | None = None,
    ) -> bool:
        """`origin` is the service through which the account is made, if any, or the organization whose directory makes it; `registered_in`
        the digest of the secret of the browser, if a page does. False when the e-mail address is taken: of two callers, one gets False.
        """

    async def take_over(
        self, account: Account, password_hash: str, origin: ServiceId | None, *, registered_in: bytes | None = None
    ) -> UserId | None:
        """An account that opens by a proof of its address, and has this one, becomes the one that is registered, under its own id, which is
        returned. None when there is no such account. The caller ends what else is there.
        """

    async def open_by_proof(self, user: UserId, at: datetime) -> None:
        """Whoever proves the address has an account that is active, if it opens by that. Called after the account is held."""

    async def forget_holder(self, user: UserId) -> None:
        """Everything goes that they could come in with, what they have allowed, and what tells of them: devices, sessions, sign-ins. Called
        after the account is held to be moved.
        """

    async def find(self, email: Email) -> Account | None: ...

    async def hold(self, user: UserId) -> None:
        """Allows one change to this account at a time, until the transaction ends. Taken first in its unit of work, so that two of them
        cannot wait for each other. Returns once it is held: a time read afterwards is later than everything others did to the account.
        """

    async def hold_to_move(self, user: UserId) -> None:
        """The same before another address: rows that refer to the account cannot be added meanwhile either. Where `hold` came before, the
        change would wait for whoever has added one, and they may wait for the account.
        """

    async def hold_shared(self, user: UserId) -> None:
        """Nobody changes this account until the transaction ends; others may hold it in the same way. Taken first, as `hold` is."""

    async def ways_in(self, user: UserId) -> WaysIn:
        """Called after the account is held."""

    async def other_ways_in(self, user: UserId, email: Email, *, but: PasskeyId | IdentityId, shared: Collection[str]) -> WaysIn:
        """Those that would let the person in without this one. `email` is the account's address. `shared` are the providers for all that
        the installation has a client at. Called after the account is held.
        """

    async def choose_language(self, user: UserId, language: Language | None, at: datetime) -> bool:
        """None: the person leaves the choice to the browser. False when there is no such account."""

    async def verify_email(self, user: UserId, email: Email, at: datetime) -> Account | None:
        """None when the account has another address by now. May be repeated."""

    async def is_nobodys(self, user: UserId) -> bool:
        """Whether nobody has ever proved an address of this active account, and nothing holds it: no organization, no service, and not the
        platform. Called after the account is held to move.
        """

    async def email_is_taken(self, email: Email, user: UserId) -> bool:
        """True when another user has the address."""

    async def await_email(self, user: UserId, email: Email, at: datetime) -> Account | None:
        """Records the address that is to follow. Returns the account, with its current address; None when there is no such account."""

    async def withdraw_email(self, user: UserId, at: datetime) -> None:
        """No other address is to follow any more."""

    async def change_email(self, user: UserId, email: Email, at: datetime) -> Account | None:
        """Makes the pending address the current one. Returns the account as it was before; None when another address or none is pending.
        Raises `BadRequest` when the address has been taken meanwhile; the caller must then leave the unit of work.
        """

    async def find_all(self, users: Collection[UserId]) -> Mapping[UserId, Account]:
        """Those of them that exist."""

    async def deactivate(self, user: UserId, at: datetime) -> bool:
        """False when it is deactivated already. The caller ends its sessions and links."""

    async def activate(self, user: UserId, at: datetime) -> bool:
        """False when it is active."""


class EmailSyntax(Protocol):
    def parse(self, text: str) -> Email:
        """Raises `BadRequest` when the text is not an e-mail address. Looks nothing up."""
