"""Organizations, their members, roles and invitations."""

from typing import Final

from entrypoints.http.machinery.endpoints import Endpoints
from entrypoints.http.routes.tenancy import (
    branding,
    connections,
    domain_routes,
    domains,
    hooks,
    joining,
    mail_servers,
    management_keys,
    members,
    oauth_credentials,
    offboarding,
    organizations,
    profile_fields,
    risk_policies,
    roles,
    setup_links,
    siem,
    sign_in_rules,
    teams,
    terms,
    texts,
    trusted_issuers,
    upstream_providers,
    webhooks,
)

ROUTES: Final = (
    Endpoints.of(
        organizations,
        sign_in_rules,
        risk_policies,
        mail_servers,
        branding,
        domains,
        oauth_credentials,
        upstream_providers,
        connections,
        domain_routes,
        members,
        roles,
        profile_fields,
        teams,
        terms,
        texts,
        joining,
        webhooks,
        siem,
        hooks,
        offboarding,
        management_keys,
        trusted_issuers,
        setup_links,
    )
    .without(risk_policies.OF_INSTALLATION)
    .without(hooks.OF_INSTALLATION)
)
