"""The statements for what belongs to organizations, by the kind of object. Each ends where a condition on `organizations` may follow."""

from typing import Final, LiteralString

from adapters.postgres.platform.configuration.risk_objects import RISK_POLICIES
from adapters.postgres.services.resource_servers import RESOURCE_SERVER, named_services
from adapters.postgres.tenancy.keys.trusted_issuers import TRUSTED_ISSUER
from core.domain.languages import Language
from core.domain.services.resource_servers import ResourceServerChange
from core.domain.tenancy.trusted_issuers import TrustedIssuerChange
from core.frozen import names_of

_ORGANIZATION: Final = """
    select organizations.slug as organization, organizations.id::text as id, organizations.member_count as people,
           jsonb_build_object('name', organizations.name, 'metadata', organizations.metadata) as fields
      from organizations
"""

_LIMITS: Final = """
    select organizations.slug as organization,
           jsonb_build_object('tier', tiers.name, 'max_services', organizations.max_services,
                              'max_users', organizations.max_users) as fields
      from organizations
      join tiers on tiers.id = organizations.tier_id
"""

_SIGN_IN_RULES: Final = """
    select organizations.slug as organization,
           jsonb_build_object(
               'mfa_policy', case when mfa_required_since is null then 'optional' else 'required' end,
               'mfa_grace_days', mfa_grace_days, 'device_trust_days', device_trust_days, 'session_lifetime_hours', session_hours,
               'invitation_domains', invitation_domains, 'sign_in_links', sign_in_links,
               'admin_factor', coalesce(admin_factor, 'optional'), 'agents', agents,
               'afar_requests', case when afar_since is null then 'off' else 'on' end,
               'all_factor', coalesce(all_factor, 'optional'), 'passkey_offers', passkey_offers,
               'all_factor_role', (
                   select services.slug || '/' || service_roles.slug
                     from service_roles
                     join services on services.id = service_roles.service_id
                    where service_roles.id = organizations.all_factor_role_id and services.org_id = organizations.id
               ),
               'metadata_clients', metadata_clients, 'metadata_hosts', metadata_hosts, 'registered_clients', registered_clients,
               'shortest_password', shortest_password, 'breached_at_sign_in', breached_at_sign_in,
               'session_idle_minutes', session_idle_minutes, 'most_sessions', most_sessions,
               'registration_policy', registration_policy, 'registration_domains', registration_domains
           ) as fields
      from organizations
"""

_BRANDING: Final = """
    select organizations.slug as organization,
           jsonb_build_object('logo_url', logo_url, 'primary_color', primary_color, 'help_url', help_url, 'privacy_url', privacy_url,
                              'terms_url', terms_url, 'second_color', look::jsonb -> 'second_color', 'corner', look::jsonb -> 'corner',
                              'font', look::jsonb -> 'font') as fields
      from organizations
"""

_LANGUAGES: Final = """
    select organizations.slug as organization,
           jsonb_build_object('languages', coalesce(to_jsonb(string_to_array(languages, ',')), '[]')) as fields
      from organizations
"""

# Every language that we speak, with an empty map where there is no own text.
_ALL_LANGUAGES: Final[LiteralString] = ",".join(Language)
_SPOKEN: Final[LiteralString] = f"""
    (
        select jsonb_object_agg(spoken.language, coalesce(
                   (
                       select jsonb_object_agg(organization_texts.key, organization_texts.text)
                         from organization_texts
                        where {{}} and organization_texts.language = spoken.language
                   ),
                   '{{{{}}}}'
               ))
          from unnest('{{{{{_ALL_LANGUAGES}}}}}'::text[]) as spoken (language)
    )
"""

_TEXTS: Final[LiteralString] = f"""
    select organizations.slug as organization, {_SPOKEN.format("organization_texts.org_id = organizations.id")} as fields
      from organizations
"""

INSTALLATION_TEXTS: Final[LiteralString] = f"select '' as organization, {_SPOKEN.format('organization_texts.org_id is null')} as fields"

_MAIL_SERVER: Final = """
    select organizations.slug as organization,
           jsonb_build_object('host', host, 'port', port, 'username', username, 'from_email', from_email, 'from_name', from_name) as fields
      from organizations
      join mail_servers on mail_servers.org_id = organizations.id
"""

_DOMAIN: Final = """
    select organizations.slug as organization, jsonb_build_object('domain', domains.domain) as fields
      from organizations
      join domains on domains.org_id = organizations.id
"""

_SIEM: Final = """
    select organizations.slug as organization,
           jsonb_build_object('name', siem_configurations.name, 'provider_type', provider_type, 'endpoint_url', endpoint_url,
                              'batch_size', batch_size, 'is_active', is_active) as fields
      from organizations
      join siem_configurations on siem_configurations.org_id = organizations.id
"""

_SCIM_SETTINGS: Final = """
    select organizations.slug as organization,
           jsonb_build_object('groups', coalesce(scim_groups.groups, 'organization'),
                              'profile_mapping', coalesce(scim_groups.profile_mapping, '{}')) as fields
      from organizations
      left join scim_groups on scim_groups.org_id = organizations.id
"""

_PROFILE_FIELDS: Final = """
    select organizations.slug as organization, profile_fields.key as name, profile_fields.key as id,
           jsonb_build_object('label', label, 'kind', kind, 'rule', rule, 'written_by', written_by, 'required', required,
                              'asked_at', asked_at, 'position', position) as fields
      from organizations
      join profile_fields on profile_fields.org_id = organizations.id
"""

_ROLES: Final = """
    select organizations.slug as organization, roles.slug as name, roles.id::text as id,
           (select count(*) from memberships where memberships.role_id = roles.id)::integer as people,
           jsonb_build_object('name', roles.name, 'description', roles.description, 'permissions', array(
               select relation from relations where relations.role_id = roles.id and relations.object_type = 'organization'
           )) as fields
      from organizations
      join roles on roles.org_id = organizations.id
"""

_TEAMS: Final = """
    select organizations.slug as organization, teams.slug as name, teams.slug as id, teams.source = 'directory' as is_directorys,
           (select count(*) from team_members where team_members.team_id = teams.id)::integer as people,
           jsonb_build_object('name', teams.name, 'role', teams.role) as fields
      from organizations
      join teams on teams.org_id = organizations.id
"""

# We have disabled a paused webhook because it failed. That is its state, and no wish of anybody.
_WEBHOOKS: Final = """
    select organizations.slug as organization, webhooks.name, webhooks.id::text as id,
           jsonb_build_object('url', url, 'events', events, 'is_active', is_active or paused_at is not null) as fields
      from organizations
      join webhooks on webhooks.org_id = organizations.id
"""

# Whether people can sign in through a directory is its state, and so is an owner's word that any provider waits for: until then it counts
# as enabled, as it will be. What its metadata bring by their address is no wish of anybody.
_UPSTREAM_PROVIDERS: Final = """
    select organizations.slug as organization, upstream_providers.name, upstream_providers.id::text as id,
           (select count(*) from identities where identities.upstream_provider_id = upstream_providers.id)::integer as people,
           jsonb_build_object('kind', kind, 'profile_mapping', profile_mapping)
           || case kind when 'ldap' then '{}' else jsonb_build_object('second_factor_values', second_factor_values) end || case kind
               when 'ldap' then jsonb_strip_nulls(ldap - '{read_threshold,read_seconds}'::text[])
               when 'oidc' then jsonb_build_object(
                   'issuer', issuer, 'client_id', client_id, 'scopes', scopes, 'enabled', enabled or state <> 'active')
               else jsonb_strip_nulls(jsonb_build_object(
                   'issuer', issuer,
                   'sso_url', coalesce(saml ->> 'sso_url', ''), 'slo_url', coalesce(saml ->> 'slo_url', ''),
                   'slo_response_url', coalesce(saml ->> 'slo_response_url', ''),
                   'slo_binding', coalesce(saml ->> 'slo_binding', 'redirect'), 'metadata_url', coalesce(saml ->> 'metadata_url', ''),
                   'preset', saml ->> 'preset', 'subject_source', coalesce(saml ->> 'subject_source', 'name_id'),
                   'email_sources', coalesce(saml -> 'email_sources', '["name_id"]'),
                   'wants_encrypted', coalesce((saml ->> 'wants_encrypted')::boolean, false),
                   'requested_contexts', coalesce(saml -> 'contexts', '[]'),
                   'certificates', array(
                       select one ->> 'pem' from jsonb_array_elements(saml -> 'certificates') as one
                        where one ->> 'source' = 'hand' or coalesce(saml ->> 'metadata_url', '') = ''
                   )
               ))
           end as fields
      from organizations
      join upstream_providers on upstream_providers.org_id = organizations.id
"""

_OAUTH_CREDENTIALS: Final = """
    select organizations.slug as organization, oauth_credentials.provider as name, oauth_credentials.provider as id,
           jsonb_build_object('client_id', client_id) as fields
      from organizations
      join oauth_credentials on oauth_credentials.org_id = organizations.id
"""

# One of the organization's own providers is named by the place of it in a document.
_DOMAIN_ROUTES: Final = """
    select organizations.slug as organization, domain_routes.domain as name, domain_routes.id::text as id,
           jsonb_build_object(
               'upstream_provider', coalesce(domain_routes.shared_provider, 'upstream_providers/' || upstream_providers.name),
               'login_policy', domain_routes.login_policy, 'join_policy', domain_routes.join_policy
           ) as fields
      from organizations
      join domain_routes on domain_routes.org_id = organizations.id
      left join upstream_providers on upstream_providers.id = domain_routes.own_provider
"""

# Whether tokens are made for an API is its state.
_RESOURCE_SERVERS: Final[LiteralString] = f"""
    select organizations.slug as organization, resource_servers.identifier as name, resource_servers.id::text as id,
           jsonb_build_object(
               {RESOURCE_SERVER.document({*names_of(ResourceServerChange)} - {"scopes"})},
               'scopes', coalesce(
                   (
                       select jsonb_agg(jsonb_build_object('acr_values', '[]'::jsonb, 'max_age', null) || scope.own order by scope.place)
                         from jsonb_array_elements(resource_servers.scopes) with ordinality as scope (own, place)
                   ),
                   '[]'
               ),
               'service_slug', services.slug,
               'admitted_services', {named_services("resource_admissions")},
               'exchanges', {named_services("resource_exchanges")}
           ) as fields
      from organizations
      join resource_servers on resource_servers.org_id = organizations.id
      left join services on services.id = resource_servers.service_id
"""

# Those of management keys are no part of a document, as the keys are none.
_TRUSTED_ISSUERS: Final[LiteralString] = f"""
    select organizations.slug as organization, trusted_issuers.name, trusted_issuers.id::text as id,
           jsonb_build_object(
               'service_slug', services.slug, {TRUSTED_ISSUER.document({*names_of(TrustedIssuerChange)} - {"name"})}
           ) as fields
      from organizations
      join trusted_issuers on trusted_issuers.org_id = organizations.id
      join services on services.id = trusted_issuers.service_id
"""

OF_ORGANIZATION: Final[dict[str, LiteralString]] = {
    "organization": _ORGANIZATION,
    "limits": _LIMITS,
    "sign_in_rules": _SIGN_IN_RULES,
    "branding": _BRANDING,
    "languages": _LANGUAGES,
    "texts": _TEXTS,
    "mail_server": _MAIL_SERVER,
    "domain": _DOMAIN,
    "siem": _SIEM,
    "scim_settings": _SCIM_SETTINGS,
    "profile_fields": _PROFILE_FIELDS,
    "roles": _ROLES,
    "teams": _TEAMS,
    "webhooks": _WEBHOOKS,
    "upstream_providers": _UPSTREAM_PROVIDERS,
    "oauth_credentials": _OAUTH_CREDENTIALS,
    "domain_routes": _DOMAIN_ROUTES,
    "resource_servers": _RESOURCE_SERVERS,
    "trusted_issuers": _TRUSTED_ISSUERS,
    "risk_policies": RISK_POLICIES,
}
