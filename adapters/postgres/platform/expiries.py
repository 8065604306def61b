"""What ends soon, in PostgreSQL."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final, LiteralString
from uuid import UUID

from adapters.postgres.statements import ask
from adapters.postgres.transaction import OnPool
from core.domain.identifiers import OrganizationId
from core.domain.platform.todos import EXPIRIES_AHEAD, EXPIRIES_BEHIND, MOST_EXPIRIES_LISTED, Expiry, ExpiryKind


def _expiry(*, kind: str, organization: UUID | None, **columns: Any) -> Expiry:
    return Expiry(kind=ExpiryKind(kind), organization=None if organization is None else OrganizationId(organization), **columns)


class PostgresExpiries(OnPool):
    """Implements `ports.platform.ExpiryLookup`."""

    async def of(self, organization: OrganizationId, now: datetime) -> Sequence[Expiry]:
        return await self._list(_OF_ORGANIZATION, organization, now)

    async def everywhere(self, now: datetime) -> Sequence[Expiry]:
        return await self._list(_EVERYWHERE, None, now)

    async def _list(self, statement: LiteralString, organization: OrganizationId | None, now: datetime) -> Sequence[Expiry]:
        parameters = {
            "organization": organization,
            "soon": now + EXPIRIES_AHEAD,
            "since": now - EXPIRIES_BEHIND,
            "most": MOST_EXPIRIES_LISTED,
        }
        return await ask(self._pool, _expiry, statement, parameters)


def _statement(which: LiteralString, *, of_platform: bool) -> LiteralString:
    """`which` chooses organizations."""
    own = "found.kind = 'management_key' and found.org_id is null or" if of_platform else ""
    return f"""
    with chosen as (
             select organizations.id, organizations.slug, organizations.name from organizations where {which}
         ),
         found as (
             select 'application_certificate' as kind, services.id, services.name, services.slug as service_slug, services.org_id,
                    saml_certificates.valid_until as ends_at, saml_certificates.last_signed_at as last_used_at,
                    exists (
                        select from saml_certificates as following
                         where following.service_id = services.id and following.state = 'next'
                    ) as has_successor
               from saml_certificates
               join services on services.id = saml_certificates.service_id
              where saml_certificates.state = 'active' and saml_certificates.valid_until < %(soon)s
          union all
             select 'directory_certificate', upstream_providers.id, upstream_providers.name, null, upstream_providers.org_id, last.until,
                    null, false
               from upstream_providers
              cross join lateral (
                        select max((one ->> 'valid_until')::timestamptz) as until
                          from jsonb_array_elements(upstream_providers.saml -> 'certificates') as one
                    ) as last
              where upstream_providers.kind = 'saml' and upstream_providers.enabled and last.until < %(soon)s
          union all
             select 'own_certificate', id, name, null, org_id, certificate_until, null, next_certificate is not null
               from upstream_providers
              where kind = 'saml' and enabled and certificate_until < %(soon)s
          union all
             select 'management_key', id, name, null, org_id, expires_at, last_used_at, false
               from management_keys
              where expires_at between %(since)s and %(soon)s
          union all
             select 'scim_token', id, name, null, org_id, expires_at, last_used_at, false
               from scim_tokens
              where expires_at between %(since)s and %(soon)s
          union all
             select 'api_key', api_keys.id, api_keys.name, services.slug, services.org_id, api_keys.expires_at, api_keys.last_used_at, false
               from api_keys
               join services on services.id = api_keys.service_id
              where api_keys.expires_at between %(since)s and %(soon)s
          union all
             select 'domain', id, domain, null, org_id, null, null, false
               from domain_routes
              where misses > 0 or verified_at is null and checked_at is not null
          union all
             select 'own_domain', id, domain, null, org_id, null, null, false
               from domains
              where misses > 0 or verified_at is null and checked_at is not null
          union all
             select 'api_host', id, name, null, org_id, null, null, false
               from resource_servers
              where misses > 0 or verified_at is null and approved_at is null and checked_at is not null
         )
  select found.kind, found.id, found.name, found.service_slug, found.org_id as organization, chosen.slug as organization_slug,
         chosen.name as organization_name, found.ends_at, found.last_used_at, found.has_successor
    from found
    left join chosen on chosen.id = found.org_id
   where {own} chosen.id is not null
   order by found.ends_at nulls first, found.id
   limit %(most)s
"""


_OF_ORGANIZATION: Final = _statement("organizations.id = %(organization)s", of_platform=False)
_EVERYWHERE: Final = _statement("organizations.status = 'active'", of_platform=True)
