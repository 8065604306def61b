"""The store of SCIM tokens, as digests."""

from collections.abc import Sequence
from typing import Protocol

from core.domain.federation.scim.tokens import ScimHolder, ScimToken
from core.domain.identifiers import OrganizationId, ScimTokenId
from core.domain.tenancy.keys.machine_keys import KnownKey


class ScimTokenLookup(Protocol):
    """Each method is one statement and one round trip, outside any unit of work. Look-ups of tokens by many requests share one statement,
    so they stay apart from `ScimTokenStore`.
    """

    async def find(self, digest: bytes) -> KnownKey[ScimHolder] | None:
        """Every request of a directory asks here. None when there is no such token, or its organization is gone."""

    async def list(self, organization: OrganizationId) -> Sequence[ScimToken]:
        """Newest first, expired tokens included."""


class ScimTokenStore(Protocol):
    """All methods need a unit of work in which the caller has locked the organization. Only PostgreSQL implements `ScimTokenStore`."""

    async def add(self, token: ScimToken, digest: bytes) -> int | None:
        """Returns how many tokens the organization had before. None when another token has this prefix; then nothing is added."""

    async def delete(self, organization: OrganizationId, token: ScimTokenId) -> ScimToken | None:
        """Returns the deleted token. None when the organization has no such token: of two callers, one gets None."""
