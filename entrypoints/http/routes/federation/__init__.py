"""The endpoints of sign-in for other applications, for these applications to call."""

from typing import Final

from entrypoints.http.machinery.endpoints import Endpoints
from entrypoints.http.routes.federation import (
    afar_requests,
    agent_grants,
    authorization_refusals,
    device_flow,
    directory_runs,
    document_refusals,
    given_sessions,
    grants,
    identity_assertions,
    logout_notices,
    oidc,
    open_registrations,
    pushed_requests,
    saml,
    scim_discovery,
    scim_groups,
    scim_search,
    scim_settings,
    scim_tokens,
    scim_users,
    token_preview,
)

ROUTES: Final = Endpoints.of(
    *(grants, device_flow, given_sessions, oidc, pushed_requests, logout_notices, saml, token_preview, authorization_refusals),
    *(open_registrations, document_refusals, identity_assertions, agent_grants, afar_requests),
    *(scim_settings, scim_tokens, scim_users, scim_groups, scim_search, scim_discovery),
    directory_runs,
)
