"""The endpoints of sign-in for other applications, for these applications to call."""

from typing import Final

from entrypoints.http.machinery.endpoints import Endpoints
from entrypoints.http.routes.federation import (
    agent_grants,
    authorization_refusals,
    backchannel_requests,
    device_flow,
    directory_runs,
    given_sessions,
    grants,
    identity_assertions,
    logout_notices,
    oidc,
    polls,
    pushed_requests,
    saml,
    scim_discovery,
    scim_groups,
    scim_settings,
    scim_users,
    signals,
    streams,
    token_preview,
    unplaced_clients,
)

ROUTES: Final = Endpoints.of(
    grants,
    device_flow,
    given_sessions,
    oidc,
    pushed_requests,
    logout_notices,
    saml,
    token_preview,
    authorization_refusals,
    unplaced_clients,
    identity_assertions,
    agent_grants,
    backchannel_requests,
    scim_settings,
    scim_users,
    scim_groups,
    scim_discovery,
    directory_runs,
    signals,
    streams,
    polls,
)
