"""The tabs of an application, and the pages that stand side by side within a tab."""

from typing import Final

from entrypoints.http.pages.console.navigation import PagePosition, Tab
from entrypoints.http.pages.console.organization.organization_tabs import (
    APPLICATIONS,
    APPLICATIONS_ENTRY,
    APPLICATIONS_TAB,
    ORGANIZATION,
    position,
)
from entrypoints.http.pages.console.visit import PageVisit
from entrypoints.http.routes.federation.authorization_refusals import list_authorization_refusals
from entrypoints.http.routes.federation.logout_notices import list_logout_notices
from entrypoints.http.routes.federation.saml import get_saml_configuration, list_saml_exchanges
from entrypoints.http.routes.federation.token_preview import preview_tokens
from entrypoints.http.routes.services.api_keys import list_api_keys
from entrypoints.http.routes.services.assignments import list_assignments
from entrypoints.http.routes.services.client_secrets import list_client_secrets
from entrypoints.http.routes.services.permissions import list_service_permissions
from entrypoints.http.routes.services.plans import list_plans
from entrypoints.http.routes.services.service_claims import list_service_claims
from entrypoints.http.routes.services.service_roles import list_service_roles
from entrypoints.http.routes.services.services import change_service, get_service

LIST: Final = APPLICATIONS
ONE: Final = f"{LIST}/{{service_slug}}"
SETTINGS: Final = f"{ONE}/settings"
SIGN_IN: Final = f"{ONE}/sign-in"
LOGOUT: Final = f"{ONE}/logout"
NOTICES: Final = f"{ONE}/logout-notices"
SECRETS: Final = f"{ONE}/secrets"
PUBLIC_KEYS: Final = f"{ONE}/public-keys"
API_KEYS: Final = f"{ONE}/api-keys"
ROLES: Final = f"{ONE}/roles"
PERMISSIONS: Final = f"{ONE}/permissions"
ASSIGNMENTS: Final = f"{ONE}/assignments"
CLAIMS: Final = f"{ONE}/claims"
PREVIEW: Final = f"{ONE}/token-preview"
PLANS: Final = f"{ONE}/plans"
SAML: Final = f"{ONE}/saml"
SAML_CERTIFICATE: Final = f"{ONE}/saml-certificate"
SAML_EXCHANGES: Final = f"{ONE}/saml-exchanges"
REFUSALS: Final = f"{ONE}/refusals"
TEST_SIGN_IN: Final = f"{ONE}/test-sign-in"

_OVERVIEW: Final = Tab("console.tab.overview", ONE, get_service.caller)
_SIGN_IN: Final = Tab("console.tab.signing_in", SIGN_IN, change_service.caller)
_SECRETS: Final = Tab("console.tab.secrets", SECRETS, list_client_secrets.caller)
_ROLES: Final = Tab("console.tab.roles", ROLES, list_service_roles.caller)
_CLAIMS: Final = Tab("console.tab.claims", CLAIMS, list_service_claims.caller)
_REFUSALS: Final = Tab("console.tab.refusals", REFUSALS, list_authorization_refusals.caller)
_SETTINGS: Final = Tab("console.tab.settings", SETTINGS, change_service.caller)
_PLANS: Final = Tab("console.tab.plans", PLANS, list_plans.caller)
_SAML: Final = Tab("console.tab.saml", SAML, get_saml_configuration.caller)
_TABS: Final = (_OVERVIEW, _SIGN_IN, _SECRETS, _ROLES, _CLAIMS, _PLANS, _SAML, _REFUSALS, _SETTINGS)

_RULES: Final = Tab("console.part.rules", SIGN_IN, change_service.caller)
_LOGOUT: Final = Tab("console.part.logout", LOGOUT, change_service.caller)
_NOTICES: Final = Tab("console.part.notices", NOTICES, list_logout_notices.caller)
_OF_SIGN_IN: Final = (_RULES, _LOGOUT, _NOTICES)

_CLIENT_SECRETS: Final = Tab("console.part.client_secrets", SECRETS, list_client_secrets.caller)
_PUBLIC_KEYS: Final = Tab("console.part.public_keys", PUBLIC_KEYS, change_service.caller)
_API_KEYS: Final = Tab("console.part.api_keys", API_KEYS, list_api_keys.caller)
_OF_SECRETS: Final = (_CLIENT_SECRETS, _PUBLIC_KEYS, _API_KEYS)

_OWN_ROLES: Final = Tab("console.part.roles", ROLES, list_service_roles.caller)
_PERMISSIONS: Final = Tab("console.part.permissions", PERMISSIONS, list_service_permissions.caller)
_ASSIGNMENTS: Final = Tab("console.part.assignments", ASSIGNMENTS, list_assignments.caller)
_OF_ROLES: Final = (_OWN_ROLES, _PERMISSIONS, _ASSIGNMENTS)

_OWN_CLAIMS: Final = Tab("console.part.claims", CLAIMS, list_service_claims.caller)
_PREVIEW: Final = Tab("console.part.preview", PREVIEW, preview_tokens.caller)
_OF_CLAIMS: Final = (_OWN_CLAIMS, _PREVIEW)

_CONFIGURATION: Final = Tab("console.part.configuration", SAML, get_saml_configuration.caller)
_CERTIFICATE: Final = Tab("console.part.certificate", SAML_CERTIFICATE, get_saml_configuration.caller)
_EXCHANGES: Final = Tab("console.part.exchanges", SAML_EXCHANGES, list_saml_exchanges.caller)
_OF_SAML: Final = (_CONFIGURATION, _CERTIFICATE, _EXCHANGES)


def _below(tab: Tab, parts: tuple[Tab, ...] = (), part: Tab | None = None) -> PagePosition:
    return PagePosition(ORGANIZATION, APPLICATIONS_ENTRY, tab, _TABS, parts, part)


LIST_POSITION: Final = position(APPLICATIONS_ENTRY, APPLICATIONS_TAB)
OVERVIEW_POSITION: Final = _below(_OVERVIEW)
SETTINGS_POSITION: Final = _below(_SETTINGS)
SIGN_IN_POSITION: Final = _below(_SIGN_IN, _OF_SIGN_IN, _RULES)
LOGOUT_POSITION: Final = _below(_SIGN_IN, _OF_SIGN_IN, _LOGOUT)
NOTICES_POSITION: Final = _below(_SIGN_IN, _OF_SIGN_IN, _NOTICES)
SECRETS_POSITION: Final = _below(_SECRETS, _OF_SECRETS, _CLIENT_SECRETS)
PUBLIC_KEYS_POSITION: Final = _below(_SECRETS, _OF_SECRETS, _PUBLIC_KEYS)
API_KEYS_POSITION: Final = _below(_SECRETS, _OF_SECRETS, _API_KEYS)
ROLES_POSITION: Final = _below(_ROLES, _OF_ROLES, _OWN_ROLES)
PERMISSIONS_POSITION: Final = _below(_ROLES, _OF_ROLES, _PERMISSIONS)
ASSIGNMENTS_POSITION: Final = _below(_ROLES, _OF_ROLES, _ASSIGNMENTS)
CLAIMS_POSITION: Final = _below(_CLAIMS, _OF_CLAIMS, _OWN_CLAIMS)
PREVIEW_POSITION: Final = _below(_CLAIMS, _OF_CLAIMS, _PREVIEW)
PLANS_POSITION: Final = _below(_PLANS)
SAML_POSITION: Final = _below(_SAML, _OF_SAML, _CONFIGURATION)
CERTIFICATE_POSITION: Final = _below(_SAML, _OF_SAML, _CERTIFICATE)
EXCHANGES_POSITION: Final = _below(_SAML, _OF_SAML, _EXCHANGES)
REFUSALS_POSITION: Final = _below(_REFUSALS)


def above_list(visit: PageVisit) -> tuple[tuple[str, str]]:
    """The crumbs of an application's own page."""
    return ((visit.text("console.applications.title"), visit.here(LIST)),)


def above(visit: PageVisit) -> tuple[tuple[str, str], tuple[str, str]]:
    """The crumbs of a page below an application."""
    return (*above_list(visit), (visit.path["service_slug"], visit.here(ONE)))
