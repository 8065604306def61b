"""Services, their plans, users and keys."""

from typing import Final

from entrypoints.http.machinery.endpoints import Endpoints
from entrypoints.http.routes.services import (
    access_evaluations,
    api_keys,
    assignments,
    billing,
    client_secrets,
    end_users,
    permissions,
    plans,
    proxies,
    resource_servers,
    rights,
    service_claims,
    service_info,
    service_roles,
    service_subscriptions,
    service_user_keys,
    service_users,
    services,
    subscriptions,
    user_keys,
)

ROUTES: Final = Endpoints.of(
    services,
    client_secrets,
    permissions,
    service_roles,
    assignments,
    api_keys,
    resource_servers,
    service_claims,
    proxies,
    plans,
    billing,
    subscriptions,
    service_users,
    rights,
    access_evaluations,
    service_subscriptions,
    service_info,
    end_users,
    service_user_keys,
    user_keys,
)
