"""Where the connected accounts at providers are kept."""

from collections.abc import Sequence
from datetime import datetime
from typing import Protocol

from core.domain.email import Email
from core.domain.identifiers import IdentityId, ServiceId, UserId
from core.domain.identity.accounts import Account
from core.domain.identity.upstream.identities import ConnectedIdentity
from core.frozen import Frozen


class HeldIdentity(Frozen):
    """An identity that nobody else changes meanwhile."""

    identity: ConnectedIdentity
    service: ServiceId | None
    """In which it was looked for."""


class IdentityStore(Protocol):
    """Outside a unit of work, `list` is one statement and one round trip. The other methods need a unit of work. The account is held first.
    An organization's own provider must vouch for it at that moment: be on, its organization active, the domain of the account's address
    proved, and the account no platform owner's. Only PostgreSQL implements it.
    """

    async def list(self, user: UserId, organization: str = "", service: str = "") -> Sequence[ConnectedIdentity]:
        """The oldest first. With the slugs of a service, only those that are used there."""

    async def add(self, identity: ConnectedIdentity, account: Account, *, origin: ServiceId | None) -> bool:
        """False when somebody is connected to it, or the account to another one of the provider: of two at once, one gets False; and when
        the provider does not vouch for the account any more.
        """

    async def reclaim(self, user: UserId, email: Email, at: datetime) -> bool:
        """The account now belongs to whoever proved the address: it loses its password and its second factor, and the address is verified.
        What else its earlier holder had there is the caller's affair. False when somebody has verified it meanwhile, or it has another
        address by now.
        """

    async def keep_email(self, identity: IdentityId, email: str) -> None:
        """The address that the provider tells now. Needs no round trip of its own."""

    async def own_membership(self, provider: str, account: Account, at: datetime) -> None:
        """Whoever signs in at an organization's own provider belongs there by that: a membership that others have made becomes their own,
        if the provider vouches for the account. Needs no round trip of its own.
        """

    async def hold(self, user: UserId, provider: str) -> HeldIdentity | None: ...

    async def hold_in_service(self, user: UserId, provider: str, organization: str, service: str) -> HeldIdentity | None:
        """The last two are slugs. None also when there is no such service, or its organization is not active."""

    async def is_used_elsewhere(self, identity: IdentityId, service: ServiceId) -> bool:
        """Whether it came to be through another service or on the platform, or is used in another service."""

    async def remove(self, identity: IdentityId) -> None: ...

    async def remove_all(self, user: UserId) -> None:
        """With the tokens that services have there. Needs no round trip of its own."""
