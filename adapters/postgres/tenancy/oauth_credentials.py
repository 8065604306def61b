"""Organizations' own client ids and secrets at upstream providers, in PostgreSQL."""

from datetime import datetime
from typing import Final, LiteralString
from uuid import UUID

from adapters.postgres.statements import first_made
from adapters.postgres.storable import storable_text
from adapters.postgres.transaction import OnStatements
from core.domain.identifiers import OAuthCredentialId, OrganizationId
from core.domain.identity.upstream.providers import Provider
from core.domain.tenancy.upstream_providers import OAuthCredentials
from core.frozen import Frozen


class _Credentials(Frozen):
    id: UUID
    org_id: UUID
    provider: str
    client_id: str
    created_at: datetime
    updated_at: datetime

    def credentials(self) -> OAuthCredentials:
        return OAuthCredentials(
            id=OAuthCredentialId(self.id),
            organization=OrganizationId(self.org_id),
            provider=Provider(self.provider),
            client_id=self.client_id,
            created_at=self.created_at,
            updated_at=self.updated_at,
        )


class OAuthCredentialRows(OnStatements):
    """Implements `ports.tenancy.connections.OAuthCredentialStore`."""

    async def find(self, organization: OrganizationId, provider: Provider) -> OAuthCredentials | None:
        return first_made(
            await self._statements.ask(_Credentials, _GET, {"organization": organization, "provider": provider.value}),
            _Credentials.credentials,
        )

    async def save(self, credentials: OAuthCredentials, sealed_secret: bytes) -> None:
        await self._statements.tell(
            _SAVE,
            {
                "id": credentials.id,
                "organization": credentials.organization,
                "provider": credentials.provider.value,
                "client_id": storable_text(credentials.client_id),
                "sealed_secret": sealed_secret,
                "at": credentials.updated_at,
            },
        )

    async def remove(self, organization: OrganizationId, provider: Provider) -> OAuthCredentials | None:
        return first_made(
            await self._statements.ask(_Credentials, _REMOVE, {"organization": organization, "provider": provider.value}),
            _Credentials.credentials,
        )


_COLUMNS: Final = "id, org_id, provider, client_id, created_at, updated_at"

_SAVE: Final = """
    insert into oauth_credentials (id, org_id, provider, client_id, sealed_client_secret, created_at, updated_at)
    values (%(id)s, %(organization)s, %(provider)s, %(client_id)s, %(sealed_secret)s, %(at)s, %(at)s)
        on conflict (org_id, provider) do update
       set id = excluded.id, client_id = excluded.client_id, sealed_client_secret = excluded.sealed_client_secret,
           updated_at = excluded.updated_at
"""

_OF_PROVIDER: Final = "org_id = %(organization)s and provider = %(provider)s"

_REMOVE: Final[LiteralString] = f"delete from oauth_credentials where {_OF_PROVIDER} returning {_COLUMNS}"

_GET: Final[LiteralString] = f"select {_COLUMNS} from oauth_credentials where {_OF_PROVIDER}"
