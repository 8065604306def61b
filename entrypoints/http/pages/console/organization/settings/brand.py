"""The former page that linked to branding, texts, languages, domain and mail server."""

from typing import Final

from core.domain.tenancy.members import Member
from entrypoints.bootstrap import Postern
from entrypoints.http.machinery.answers import redirect
from entrypoints.http.machinery.calls import Call
from entrypoints.http.machinery.fields import OrganizationPath
from entrypoints.http.pages.console.declaring import console
from entrypoints.http.pages.console.navigation import offered
from entrypoints.http.pages.console.organization.organization_tabs import BRAND, BRANDING_ENTRY
from entrypoints.http.pages.console.visit import Page, PageVisit
from entrypoints.http.routes.tenancy.branding import get_languages


@console.get(BRAND, of=get_languages.caller)
async def leave_for_branding(call: Call[None, None, OrganizationPath, Member], postern: Postern) -> Page:
    """Leave for the first page about branding that the reader may open"""
    # Each member may see the languages.
    where, _ = offered(BRANDING_ENTRY.tabs, call.caller, PageVisit(call, postern).path)[0]
    return redirect(where)


PAGES: Final = (leave_for_branding,)
