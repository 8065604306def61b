"""Where accounts are kept."""

from typing import Protocol

from core.domain.accounts import Account
from core.domain.email import Email
from core.domain.identifiers import UserId


class AccountStore(Protocol):
    """Part of the unit of work."""

    async def add(self, account: Account, password_hash: str | None) -> bool:
        """False when the e-mail is taken: of two callers, one gets False."""

    async def promote(self, email: Email) -> UserId | None:
        """Make an existing, active account a platform owner. None when there is no such account. May be repeated."""

    async def has_platform_owner(self) -> bool: ...

    async def hold_first_owner(self) -> None:
        """One first start at a time, over all processes, until the transaction ends."""


class EmailSyntax(Protocol):
    def parse(self, text: str) -> Email:
        """Raises `BadRequest` when it is not an e-mail address. Looks nothing up."""
