"""Where and how people signed in to an organization in the last thirty days, and the newest sign-ins."""

from typing import Final

import msgspec

from core.domain.tenancy.members import Member
from entrypoints.bootstrap import Postern
from entrypoints.http.machinery.answers import Answer, Streamed
from entrypoints.http.machinery.calls import Call
from entrypoints.http.pages.console.cells import code, number, plain, rows_of, when
from entrypoints.http.pages.console.declaring import console
from entrypoints.http.pages.console.organization.organization_tabs import SIGN_INS
from entrypoints.http.pages.console.organization.overview import OVERVIEW
from entrypoints.http.pages.console.visit import Head, Page, PageVisit
from entrypoints.http.routes.platform.analytics import (
    AnalyticsPath,
    RecentLoginRecord,
    list_logins_by_provider,
    list_logins_by_service,
    list_recent_logins,
)

_BY_SERVICE: Final = (plain("service_name", "console.field.application"), number("count", "console.entry.sign_ins"))
_BY_PROVIDER: Final = (code("provider", "console.field.signed_in_with"), number("count", "console.entry.sign_ins"))
_RECENT: Final = (
    code("user_id", "console.field.person"),
    code("provider", "console.field.signed_in_with"),
    when("created_at", "console.field.happened_at"),
)
_SHOWN: Final = 20


@console.get(SIGN_INS, of=list_logins_by_service, also=(list_logins_by_provider, list_recent_logins))
async def show_sign_ins_of_organization(call: Call[None, None, AnalyticsPath, Member], postern: Postern) -> Page:
    """See where and how people signed in to an organization"""
    visit = PageVisit(call, postern)
    groups = [
        (visit.text(f"console.sign_ins.{name}"), columns, rows_of(columns, rows, visit.text, visit.path))
        for name, columns, rows in (
            ("by_application", _BY_SERVICE, await visit.ask(list_logins_by_service)),
            ("by_way", _BY_PROVIDER, await visit.ask(list_logins_by_provider)),
            ("newest", _RECENT, await _recent(visit)),
        )
    ]
    head = Head(
        title=visit.text("console.sign_ins.title"),
        crumbs=((visit.text("console.overview.title"), visit.here(OVERVIEW.tab.at)),),
        curl=visit.curl(list_logins_by_service),
    )
    return Answer(visit.show("organization/sign_ins.html", OVERVIEW, head, figures=groups), 200)


async def _recent(visit: PageVisit) -> list[RecentLoginRecord]:
    """The endpoint sends the sign-ins in parts, since a program may ask for all of them. These few are one part."""
    streamed: Streamed[object] = await visit.ask(list_recent_logins, query={"limit": _SHOWN})
    return msgspec.json.decode(b"".join([part async for part in streamed.parts]), type=list[RecentLoginRecord])


PAGES: Final = (show_sign_ins_of_organization,)
