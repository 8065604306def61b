"""Services, their plans, users and keys."""

from typing import Final

from entrypoints.http.machinery.endpoints import Endpoints
from entrypoints.http.routes.services import (
    access_evaluations,
    api_keys,
    client_secrets,
    end_users,
    plans,
    proxies,
    resource_servers,
    service_claims,
    service_info,
    service_roles,
    service_subscriptions,
    service_users,
    services,
    user_keys,
)

ROUTES: Final = Endpoints.of(
    services,
    client_secrets,
    service_roles,
    api_keys,
    resource_servers,
    service_claims,
    proxies,
    plans,
    service_users,
    access_evaluations,
    service_subscriptions,
    service_info,
    end_users,
    user_keys,
)
