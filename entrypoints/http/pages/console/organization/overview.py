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
    APPLICATIONS,
    DIRECTORIES,
    EVENTS,
    HOME,
    KEYS,
    OVERVIEW_ENTRY,
    OVERVIEW_TAB,
    PEOPLE,
    SETTINGS,
    SETUP_LINKS,
    SIGN_INS,
    position,
)
from entrypoints.http.pages.console.visit import DoneLink, Head, Page, PageVisit
from entrypoints.http.routes.platform.analytics import LoginTrend, login_trends
from entrypoints.http.routes.platform.todos import list_todos
from entrypoints.http.routes.services.services import list_services
from entrypoints.http.routes.tenancy.members import list_members
from entrypoints.http.routes.tenancy.organizations import OwnOrganizationPath, organization_detail

OVERVIEW: Final = position(OVERVIEW_ENTRY, OVERVIEW_TAB)
_DAYS: Final = 30
# Where each todo is decided.
_DECIDED_AT: Final[Mapping[Todo, str]] = {
    Todo.JOIN_REQUESTS: f"{PEOPLE}/requests?status=pending",
    Todo.CERTIFICATES: APPLICATIONS,
    Todo.CONNECTIONS: DIRECTORIES,
    Todo.WEBHOOKS: EVENTS,
    Todo.DOMAINS: f"{DIRECTORIES}/domains",
    Todo.SECOND_FACTORS: PEOPLE,
    Todo.MAIL_SERVER: f"{SETTINGS}/mail-server",
    Todo.SIEM: f"{EVENTS}/siem",
    Todo.SETUP_LINKS: SETUP_LINKS,
    Todo.KEYS: KEYS,
}


@console.get(HOME, of=organization_detail, also=(list_todos, login_trends))
async def show_overview_of_organization(call: Call[None, DoneLink, OwnOrganizationPath, Member], postern: Postern) -> Page:
    """See what waits for a decision in an organization, and its figures"""
    visit = PageVisit(call, postern)
    found = await visit.ask(organization_detail)
    is_active = call.caller.organization_is_active
    decides = is_active and visit.may(list_todos)
    todos = await visit.ask(list_todos) if decides else ()
    chart = _chart(visit, await visit.ask(login_trends)) if is_active else None
    page = visit.show(
        "organization/overview.html",
        OVERVIEW,
        Head(title=visit.text("console.overview.title"), curl=visit.curl(organization_detail), done=call.query.done),
        found=found,
        is_active=is_active,
        decides=decides,
        todos=[(one.todo.value, one.count, visit.here(_DECIDED_AT[one.todo])) for one in todos],
        chart=chart,
        sign_ins=visit.here(SIGN_INS),
        people=visit.here(PEOPLE) if visit.may(list_members) else "",
        applications=visit.here(APPLICATIONS) if visit.may(list_services) else "",
    )
    return Answer(page, 200)


def _chart(visit: PageVisit, trends: Sequence[LoginTrend]) -> LineChart:
    """Days without sign-ins are left out of the answer, and stand in the chart with zero."""
    today = visit.postern.foundation.clock.now().date()
    counts = {one.date: one.count for one in trends}
    days = [today - timedelta(days=back) for back in range(_DAYS - 1, -1, -1)]
    return line_chart([(day, counts.get(day.isoformat(), 0)) for day in days], visit.text)


PAGES: Final = (show_overview_of_organization,)
