"""The store of connected accounts at providers."""

from collections.abc import Sequence
from datetime import datetime
from typing import Protocol

from core.domain.email import Email
from core.domain.identifiers import IdentityId, ServiceId, SessionId, UserId
from core.domain.identity.accounts import Account
from core.domain.identity.upstream.identities import ConnectedIdentity
from core.domain.identity.upstream.vouching import Voucher
from core.frozen import Frozen


class HeldIdentity(Frozen):
    """An identity that nobody else changes meanwhile."""

    identity: ConnectedIdentity
    service: ServiceId | None
    """The service in which the identity was looked for."""


class IdentityStore(Protocol):
    """Outside a unit of work, `list` is one statement and one round trip. The other methods need a unit of work in which the caller has
    already locked the account. An organization's own provider must vouch for the account at that moment: the provider is on, its
    organization is active, the domain of the account's address is proved, and the account is no platform owner's. Only PostgreSQL
    implements `IdentityStore`.
    """

    async def list(self, user: UserId, organization: str = "", service: str = "") -> Sequence[ConnectedIdentity]:
        """The oldest first. With the slugs of a service, only identities that are used in the service."""

    async def add(
        self, identity: ConnectedIdentity, account: Account, *, origin: ServiceId | None, made_in: SessionId | None = None
    ) -> bool:
        """`made_in` is the session in which the person asked for it. False when somebody is connected to the identity already, or the
        account to another identity of the provider: of two callers at once, one gets False. False also when the provider no longer vouches
        for the account.
        """

    async def reclaim(self, user: UserId, email: Email, at: datetime, *, by: Voucher | None) -> bool:
        """The account now belongs to the person whom a provider has told of. It loses its password and its second factor. The address is
        proved, or, if `by` is an organization's own provider, vouched for. The caller removes what else the earlier holder had there. False
        when somebody has proved the address meanwhile, or the account has another address by now.
        """

    async def vouch(self, provider: str, account: Account) -> None:
        """Keeps that an organization's own provider has vouched for the account's address, if nobody has proved or vouched for it yet."""

    async def keep_email(self, identity: IdentityId, email: str) -> None:
        """Keeps the address that the provider tells now. Needs no round trip of its own."""

    async def own_membership(self, provider: str, account: Account, at: datetime) -> None:
        """A person who signs in at an organization's own provider belongs to the organization by that act: a membership that others have
        made becomes the person's own, if the provider vouches for the account. Needs no round trip of its own.
        """

    async def hold(self, user: UserId, provider: str) -> HeldIdentity | None: ...

    async def hold_in_service(self, user: UserId, provider: str, organization: str, service: str) -> HeldIdentity | None:
        """`organization` and `service` are slugs. None also when there is no such service, or its organization is not active."""

    async def is_used_elsewhere(self, identity: IdentityId, service: ServiceId) -> bool:
        """Whether the identity was connected through another service or on the platform, or is used in another service."""

    async def remove(self, identity: IdentityId) -> None: ...

    async def remove_all(self, user: UserId) -> None:
        """Removes all identities, with the tokens that services have at the providers. Needs no round trip of its own."""
