"""The installation at a glance."""

from typing import Final

from core.domain.platform.todos import PlatformTodo
from entrypoints.bootstrap import Postern
from entrypoints.first_start import FIRST_STEPS
from entrypoints.http.machinery.answers import Answer
from entrypoints.http.pages.account.first_steps import steps_left
from entrypoints.http.pages.console.cells import linked, number, plain, rows_of
from entrypoints.http.pages.console.charts import chart_of_days, chart_of_growth
from entrypoints.http.pages.console.declaring import console
from entrypoints.http.pages.console.handlers import stated
from entrypoints.http.pages.console.platform.platform_tabs import (
    APPROVALS,
    HEALTH,
    HOME,
    JOBS,
    ORGANIZATIONS,
    OVERVIEW_ENTRY,
    OVERVIEW_TAB,
    PEOPLE,
    TEXT_APPROVALS,
    position,
)
from entrypoints.http.pages.console.visit import AnyCall, Head, Page, PageVisit
from entrypoints.http.routes.platform.analytics import get_platform_overview
from entrypoints.http.routes.platform.governance import get_platform_organization

# Where each todo is decided, and its words.
_DECIDED_AT: Final = (
    (PlatformTodo.ORGANIZATIONS, "pending", f"{ORGANIZATIONS}?status=pending"),
    (PlatformTodo.APPROVALS, "approvals", APPROVALS),
    (PlatformTodo.TEXTS, "texts", TEXT_APPROVALS),
    (PlatformTodo.JOBS, "dead", JOBS),
)
_ACTIVE: Final = (
    linked(plain("name", "console.field.organization"), lambda one, _path: f"{ORGANIZATIONS}/{one.id}", get_platform_organization),
    number("logins", "console.entry.sign_ins"),
    number("failures", "console.overview.failed"),
)


async def _show_overview(call: AnyCall, postern: Postern) -> Page:
    visit = PageVisit(call, postern)
    figures = await visit.ask(get_platform_overview)
    growth = await postern.platform.analytics.growth()
    by_day, failures, active = await postern.platform.analytics.of_installation()
    todos = call.request.frame.todos
    waiting = (
        *((todos.get(todo, 0), name, where) for todo, name, where in _DECIDED_AT),
        (int(await steps_left(postern)), "steps", FIRST_STEPS),
    )
    shown = (
        ("organizations", figures.total_organizations, ORGANIZATIONS),
        ("people", figures.total_users, PEOPLE),
        ("applications", figures.total_services, ""),
        ("sign_ins_month", figures.logins_30d, ""),
    )
    page = visit.show(
        "platform/overview/overview.html",
        position(OVERVIEW_ENTRY, OVERVIEW_TAB),
        Head(title=visit.text("console.installation_at_a_glance.title"), curl=visit.curl(get_platform_overview)),
        figures=[(visit.text(f"console.installation_at_a_glance.{name}"), value, where) for name, value, where in shown],
        waiting=[(visit.text(f"console.installation_at_a_glance.{name}", count=count), where) for count, name, where in waiting if count],
        chart=chart_of_days(visit, {one.day: one.logins for one in by_day}, {one.day: one.logins for one in failures.days}, failures.since)
        if by_day or failures.days
        else None,
        growth=[
            (visit.text(f"console.installation_at_a_glance.{name}"), chart)
            for name, total, came in (
                ("organizations", figures.total_organizations, growth.organizations),
                ("people", figures.total_users, growth.people),
            )
            if (chart := chart_of_growth(visit, total, came, growth.since)) is not None
        ],
        columns=_ACTIVE,
        rows=rows_of(_ACTIVE, active, visit.text, visit.path),
        health=HEALTH,
        organizations=ORGANIZATIONS,
    )
    return Answer(page, 200)


PAGES: Final = (console.get(HOME, of=get_platform_overview)(stated(_show_overview, "show_installation", HOME)),)
