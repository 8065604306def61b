"""Where it is kept what services may do at providers."""

from datetime import datetime
from typing import Protocol

from core.domain.identifiers import IdentityGrantId, IdentityId, ServiceId, UserId
from core.domain.identity.upstream.provider_tokens import IdentityGrant
from core.domain.identity.upstream.sign_in import WayThrough
from core.frozen import Frozen


class GrantFound(Frozen, kw_only=True):
    """What an application has at a provider. `grant` is None where the person is not connected there through it."""

    way: WayThrough
    grant: IdentityGrant | None


class IdentityGrantStore(Protocol):
    """Outside a unit of work, `find` and `is_renewable` are one statement and one round trip each. The other methods need a unit of work.
    Only PostgreSQL implements it.
    """

    async def find(self, user: UserId, provider: str, organization: str, service: str) -> GrantFound:
        """The last two are slugs."""

    async def is_renewable(self, grant: IdentityGrantId, client: str) -> bool:
        """Whether this client was given something that renews its tokens."""

    async def keep(self, grant: IdentityGrant, at: datetime, *, replaces: bool = True) -> None:
        """In place of what was there, or only if there was nothing. Without a refresh token, the one that the same client was given before
        goes on counting. Needs no round trip of its own.
        """

    async def remove(self, identity: IdentityId, service: ServiceId) -> None: ...

    async def lease(self, grant: IdentityGrant, now: datetime, until: datetime) -> bool:
        """Of many, one may refresh it. False when somebody else does, or has."""

    async def renew(self, grant: IdentityGrant, leased_until: datetime, at: datetime) -> bool:
        """The new tokens, if the lease is still the one that was taken. Without a refresh token, the one that is there stays."""

    async def give_up(self, grant: IdentityGrantId, leased_until: datetime, *, ended: bool) -> None:
        """Ends the lease. `ended`: its refresh token counts no more."""
