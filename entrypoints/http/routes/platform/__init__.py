"""The endpoints of platform owners, and figures about sign-ins."""

from typing import Final

from entrypoints.http.machinery.endpoints import Endpoints
from entrypoints.http.routes.platform import (
    for_everybody,
    further_providers,
    governance,
    installation,
    management_keys,
    platform_fields,
    platform_users,
    setup_links,
    sign_ins,
    text_approvals,
    todos,
)
from entrypoints.http.routes.tenancy import hooks, risk_policies

ROUTES: Final = Endpoints(
    [
        *Endpoints.of(
            governance,
            platform_users,
            platform_fields,
            sign_ins,
            text_approvals,
            todos,
            management_keys,
            setup_links,
            installation,
            further_providers,
        ),
        *risk_policies.OF_INSTALLATION,
        *hooks.OF_INSTALLATION,
        *Endpoints.of(for_everybody),
    ]
)
