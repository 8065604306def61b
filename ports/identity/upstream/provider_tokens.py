"""The store of the tokens that services have at providers."""

from datetime import datetime
from typing import Protocol

from core.domain.identifiers import IdentityGrantId, IdentityId, ServiceId, UserId
from core.domain.identity.upstream.provider_tokens import IdentityGrant
from core.domain.identity.upstream.sign_in import WayThrough
from core.frozen import Frozen


class GrantFound(Frozen, kw_only=True):
    """The tokens of an application at a provider. `grant` is None when the person is not connected there through the application."""

    way: WayThrough
    grant: IdentityGrant | None


class IdentityGrantStore(Protocol):
    """Outside a unit of work, `find` and `is_renewable` are one statement and one round trip each. The other methods need a unit of
    work.
    """

    async def find(self, user: UserId, provider: str, organization: str, service: str) -> GrantFound:
        """`organization` and `service` are slugs."""

    async def is_renewable(self, grant: IdentityGrantId, client: str) -> bool:
        """Whether the provider has given this client a refresh token."""

    async def keep(self, grant: IdentityGrant, at: datetime, *, replaces: bool = True) -> None:
        """Replaces the grant that was there; without `replaces`, keeps that one. A grant without a refresh token keeps the refresh token
        that the same client was given before. Needs no round trip of its own.
        """

    async def remove(self, identity: IdentityId, service: ServiceId) -> None: ...

    async def lease(self, grant: IdentityGrant, now: datetime, until: datetime) -> bool:
        """Of many callers, one may refresh the grant. False when somebody else is refreshing it, or has."""

    async def renew(self, grant: IdentityGrant, leased_until: datetime, at: datetime) -> bool:
        """Stores the new tokens, if the caller still has the lease. Without a new refresh token, the old one stays."""

    async def give_up(self, grant: IdentityGrantId, leased_until: datetime, *, ended: bool) -> None:
        """Ends the lease. With `ended`, the refresh token no longer counts."""
