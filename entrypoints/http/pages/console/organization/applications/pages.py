"""All pages of applications."""

from typing import Final

from entrypoints.http.pages.console.organization import applications
from entrypoints.http.pages.console.organization.applications import (
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
from entrypoints.http.pages.console.organization.applications.making import new_application

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
