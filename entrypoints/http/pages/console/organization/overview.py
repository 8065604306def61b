"""The overview of an organization: what waits for a decision, people, applications, and the sign-ins of thirty days."""

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Final

from core.domain.platform.todos import Todo
from core.domain.tenancy.members import Member
from entrypoints.bootstrap import Postern
from entrypoints.http.machinery.answers import Answer
from entrypoints.http.machinery.calls import Call
from entrypoints.http.pages.console.charts import LineChart, line_chart
from entrypoints.http.pages.console.declaring import console
from entrypoints.http.pages.console.organization.organization_tabs import (
    APIS,
    APPLICATIONS,
    DIRECTORIES,
    EVENTS,
    EXPIRIES,
    HOME,
    LOOKS_TAB,
    OVERVIEW_ENTRY,
    OVERVIEW_TAB,
    PEOPLE,
    SETTINGS,
    SETUP_LINKS,
    SIGN_INS,
    position,
)
from entrypoints.http.pages.console.visit import DoneLink, Head, Page, PageVisit
from entrypoints.http.routes.platform.analytics import LoginTrend, list_login_trends
from entrypoints.http.routes.platform.expiries import list_expiries
from entrypoints.http.routes.platform.todos import list_todos
from entrypoints.http.routes.services.services import create_service, list_services
from entrypoints.http.routes.tenancy.branding import change_branding
from entrypoints.http.routes.tenancy.invitations import create_invitation
from entrypoints.http.routes.tenancy.members import list_members
from entrypoints.http.routes.tenancy.organizations import OwnOrganization, OwnOrganizationPath, get_organization

OVERVIEW: Final = position(OVERVIEW_ENTRY, OVERVIEW_TAB)
_DAYS: Final = 30
_NEW_APPLICATION: Final = f"{APPLICATIONS}/~new"
_INVITE: Final = f"{PEOPLE}/invitations/~new"
# Where each todo is decided.
_DECIDED_AT: Final[Mapping[Todo, str]] = {
    Todo.JOIN_REQUESTS: f"{PEOPLE}/requests?status=pending",
    Todo.CERTIFICATES: EXPIRIES,
    Todo.CONNECTIONS: DIRECTORIES,
    Todo.WEBHOOKS: EVENTS,
    Todo.DOMAINS: f"{DIRECTORIES}/domains",
    Todo.RESOURCE_SERVERS: APIS,
    Todo.SECOND_FACTORS: PEOPLE,
    Todo.MAIL_SERVER: f"{SETTINGS}/mail-server",
    Todo.SIEM: f"{EVENTS}/siem",
    Todo.SETUP_LINKS: SETUP_LINKS,
    Todo.KEYS: EXPIRIES,
}


@console.get(HOME, of=get_organization, also=(list_todos, list_login_trends))
async def show_overview_of_organization(call: Call[None, DoneLink, OwnOrganizationPath, Member], postern: Postern) -> Page:
    """See what waits for a decision in an organization, and its figures"""
    visit = PageVisit(call, postern)
    found = await visit.ask(get_organization)
    is_active = call.caller.organization_is_active
    decides = is_active and visit.may(list_todos)
    todos = await visit.ask(list_todos) if decides else ()
    trends = await visit.ask(list_login_trends) if is_active else ()
    page = visit.show(
        "organization/overview.html",
        OVERVIEW,
        Head(title=visit.text("console.overview.title"), curl=visit.curl(get_organization), done=call.query.done),
        found=found,
        is_active=is_active,
        decides=decides,
        todos=[(one.todo.value, one.count, visit.here(_DECIDED_AT[one.todo])) for one in todos],
        beginnings=_beginnings(visit, found) if is_active else (),
        chart=_chart(visit, trends) if any(one.count for one in trends) else None,
        sign_ins=visit.here(SIGN_INS),
        expiries=visit.here(EXPIRIES) if visit.may(list_expiries) else "",
        people=visit.here(PEOPLE) if visit.may(list_members) else "",
        applications=visit.here(APPLICATIONS) if visit.may(list_services) else "",
    )
    return Answer(page, 200)


def _beginnings(visit: PageVisit, found: OwnOrganization) -> Sequence[tuple[str, str]]:
    """The first things to do, by their texts and addresses, until an application is connected."""
    if found.service_count:
        return ()
    first = (
        ("application", _NEW_APPLICATION, create_service),
        ("invite", _INVITE, create_invitation),
        ("looks", LOOKS_TAB.at, change_branding),
    )
    return [(name, visit.here(where)) for name, where, of in first if visit.may(of)]


def _chart(visit: PageVisit, trends: Sequence[LoginTrend]) -> LineChart:
    """Days without sign-ins are left out of the answer, and stand in the chart with zero."""
    today = visit.postern.foundation.clock.now().date()
    counts = {one.date: one.count for one in trends}
    days = [today - timedelta(days=back) for back in range(_DAYS - 1, -1, -1)]
    return line_chart([(day, counts.get(day.isoformat(), 0)) for day in days], visit.text)


PAGES: Final = (show_overview_of_organization,)
