"""The store of locks of accounts."""

from collections.abc import Sequence
from datetime import datetime
from typing import Protocol

from core.domain.identifiers import OrganizationId, UserId
from core.domain.identity.locking.account_locks import BeforeLock
from core.domain.identity.upstream.vouching import AddedWay


class AccountLockStore(Protocol):
    """All methods need a unit of work, in which the account is held."""

    async def before(self, user: UserId, at: datetime) -> BeforeLock:
        """What the account has at this moment that a lock ends. Nothing when there is no such account."""

    async def lock(self, user: UserId, at: datetime) -> None:
        """Removes the password and any pending change of address, and deactivates the account until somebody chooses a new password by a
        mailed link. Skips deactivated accounts. The caller ends sessions and links.
        """

    async def added_since(self, user: UserId, since: datetime) -> Sequence[AddedWay]:
        """Passkeys, connected identities and an authenticator app that were added since then, the oldest first."""

    async def is_the_makers(self, user: UserId, organization: OrganizationId) -> bool:
        """The organization has made the account, and nobody else holds it: see `core.domain.identity.makers.made_accounts`."""
