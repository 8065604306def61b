"""The endpoints of platform owners, and figures about sign-ins."""

from typing import Final

from entrypoints.http.machinery.endpoints import Endpoints
from entrypoints.http.routes.platform import (
    account_administration,
    analytics,
    audit_log,
    dead_jobs,
    expiries,
    further_providers,
    governance,
    installation_terms,
    installation_texts,
    management_keys,
    platform_fields,
    platform_users,
    resource_servers,
    settings_in_force,
    setup_links,
    sign_ins,
    signing_keys,
    text_approvals,
    todos,
)
from entrypoints.http.routes.tenancy.risk import risk_policies

ROUTES: Final = Endpoints(
    [
        *Endpoints.of(
            governance,
            resource_servers,
            platform_users,
            account_administration,
            platform_fields,
            analytics,
            sign_ins,
            text_approvals,
            todos,
            expiries,
            management_keys,
            setup_links,
            audit_log,
            dead_jobs,
            signing_keys,
            settings_in_force,
            further_providers,
        ),
        *risk_policies.OF_INSTALLATION,
        *Endpoints.of(installation_terms, installation_texts),
    ]
)
