"""The statements for services and what belongs to them, as in `organization_objects`."""

from typing import Final, LiteralString

from adapters.postgres.services.proxies import PROXY_SETTINGS
from adapters.postgres.services.user_keys import USER_KEY_SETTINGS
from core.domain.federation.saml.configurations import Configuration, ConfigurationChange, Understood
from core.domain.services.user_keys import UserKeySettingsChange
from core.frozen import Frozen, names_of

_OF_SERVICES: Final = """
      from organizations
      join services on services.org_id = organizations.id and services.service_type <> 'metadata'
"""

# Metadata clients are no wish of anybody, either: they come by themselves.
# Keys that were read from `jwks_uri` are no wish of anybody.
_SERVICES: Final[LiteralString] = f"""
    select organizations.slug as organization, services.slug as name, services.slug as id, services.user_count as people,
           jsonb_build_object(
               'name', services.name, 'service_type', service_type, 'codehost_scopes', codehost_scopes, 'websuite_scopes', websuite_scopes,
               'officesuite_scopes', officesuite_scopes,
               -- The hosts of a proxy say these.
               'redirect_uris', case when service_type = 'proxy' then '{{}}' else redirect_uris end,
               'device_activation_uri', device_activation_uri,
               'sign_in_policy', sign_in_policy, 'trusted', trusted, 'is_agent', is_agent,
               'jwks', case when jwks_uri is null then jwks end, 'jwks_uri', jwks_uri,
               'id_token_alg', id_token_alg, 'access_token_alg', access_token_alg, 'assertion_audience', assertion_audience,
               'post_logout_redirect_uris', post_logout_redirect_uris,
               'backchannel_logout_uri', backchannel_logout_uri,
               'backchannel_logout_session_required', backchannel_logout_session_required,
               'frontchannel_logout_uri', frontchannel_logout_uri,
               'frontchannel_logout_session_required', frontchannel_logout_session_required, 'profile', profile,
               'session_lifetime_hours', session_lifetime_hours, 'session_idle_minutes', services.session_idle_minutes,
               'most_sessions', services.most_sessions, 'dpop_bound_access_tokens', services.dpop_bound_access_tokens,
               'metadata', services.metadata
           ) as fields
      {_OF_SERVICES}
"""

_PLANS: Final[LiteralString] = f"""
    select organizations.slug as organization, services.slug as service, plans.key as name, plans.id::text as id,
           plans.subscription_count as people,
           jsonb_build_object('name', plans.name, 'price_cents', price_cents, 'currency', currency, 'features', features,
                              'billing_price_id', billing_price_id) as fields
      {_OF_SERVICES}
      join plans on plans.service_id = services.id and plans.deleted_at is null
"""

_PERMISSIONS: Final[LiteralString] = f"""
    select organizations.slug as organization, services.slug as service, permissions.key as name, permissions.key as id,
           jsonb_build_object('description', permissions.description) as fields
      {_OF_SERVICES}
      join permissions on permissions.service_id = services.id
"""

_SERVICE_ROLES: Final[LiteralString] = f"""
    select organizations.slug as organization, services.slug as service, service_roles.slug as name, service_roles.slug as id,
           (select count(*) from relations where relations.service_id is not null and relations.object_id = service_roles.id)::integer
               as people,
           jsonb_build_object('name', service_roles.name, 'permissions', permissions, 'description', description,
                              'given_to_everybody', given_to_everybody) as fields
      {_OF_SERVICES}
      join service_roles on service_roles.service_id = services.id
"""

_CLAIMS: Final[LiteralString] = f"""
    select organizations.slug as organization, services.slug as service, service_claims.name, service_claims.id::text as id,
           jsonb_build_object('source', source, 'argument', argument, 'into', told_in) as fields
      {_OF_SERVICES}
      join service_claims on service_claims.service_id = services.id
"""

# Assignments to people are no configuration.
_ASSIGNMENTS: Final[LiteralString] = f"""
    select organizations.slug as organization, services.slug as service, held.id::text as id, '{{}}'::jsonb as fields,
           service_roles.slug || case when held.team_id is null then ' to role ' || coalesce(roles.slug, held.built_in_role)
                                      else ' to team ' || teams.slug end as name,
           (select count(*) from team_members where team_members.team_id = held.team_id)::integer as people
      {_OF_SERVICES}
      join relations as held on held.service_id = services.id and held.user_id is null
      join service_roles on service_roles.id = held.object_id
      left join teams on teams.id = held.team_id
      left join roles on roles.id = held.role_id
"""


def _saml(kind: type[Frozen]) -> LiteralString:
    """The fields that a configuration shares with the class. Their columns have their names."""
    return ", ".join(f"'{name}', saml_configurations.{name}" for name in names_of(Configuration) if name in names_of(kind))


_SAML: Final[LiteralString] = f"""
    select organizations.slug as organization, services.slug as service,
           jsonb_build_object({_saml(ConfigurationChange)}) as fields
      {_OF_SERVICES}
      join saml_configurations on saml_configurations.service_id = services.id
"""

# A configuration by hand has no more than its entry in `saml` says.
_SAML_SERVICE_PROVIDERS: Final[LiteralString] = f"""
    select organizations.slug as organization, services.slug as service,
           jsonb_build_object(
               {_saml(Understood)}
           ) as fields
      {_OF_SERVICES}
      join saml_configurations on saml_configurations.service_id = services.id and saml_configurations.metadata_uploaded_at is not null
"""

_USER_KEYS: Final[LiteralString] = f"""
    select organizations.slug as organization, services.slug as service,
           jsonb_build_object(
               {USER_KEY_SETTINGS.document(names_of(UserKeySettingsChange))},
               'resource', (
                   select identifier
                     from resource_servers
                    where resource_servers.id = user_key_settings.resource_id and resource_servers.service_id = services.id
               )
           ) as fields
      {_OF_SERVICES}
      join user_key_settings on user_key_settings.service_id = services.id
"""

_PROXIES: Final[LiteralString] = f"""
    select organizations.slug as organization, services.slug as service,
           jsonb_build_object(
               {PROXY_SETTINGS.document(("rules", "headers", "idle_minutes"))},
               'hosts', (
                   select coalesce(jsonb_agg(proxy_hosts.host order by proxy_hosts.host), '[]')
                     from proxy_hosts
                    where proxy_hosts.service_id = services.id
               )
           ) as fields
      {_OF_SERVICES}
      join proxies on proxies.service_id = services.id
"""

OF_SERVICE: Final[dict[str, LiteralString]] = {
    "services": _SERVICES,
    "plans": _PLANS,
    "permissions": _PERMISSIONS,
    "service_roles": _SERVICE_ROLES,
    "claims": _CLAIMS,
    "assignments": _ASSIGNMENTS,
    "saml_service_provider": _SAML_SERVICE_PROVIDERS,
    "saml": _SAML,
    "user_keys": _USER_KEYS,
    "proxy": _PROXIES,
}
