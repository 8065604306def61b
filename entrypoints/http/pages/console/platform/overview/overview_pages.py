"""The installation at a glance."""

from typing import Final

from core.domain.tenancy.organizations import OrganizationStatus
from entrypoints.bootstrap import Postern
from entrypoints.http.machinery.answers import Answer
from entrypoints.http.pages.account.first_steps import steps_left
from entrypoints.http.pages.console.cells import code, number, plain, rows_of, when
from entrypoints.http.pages.console.declaring import console
from entrypoints.http.pages.console.handlers import stated
from entrypoints.http.pages.console.platform.platform_tabs import HOME, ORGANIZATIONS, OVERVIEW_ENTRY, OVERVIEW_TAB, PEOPLE, position
from entrypoints.http.pages.console.visit import AnyCall, Head, Page, PageVisit
from entrypoints.http.routes.platform.analytics import get_platform_overview

_QUEUES: Final = (code("kind"), number("waiting"), number("dead"), when("oldest_due"))
_PROVIDERS: Final = (
    plain("provider", "console.field.provider"),
    plain("organization", "console.field.organization"),
    when("failed_at"),
)
_PROCESSES: Final = (code("version"), code("host", "console.field.comes_from"), when("since"))
_VERSIONS: Final = (code("version", "console.field.this_version"), code("schema"))


async def _show_overview(call: AnyCall, postern: Postern) -> Page:
    visit = PageVisit(call, postern)
    figures = await visit.ask(get_platform_overview)
    queues = await postern.foundation.jobs.state()
    state = await postern.platform.installation.state()
    shown = (
        ("organizations", figures.total_organizations, ORGANIZATIONS),
        ("people", figures.total_users, PEOPLE),
        ("applications", figures.total_services, ""),
        ("sign_ins_today", figures.logins_today, ""),
        ("sign_ins_week", figures.logins_7d, ""),
        ("sign_ins_month", figures.logins_30d, ""),
    )
    page = visit.show(
        "platform/overview/overview.html",
        position(OVERVIEW_ENTRY, OVERVIEW_TAB),
        Head(title=visit.text("console.installation_at_a_glance.title"), curl=visit.curl(get_platform_overview)),
        figures=[(visit.text(f"console.installation_at_a_glance.{name}"), value, where) for name, value, where in shown],
        pending=figures.organizations_by_status.get(OrganizationStatus.PENDING, 0),
        dead=sum(queue.dead for queue in queues),
        steps_left=await steps_left(postern),
        tables=[
            (
                visit.text(f"console.installation_at_a_glance.{name}"),
                columns,
                rows_of(columns, rows, visit.text, visit.path),
                visit.text(f"console.installation_at_a_glance.no_{name}"),
            )
            for name, columns, rows in (
                ("queues", _QUEUES, queues),
                ("outages", _PROVIDERS, state.providers),
                ("processes", _PROCESSES, state.processes),
            )
        ],
        versions=[
            (visit.text(_VERSIONS[0].label), code(lambda _: postern.foundation.version, "-").cell(state, visit.text, visit.path)),
            (visit.text(_VERSIONS[1].label), _VERSIONS[1].cell(state, visit.text, visit.path)),
        ],
    )
    return Answer(page, 200)


PAGES: Final = (console.get(HOME, of=get_platform_overview)(stated(_show_overview, "show_installation", HOME)),)
