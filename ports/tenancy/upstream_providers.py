"""The store of organizations' own upstream providers."""

from collections.abc import Sequence
from datetime import datetime
from typing import Protocol

from core.domain.identifiers import OrganizationId, UpstreamProviderId
from core.domain.identity.upstream.vouching import Voucher
from core.domain.tenancy.upstream_providers import UpstreamProvider


class UpstreamProviderStore(Protocol):
    """Outside a unit of work, `list` is one statement and one round trip. The other methods need a unit of work in which the
    caller has already locked the organization. Only PostgreSQL implements `UpstreamProviderStore`.
    """

    async def list(self, organization: OrganizationId) -> Sequence[UpstreamProvider]:
        """All providers of the organization, oldest first."""

    async def count(self, organization: OrganizationId) -> int: ...

    async def add(self, provider: UpstreamProvider, sealed_secret: bytes | None, sealed_key: bytes | None = None) -> bool:
        """`sealed_secret` is the client's, or a bind password, and `sealed_key` our private key at a SAML provider. False when the
        organization has a provider of this name.
        """

    async def hold(self, organization: OrganizationId, provider: UpstreamProviderId) -> UpstreamProvider | None:
        """The provider stays as it is until the unit of work ends. None when the organization has no such provider."""

    async def save(self, provider: UpstreamProvider, sealed_secret: bytes | None) -> bool:
        """After `hold`. Without a secret, the old secret stays; a bind password goes if the provider has none any more. The sessions that
        the provider's assertions have opened end, unless it goes on to issue assertions. False when another provider of the organization
        has this name.
        """

    async def is_issuing(self, provider: UpstreamProvider) -> bool:
        """Whether another provider of the organization issues assertions with this one's issuer."""

    async def save_assertions(self, provider: UpstreamProvider) -> None:
        """After `hold`. Keeps the owner's decision about the provider's assertions. The sessions that these have opened end, unless the
        provider goes on to issue them.
        """

    async def succeeded_by(self, organization: OrganizationId, former: UpstreamProviderId) -> Sequence[Voucher] | None:
        """The providers that a former one succeeds. It may be deleted. None when the organization has no such provider, and nobody was
        vouched for by it.
        """

    async def succeed(self, provider: UpstreamProvider) -> None:
        """After `hold`. Keeps whose successor the provider is."""

    async def follow(self, provider: UpstreamProviderId, certificate: str, sealed_key: bytes, now: datetime) -> None:
        """After `hold`. Keeps our next key pair at a directory, in place of the one that was the next before."""

    async def advance(self, provider: UpstreamProviderId, certificate: str, sealed_key: bytes, sealed_former: bytes, now: datetime) -> None:
        """After `hold`. This key pair is the present one from now on, and there is no next one. `sealed_former` is the private key that was
        present, sealed for its new place.
        """

    async def drop_former(self, provider: UpstreamProviderId, now: datetime) -> None:
        """After `hold`. Deletes our former key pair."""

    async def is_named(self, provider: UpstreamProviderId) -> bool:
        """Whether a domain route names the provider. After `hold`, so that no route comes to name it meanwhile."""

    async def delete(self, provider: UpstreamProviderId) -> None:
        """Deletes the provider with the identities that people have there, and ends the sessions that its assertions have opened."""
