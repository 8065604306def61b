"""Organizations, their members, roles and invitations."""

from typing import Final

from entrypoints.http.machinery.endpoints import Endpoints
from entrypoints.http.routes.tenancy import (
    invitations,
    members,
    organizations,
    roles,
    sign_in_rules,
    webhook_deliveries,
    webhooks,
)

ROUTES: Final = Endpoints.of(organizations, sign_in_rules, members, roles, invitations, webhooks, webhook_deliveries)
