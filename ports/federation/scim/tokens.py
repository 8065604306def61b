"""Where SCIM tokens are kept: as digests."""

from collections.abc import Sequence
from typing import Protocol

from core.domain.federation.scim.tokens import ScimHolder, ScimToken
from core.domain.identifiers import OrganizationId, ScimTokenId
from core.domain.tenancy.machine_keys import KnownKey


class ScimTokenLookup(Protocol):
    """Outside any unit of work, one statement and one round trip each."""

    async def find(self, digest: bytes) -> KnownKey[ScimHolder] | None:
        """Asked on every request of a directory. None when there is no such token, or its organization is gone."""

    async def list(self, organization: OrganizationId) -> Sequence[ScimToken]:
        """Newest first, expired ones included."""


class ScimTokenStore(Protocol):
    """Part of the unit of work. The organization is held first."""

    async def add(self, token: ScimToken, digest: bytes) -> int | None:
        """Returns how many tokens the organization had before. None when another token has this prefix; then nothing is added."""

    async def delete(self, organization: OrganizationId, token: ScimTokenId) -> ScimToken | None:
        """Returns what it was. None when the organization has no such token: of two callers, one gets None."""
