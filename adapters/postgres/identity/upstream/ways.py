"""What a sign-in through an upstream provider depends on, as a part of any statement that knows where it leads."""

from dataclasses import dataclass
from typing import Any, Final, LiteralString
from uuid import UUID

from core.domain.identifiers import OrganizationId, ServiceId
from core.domain.identity.upstream.providers import Provider
from core.domain.identity.upstream.sign_in import ConfiguredProvider, SealedClient, WayThrough


@dataclass(frozen=True, slots=True, kw_only=True)
class WayRow:
    """What `WAY` reads; to be extended by what a statement reads beside it."""

    organization_id: UUID | None
    service_id: UUID | None
    credentials_id: UUID | None
    credentials_client: str | None
    credentials_secret: bytes | None
    provider_id: UUID | None
    provider_organization: UUID | None
    provider_name: str | None
    issuer: str | None
    provider_client: str | None
    provider_secret: bytes | None
    provider_scopes: list[str] | None
    service_scopes: list[str] | None
    is_lent: bool
    redirect_uris: list[str] | None
    realm_id: UUID | None
    is_away: bool

    def way(self) -> WayThrough:
        return WayThrough(
            organization=None if self.organization_id is None else OrganizationId(self.organization_id),
            own_client=_client("oauth_credentials", self.credentials_id, self.credentials_client, self.credentials_secret),
            configured=self._configured(),
            service=None if self.service_id is None else ServiceId(self.service_id),
            service_scopes=tuple(self.service_scopes or ()),
            is_lent=self.is_lent,
            redirect_uri=next(iter(self.redirect_uris or ()), ""),
            realm=None if self.realm_id is None else OrganizationId(self.realm_id),
            is_away=self.is_away,
        )

    def _configured(self) -> ConfiguredProvider | None:
        client = _client("upstream_providers", self.provider_id, self.provider_client, self.provider_secret)
        if client is None or self.provider_organization is None or self.provider_name is None or self.issuer is None:
            return None
        return ConfiguredProvider(
            organization=OrganizationId(self.provider_organization),
            name=self.provider_name,
            issuer=self.issuer,
            client=client,
            scopes=tuple(self.provider_scopes or ()),
        )


def _client(table: str, row: UUID | None, client_id: str | None, secret: bytes | None) -> SealedClient | None:
    if row is None or client_id is None or secret is None:
        return None
    return SealedClient(client_id=client_id, sealed_secret=secret, context=f"{table}.sealed_client_secret:{row}")


def provider_parameters(provider: str) -> dict[str, Any]:
    """For `WAY`."""
    return {"provider": provider, "provider_id": None if provider in frozenset(Provider) else UUID(provider)}


# Nobody's service acts by the client of another organization, or by the installation's where its organization has one.
_IS_LENT: Final = """
           realms.id <> services.org_id and (
               oauth_credentials.id is not null or exists (
                   select from oauth_credentials as theirs where theirs.org_id = services.org_id and theirs.provider = %(provider)s
               )
           )"""

# Columns of a statement that reads what `from_place` joins.
WAY: Final[LiteralString] = f"""
           homes.id as organization_id, services.id as service_id,
           oauth_credentials.id as credentials_id, oauth_credentials.client_id as credentials_client,
           oauth_credentials.sealed_client_secret as credentials_secret,
           providers.id as provider_id, providers.org_id as provider_organization, providers.name as provider_name, providers.issuer,
           providers.client_id as provider_client, providers.sealed_client_secret as provider_secret,
           providers.scopes as provider_scopes,
           case
               when {_IS_LENT} then null
               when %(provider)s::text = 'codehost' then services.codehost_scopes
               when %(provider)s::text = 'websuite' then services.websuite_scopes
               when %(provider)s::text = 'officesuite' then services.officesuite_scopes
           end as service_scopes,
           coalesce({_IS_LENT}, false) as is_lent, services.redirect_uris, realms.id as realm_id,
           exists (select from provider_outages where provider_outages.provider = %(provider)s) as is_away"""


def from_place(home: LiteralString, service: LiteralString, realm: LiteralString = "false") -> LiteralString:
    """Of what stands before it: `home` is the condition on the organization, `service` that on the service, and `realm` that on the
    organization that leads people of its domain to one of the three: with its client there, wherever they are on the way to. An
    organization's own provider counts on the platform and in flows of that organization, and in all others if it leads its people there; as
    long as it is on and the organization is active.
    """
    return f"""
      left join organizations as homes on {home} and homes.status = 'active'
      left join organizations as realms
             on {realm} and realms.status = 'active'
            and exists (
                    select
                      from domain_routes
                     where domain_routes.org_id = realms.id and domain_routes.verified_at is not null
                       and domain_routes.shared_provider = %(provider)s
                )
      left join services on {service}
      left join oauth_credentials
             on oauth_credentials.org_id = coalesce(realms.id, homes.id) and oauth_credentials.provider = %(provider)s
      left join (
               select upstream_providers.*,
                      exists (
                          select
                            from domain_routes
                           where domain_routes.own_provider = upstream_providers.id and domain_routes.verified_at is not null
                      ) as is_led_to
                 from upstream_providers
                 join organizations on organizations.id = upstream_providers.org_id
                where upstream_providers.id = %(provider_id)s::uuid and upstream_providers.enabled and organizations.status = 'active'
           ) as providers on homes.id is null or providers.org_id = homes.id or providers.is_led_to
"""
