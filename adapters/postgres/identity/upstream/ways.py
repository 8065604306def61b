"""SQL parts for a sign-in through an identity provider: the provider, the client, the sign-in domain, and the target."""

from collections.abc import Callable, Mapping
from datetime import datetime
from functools import lru_cache
from typing import Any, Final, LiteralString
from uuid import UUID

import msgspec

from core.domain.identifiers import OrganizationId, ServiceId, UpstreamProviderId
from core.domain.identity.upstream.connections import SamlSettings, private_key_context
from core.domain.identity.upstream.ldap.settings import LdapSettings, bind_password_context
from core.domain.identity.upstream.providers import (
    NOTHING_MAPPED,
    OwnProviders,
    ProviderOffer,
    ProviderOrigin,
    own_provider_of,
    restored_settings,
)
from core.domain.identity.upstream.sign_in import ConfiguredFurther, ConfiguredProvider, SealedClient, WayThrough
from core.frozen import Frozen, replace


class OwnRow(Frozen, kw_only=True):
    """The columns of `own`."""

    own_clients: list[str] | None
    own_providers: list[list[str]] | None

    def own(self) -> OwnProviders:
        return OwnProviders(tuple(self.own_clients or ()), tuple(ProviderOffer(key, name) for key, name in self.own_providers or ()))


def own(organizations: LiteralString) -> LiteralString:
    """Columns for a statement that reads organizations. `organizations` is the alias of that table in the statement."""
    return f"""
           (
               select array_agg(oauth_credentials.provider) from oauth_credentials where oauth_credentials.org_id = {organizations}.id
           ) as own_clients,
           (
               select jsonb_agg(
                          jsonb_build_array(upstream_providers.id, upstream_providers.name)
                          order by upstream_providers.created_at, upstream_providers.id
                      )
                 from upstream_providers
                where upstream_providers.org_id = {organizations}.id and upstream_providers.enabled
           ) as own_providers"""


# The number of providers with a sign-in in a busy minute. The cache keeps as many texts.
_READ: Final = 256


@lru_cache(maxsize=_READ)
def saml_settings(text: str | None) -> SamlSettings | None:
    """Reads `saml::text`, which is null for any other kind. The text is the same for each sign-in, so it is parsed once."""
    return None if text is None else msgspec.json.decode(text, type=SamlSettings)


@lru_cache(maxsize=_READ)
def ldap_settings(text: str | None) -> LdapSettings | None:
    """Reads `ldap::text`, which is null for any other kind."""
    return None if text is None else msgspec.json.decode(text, type=LdapSettings)


def kept_settings(settings: SamlSettings | LdapSettings) -> Mapping[str, Any]:
    kept: Mapping[str, Any] = msgspec.to_builtins(settings)
    return kept


def directory_context(methods: LiteralString, session: LiteralString, organization: LiteralString) -> LiteralString:
    """Null unless a directory of this organization has opened the session. Only a sign-in at a provider costs the look."""
    return f"""case when 'fed' = any ({methods}) then (
               select directory_sessions.context_class
                 from directory_sessions
                 join upstream_providers on upstream_providers.id = directory_sessions.upstream_provider_id
                where directory_sessions.session_id = {session} and upstream_providers.org_id = {organization}
           ) end"""


class WayRow(Frozen, kw_only=True):
    """The columns of `Parts.way`. A statement that reads further columns extends this class."""

    organization_id: UUID | None
    service_id: UUID | None
    redirect_uris: list[str] | None
    is_away: bool
    falls_back: bool
    # Only for one of the three providers that all organizations may use.
    credentials_id: UUID | None = None
    credentials_client: str | None = None
    credentials_secret: bytes | None = None
    service_scopes: list[str] | None = None
    is_lent: bool = False
    realm_id: UUID | None = None
    # Only for an organization's own provider.
    provider_id: UUID | None = None
    provider_organization: UUID | None = None
    provider_name: str | None = None
    issuer: str | None = None
    provider_client: str | None = None
    provider_secret: bytes | None = None
    provider_scopes: list[str] | None = None
    provider_mapping: Mapping[str, str] | None = None
    provider_factors: list[str] | None = None
    provider_saml: str | None = None
    provider_ldap: str | None = None
    provider_certificate: str | None = None
    # Only for a further provider of the installation.
    further_id: UUID | None = None
    further_name: str | None = None
    further_settings: Mapping[str, Any] | None = None
    further_client: str | None = None
    further_secret: bytes | None = None
    further_is_on: bool | None = None
    further_is_draft: bool | None = None
    further_secret_set_at: datetime | None = None

    def way(self) -> WayThrough:
        return WayThrough(
            organization=None if self.organization_id is None else OrganizationId(self.organization_id),
            own_client=_client("oauth_credentials", self.credentials_id, self.credentials_client, self.credentials_secret),
            configured=self._configured(),
            further=self._further(),
            service=None if self.service_id is None else ServiceId(self.service_id),
            service_scopes=tuple(self.service_scopes or ()),
            is_lent=self.is_lent,
            redirect_uri=next(iter(self.redirect_uris or ()), ""),
            realm=None if self.realm_id is None else OrganizationId(self.realm_id),
            is_away=self.is_away,
            falls_back=self.falls_back,
        )

    def _further(self) -> ConfiguredFurther | None:
        client = _client("further_providers", self.further_id, self.further_client, self.further_secret)
        if client is None or self.further_name is None or self.further_settings is None or self.further_secret_set_at is None:
            return None
        return ConfiguredFurther(
            name=self.further_name,
            settings=restored_settings(self.further_settings),
            client=client,
            secret_set_at=self.further_secret_set_at,
            is_on=self.further_is_on is True,
            is_draft=self.further_is_draft is True,
        )

    def _configured(self) -> ConfiguredProvider | None:
        client, saml = (
            _client("upstream_providers", self.provider_id, self.provider_client, self.provider_secret),
            saml_settings(self.provider_saml),
        )
        if client is not None and saml is not None and self.provider_id is not None:
            client = replace(client, context=private_key_context(UpstreamProviderId(self.provider_id)))
        ldap = ldap_settings(self.provider_ldap)
        if client is not None and ldap is not None and self.provider_id is not None:
            client = replace(client, context=bind_password_context(UpstreamProviderId(self.provider_id)))
        if client is None or self.provider_organization is None or self.provider_name is None or self.issuer is None:
            return None
        return ConfiguredProvider(
            organization=OrganizationId(self.provider_organization),
            name=self.provider_name,
            issuer=self.issuer,
            client=client,
            scopes=tuple(self.provider_scopes or ()),
            profile_mapping=self.provider_mapping or NOTHING_MAPPED,
            second_factor_values=tuple(self.provider_factors or ()),
            saml=saml,
            ldap=ldap,
            certificate=self.provider_certificate or "",
        )


def _client(table: str, row: UUID | None, client_id: str | None, secret: bytes | None) -> SealedClient | None:
    if row is None or client_id is None or secret is None:
        return None
    return SealedClient(client_id=client_id, sealed_secret=secret, context=f"{table}.sealed_client_secret:{row}")


class Parts(Frozen):
    """The parts of a statement about one kind of provider."""

    way: LiteralString
    """Columns of a statement that reads `places`."""
    client: LiteralString
    """An expression on such a row, which must be called `way`: the id of the client at the provider, or null without a client."""
    realm: LiteralString
    """An expression on such a row: the organization that leads people of its domain to the provider."""
    places: Callable[[LiteralString, LiteralString, LiteralString], LiteralString]
    """Makes the joins that follow the first table of a `from`. The arguments are three conditions: on the organization, on the service, and
    on the organization that leads people of its domain to one of the three providers.
    """


def provider_parameters(provider: str) -> dict[str, Any]:
    """The parameters of the provider, for statements made of `Parts`."""
    return {"provider": provider, "provider_id": own_provider_of(provider)}


_PLACE: Final = """
           homes.id as organization_id, services.id as service_id, services.redirect_uris,
           exists (select from provider_outages where provider_outages.provider = %(provider)s) as is_away"""

# Whether the service must not act through the client. A service never uses another organization's client, and uses the installation's
# client only if the service's own organization has none.
_IS_LENT: Final = """
           realms.id <> services.org_id and (
               oauth_credentials.id is not null or exists (
                   select from oauth_credentials as theirs where theirs.org_id = services.org_id and theirs.provider = %(provider)s
               )
           )"""

# The proved domains whose people may sign in with a password while the provider is unavailable.
_FALLS_BACK: Final = """
               select
                 from domain_routes
                where domain_routes.verified_at is not null
                  and domain_routes.login_policy = 'password_fallback_if_provider_unavailable'"""

_TO_ONE_OF_THREE: Final[LiteralString] = f"""{_PLACE},
           exists ({_FALLS_BACK}
                  and domain_routes.org_id = realms.id and domain_routes.shared_provider = %(provider)s
           ) as falls_back,
           oauth_credentials.id as credentials_id, oauth_credentials.client_id as credentials_client,
           oauth_credentials.sealed_client_secret as credentials_secret,
           case
               when {_IS_LENT} then null
               when %(provider)s::text = 'codehost' then services.codehost_scopes
               when %(provider)s::text = 'websuite' then services.websuite_scopes
               when %(provider)s::text = 'officesuite' then services.officesuite_scopes
           end as service_scopes,
           coalesce({_IS_LENT}, false) as is_lent, realms.id as realm_id"""

_TO_OWN: Final[LiteralString] = f"""{_PLACE}, exists ({_FALLS_BACK} and domain_routes.own_provider = providers.id) as falls_back,
           providers.id as provider_id, providers.org_id as provider_organization, providers.name as provider_name, providers.issuer,
           coalesce(providers.client_id, providers.issuer) as provider_client,
           coalesce(providers.sealed_client_secret, providers.sealed_private_key, providers.sealed_bind_password) as provider_secret,
           providers.scopes as provider_scopes, providers.profile_mapping as provider_mapping, providers.saml::text as provider_saml,
           providers.ldap::text as provider_ldap,
           providers.certificate as provider_certificate, providers.second_factor_values as provider_factors"""


def _places_of_three(home: LiteralString, service: LiteralString, realm: LiteralString) -> LiteralString:
    """If an organization leads people of its domain to the provider, that organization's client is used, wherever the people are going."""
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
"""


def _places_of_own(home: LiteralString, service: LiteralString, _realm: LiteralString) -> LiteralString:
    """The provider counts on the platform and in flows of its organization. If a proved domain leads to the provider, the provider counts
    in all other flows, too. The provider must be on, and its organization active.
    """
    return f"""
      left join organizations as homes on {home} and homes.status = 'active'
      left join services on {service}
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


_TO_FURTHER: Final[LiteralString] = f"""{_PLACE}, false as falls_back,
           furthers.id as further_id, furthers.name as further_name, furthers.settings as further_settings,
           furthers.client_id as further_client, furthers.sealed_client_secret as further_secret,
           furthers.secret_set_at as further_secret_set_at, furthers.state = 'draft' as further_is_draft,
           furthers.enabled and (furthers.organizations is null or homes.id = any (furthers.organizations)) as further_is_on"""


def _places_of_further(home: LiteralString, service: LiteralString, _realm: LiteralString) -> LiteralString:
    """A provider that is offered to named organizations counts in flows of these alone."""
    return f"""
      left join organizations as homes on {home} and homes.status = 'active'
      left join services on {service}
      left join further_providers as furthers on furthers.key = %(provider)s
"""


_THREE: Final = Parts(_TO_ONE_OF_THREE, "coalesce(way.credentials_client, %(installed_client)s::text)", "way.realm_id", _places_of_three)
_FURTHER: Final = Parts(_TO_FURTHER, "way.further_client", "null::uuid", _places_of_further)
_OWN: Final = Parts(_TO_OWN, "way.provider_client", "null::uuid", _places_of_own)


def of_each_kind(make: Callable[[Parts], LiteralString]) -> Mapping[ProviderOrigin, LiteralString]:
    """Returns the statement three times, by the kind of provider: for the social providers that all organizations may use, for custom
    providers of the installation, and for an organization's own. The request alone determines which of them is needed. One statement for
    all would cost more, because PostgreSQL initializes every part of a statement, also the parts that find nothing.
    """
    return {ProviderOrigin.SHIPPED: make(_THREE), ProviderOrigin.FURTHER: make(_FURTHER), ProviderOrigin.OWN: make(_OWN)}
