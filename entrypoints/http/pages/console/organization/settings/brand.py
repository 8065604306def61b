"""Brand: the page that leads to looks, texts, languages, domain and mail server, to each reader those that they may open."""

from typing import Final

from core.domain.tenancy.members import Member
from entrypoints.bootstrap import Postern
from entrypoints.http.machinery.answers import Answer
from entrypoints.http.machinery.calls import Call
from entrypoints.http.machinery.fields import OrganizationPath
from entrypoints.http.pages.console.declaring import console
from entrypoints.http.pages.console.navigation import Tab, offered
from entrypoints.http.pages.console.organization.organization_tabs import BRAND, BRAND_TAB, SETTINGS_ENTRY, position
from entrypoints.http.pages.console.visit import Head, Page, PageVisit


@console.get(BRAND, of=BRAND_TAB.rule)
async def show_brand(call: Call[None, None, OrganizationPath, Member], postern: Postern) -> Page:
    """See which pages say how an organization looks and speaks"""
    visit = PageVisit(call, postern)
    page = visit.show(
        "organization/settings/brand.html",
        position(SETTINGS_ENTRY, BRAND_TAB),
        Head(title=visit.text("console.brand.title")),
        parts=[
            (visit.text(tab.label), visit.text(f"console.brand.{_name(tab)}"), where)
            for where, tab in offered(BRAND_TAB.beneath, call.caller, visit.path)
        ],
    )
    return Answer(page, 200)


def _name(tab: Tab) -> str:
    """The section of the page's texts, as `looks` of `console.looks.title`."""
    return tab.title.split(".")[1]


PAGES: Final = (show_brand,)
