"""The store of the credentials that organizations have at providers."""

from typing import Protocol

from core.domain.identifiers import OrganizationId
from core.domain.identity.upstream.providers import Provider
from core.domain.tenancy.oauth_credentials import OAuthCredentials


class OAuthCredentialStore(Protocol):
    """Outside a unit of work, `find` is one statement and one round trip. The other methods need a unit of work in which the
    caller has already locked the organization. Only PostgreSQL implements `OAuthCredentialStore`.
    """

    async def find(self, organization: OrganizationId, provider: Provider) -> OAuthCredentials | None: ...

    async def save(self, credentials: OAuthCredentials, sealed_secret: bytes) -> None:
        """Replaces the credentials that the organization had at the provider."""

    async def remove(self, organization: OrganizationId, provider: Provider) -> OAuthCredentials | None:
        """Returns the credentials that were removed."""
