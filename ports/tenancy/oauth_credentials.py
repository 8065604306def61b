"""Where the credentials that organizations have at providers are kept."""

from typing import Protocol

from core.domain.identifiers import OrganizationId
from core.domain.identity.upstream.providers import Provider
from core.domain.tenancy.oauth_credentials import OAuthCredentials


class OAuthCredentialStore(Protocol):
    """Part of the unit of work. The organization is held first."""

    async def save(self, credentials: OAuthCredentials, sealed_secret: bytes) -> None:
        """In place of those before."""

    async def remove(self, organization: OrganizationId, provider: Provider) -> OAuthCredentials | None:
        """Those that were removed."""


class OAuthCredentialLookup(Protocol):
    """Outside any unit of work, one statement."""

    async def get(self, organization: OrganizationId, provider: Provider) -> OAuthCredentials | None: ...
