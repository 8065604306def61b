"""All pages of applications."""

from typing import Final

from entrypoints.http.pages.console.organization.applications import (
    assigning,
    keys,
    lists,
    notices,
    overview,
    plans,
    refusals,
    rights,
    settings,
    tab_pages,
    user_keys,
)
from entrypoints.http.pages.console.organization.applications.claims import preview, service_claims, trial
from entrypoints.http.pages.console.organization.applications.looks import application_logo
from entrypoints.http.pages.console.organization.applications.making import new_application
from entrypoints.http.pages.console.organization.applications.proxy import proxy
from entrypoints.http.pages.console.organization.applications.saml import saml_pages
from entrypoints.http.pages.console.organization.applications.sessions import session_pages

PAGES: Final = (
    *lists.PAGES,
    *new_application.PAGES,
    *overview.PAGES,
    *tab_pages.PAGES,
    *settings.PAGES,
    *application_logo.PAGES,
    *session_pages.PAGES,
    *notices.PAGES,
    *keys.PAGES,
    *user_keys.PAGES,
    *rights.PAGES,
    *assigning.PAGES,
    *service_claims.PAGES,
    *preview.PAGES,
    *trial.PAGES,
    *plans.PAGES,
    *proxy.PAGES,
    *saml_pages.PAGES,
    *refusals.PAGES,
)
