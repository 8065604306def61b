"""All pages of applications."""

from typing import Final

from entrypoints.http.console.kit.declaring import console
from entrypoints.http.console.organization import applications
from entrypoints.http.console.organization.applications import (
    claims,
    first_sign_in,
    looks,
    overview,
    people_there,
    proxy,
    rights,
    saml,
    sessions,
    settings,
    signals,
    tab_pages,
    who,
)
from entrypoints.http.console.organization.applications.making import new_application
from entrypoints.http.routes.federation.authorization_refusals import list_authorization_refusals
from entrypoints.http.routes.federation.token_preview import preview_tokens
from entrypoints.http.routes.services.client_secrets import list_client_secrets
from entrypoints.http.routes.services.service_roles import list_service_roles
from entrypoints.http.routes.services.services import change_service, create_service, get_service

for _title, _at, _rule, _position in (
    ("console.applications.new", f"{applications.LIST}/~new", create_service.caller, applications.LIST_POSITION),
    ("console.tab.access", applications.ACCESS, list_service_roles.caller, applications.ACCESS_POSITION),
    ("console.tab.tokens", applications.TOKENS, list_client_secrets.caller, applications.CREDENTIALS_POSITION),
    ("console.preview.title", applications.PREVIEW, preview_tokens.caller, applications.SIGN_IN_POSITION),
    ("console.test_sign_in.title", applications.TEST_SIGN_IN, preview_tokens.caller, applications.SIGN_IN_POSITION),
    ("console.refusals.title", applications.REFUSALS, list_authorization_refusals.caller, applications.SIGN_IN_POSITION),
    ("console.saml.title", applications.SAML, get_service.caller, applications.SIGN_IN_POSITION),
    ("console.application_logo.title", applications.LOGO, change_service.caller, applications.SETTINGS_POSITION),
):
    console.asked_for(_title, _at, _rule, _position)

PAGES: Final = (
    *applications.PAGES,
    *new_application.PAGES,
    *first_sign_in.PAGES,
    *overview.PAGES,
    *tab_pages.PAGES,
    *settings.PAGES,
    *looks.PAGES,
    *sessions.PAGES,
    *rights.PAGES,
    *claims.PAGES,
    *proxy.PAGES,
    *saml.PAGES,
    *people_there.PAGES,
    *signals.PAGES,
    *who.PAGES,
)
