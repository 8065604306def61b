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
    provisioning,
    pushed_requests,
    saml,
    scim_discovery,
    scim_groups,
    scim_settings,
    scim_users,
    signal_log,
    signals,
    streams,
    token_preview,
    unplaced_clients,
)
from entrypoints.http.routes.federation.provisioning import runs as provisioning_runs

ROUTES: Final = Endpoints.of(
    grants,
    device_flow,
    given_sessions,
    oidc,
    provisioning,
    provisioning_runs,
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
    signal_log,
    streams,
    polls,
)
