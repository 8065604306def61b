"""Services, their plans, users and keys."""

from typing import Final

from entrypoints.http.machinery.endpoints import Endpoints
from entrypoints.http.routes.services import (
    api_keys,
    billing,
    client_secrets,
    end_users,
    plans,
    service_info,
    service_subscriptions,
    service_users,
    services,
    subscriptions,
)

ROUTES: Final = Endpoints.of(
    services, client_secrets, api_keys, plans, billing, subscriptions, service_users, service_subscriptions, service_info, end_users
)
