"""Organizations, their members, roles and invitations."""

from typing import Final

from entrypoints.http.machinery.endpoints import Endpoints
from entrypoints.http.routes.tenancy import (
    branding,
    connection_certificates,
    connections,
    domain_routes,
    domains,
    invitations,
    join_requests,
    mail_servers,
    management_keys,
    members,
    oauth_credentials,
    organizations,
    profile_fields,
    profile_values,
    roles,
    setup_links,
    siem,
    sign_in_rules,
    teams,
    trusted_issuers,
    upstream_providers,
    webhook_deliveries,
    webhooks,
)
from entrypoints.http.routes.tenancy.risk import risk_policies
from entrypoints.http.routes.tenancy.terms import terms
from entrypoints.http.routes.tenancy.texts import notices, previews, spoken_languages, texts

ROUTES: Final = Endpoints.of(
    organizations,
    sign_in_rules,
    risk_policies,
    mail_servers,
    branding,
    spoken_languages,
    domains,
    oauth_credentials,
    upstream_providers,
    connections,
    connection_certificates,
    domain_routes,
    members,
    roles,
    profile_fields,
    profile_values,
    teams,
    terms,
    texts,
    notices,
    previews,
    invitations,
    join_requests,
    webhooks,
    webhook_deliveries,
    siem,
    management_keys,
    trusted_issuers,
    setup_links,
).without(risk_policies.OF_INSTALLATION)
