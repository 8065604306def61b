"""The overview of the installation: its figures, its health, what ends soon, what is held back, and background work."""

from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Final

from core.domain.backups import BACKUP_CHECKED
from core.domain.errors import NotFound
from core.domain.identity.registering import BudgetScope
from core.domain.platform.todos import PlatformTodo
from entrypoints import checks
from entrypoints.bootstrap import Postern
from entrypoints.checks import Verdict
from entrypoints.first_start import FIRST_STEPS
from entrypoints.http.console.kit.cells import Tone, code, copied, linked, number, plain, rows_of, when, words
from entrypoints.http.console.kit.charts import NARROW, chart_of_days, chart_of_growth
from entrypoints.http.console.kit.declaring import console, stated
from entrypoints.http.console.kit.forms import Asked, shape
from entrypoints.http.console.kit.navigation import address
from entrypoints.http.console.kit.resource_pages import pages
from entrypoints.http.console.kit.resources import Act, Making, Resource
from entrypoints.http.console.kit.visit import AnyCall, DoneLink, Head, Page, PageVisit, button
from entrypoints.http.console.organization.overview import NAMED_EXPIRIES, OF_EACH
from entrypoints.http.console.platform.platform_tabs import (
    APPROVALS,
    EXPIRIES,
    EXPIRIES_TAB,
    HEALTH,
    HEALTH_TAB,
    HELD_BACK,
    HELD_BACK_TAB,
    HOME,
    JOBS,
    JOBS_TAB,
    KEYS,
    OPERATION_ENTRY,
    ORGANIZATIONS,
    OVERVIEW_ENTRY,
    OVERVIEW_TAB,
    PEOPLE,
    SECURITY_ENTRY,
    SETTINGS,
    SIGNING_KEYS,
    TEXT_APPROVALS,
    position,
)
from entrypoints.http.machinery.answers import Answer, redirect
from entrypoints.http.machinery.browsers import BoundForm
from entrypoints.http.machinery.callers import PLATFORM_OWNER
from entrypoints.http.machinery.limits import CREDENTIALS, PAGE_LOADS
from entrypoints.http.page_addresses import PROVIDERS
from entrypoints.http.pages.account.overview_pages import steps_left
from entrypoints.http.routes.identity.mail_budgets import lift_mail_budget, list_mail_budgets, restore_mail_budget
from entrypoints.http.routes.platform.governance import get_platform_organization
from entrypoints.http.routes.platform.installation import list_dead_jobs, retry_job
from entrypoints.http.routes.platform.sign_ins import get_platform_overview
from entrypoints.http.routes.platform.todos import list_expiries_of_platform

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
        chart=chart_of_days(
            visit,
            {one.day: one.logins for one in by_day},
            {one.day: one.logins for one in failures.days},
            failures.since,
            width=NARROW,
        )
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


def _place(one: Any, _path: Mapping[str, str]) -> str:
    """The page of the thing's organization, since platform owners need not be its members; of a key of the platform, the key's own."""
    if one.organization_id is None:
        return address(f"{KEYS}/{{id}}", {"id": one.id})
    return address(f"{ORGANIZATIONS}/{{id}}", {"id": one.organization_id})


EXPIRIES_OF_PLATFORM: Final = Resource(
    name="expiries",
    position=position(OVERVIEW_ENTRY, EXPIRIES_TAB),
    at=EXPIRIES,
    listed=list_expiries_of_platform,
    rows="expiries",
    columns=(
        linked(NAMED_EXPIRIES, _place),
        linked(plain(lambda one: one.organization_name or one.organization_slug, "console.field.organization"), _place),
        *OF_EACH,
    ),
)


_QUEUES: Final = (code("kind"), number("waiting"), number("dead"), when("oldest_due"))
_PROVIDERS: Final = (
    plain("provider", "console.field.provider"),
    plain("organization", "console.field.organization"),
    when("failed_at"),
)
_PROCESSES: Final = (code("version"), code("host", "console.field.comes_from"), when("since"))
_VERSIONS: Final = (code("version", "console.field.this_version"), code("schema"))
_LAST_PROOF: Final = when(lambda at: at, "console.field.last_verified_backup")
_PROBLEMS: Final[Mapping[Verdict, tuple[str, Tone]]] = {
    Verdict.WARN: ("console.state.attention", Tone.WARN),
    Verdict.SOON: ("console.state.attention", Tone.BAD),
    Verdict.FAIL: ("console.state.broken", Tone.BAD),
}
# The worst first.
_ORDER: Final = (Verdict.FAIL, Verdict.SOON, Verdict.WARN, Verdict.OK)
_THERE: Final[Mapping[str, str]] = {
    **dict.fromkeys(("base URL", "trusted proxies", "rate limits", "mail", "billing", "connections"), SETTINGS),
    "keys": SIGNING_KEYS,
    "SAML certificates": EXPIRIES,
    "jobs": JOBS,
    "providers": PROVIDERS,
}
"""The page that has what a check is about."""


def subject_key(subject: str) -> str:
    """The text key of what a check is about."""
    return f"console.health.subject_{_key(subject)}"


def mend_key(subject: str) -> str:
    """The text key of what mends it."""
    return f"console.health.mend_{_key(subject)}"


def _key(subject: str) -> str:
    return subject.lower().replace(" ", "_")


async def _show_health(call: AnyCall, postern: Postern) -> Page:
    visit = PageVisit(call, postern)
    found = sorted(await checks.of_running(postern), key=lambda one: _ORDER.index(one[1].verdict))
    problems = [
        (
            visit.text(subject_key(subject)),
            visit.text(_PROBLEMS[finding.verdict][0]),
            _PROBLEMS[finding.verdict][1],
            visit.text(mend_key(subject)),
            finding.text.split("`"),
            _THERE.get(subject, ""),
        )
        for subject, finding in found
        if finding.verdict is not Verdict.OK
    ]
    queues = await postern.foundation.jobs.state()
    state = await postern.platform.installation.state()
    proved = await postern.record.audit.last(BACKUP_CHECKED)
    fine = [(visit.text(subject_key(subject)), finding) for subject, finding in found if finding.verdict is Verdict.OK]
    page = visit.show(
        "platform/overview/health.html",
        position(OPERATION_ENTRY, HEALTH_TAB),
        Head(title=visit.text("console.health.title")),
        problems=problems,
        in_order=[(subject, finding.text.split("`")) for subject, finding in fine if finding.is_used],
        tables=[
            (
                visit.text(f"console.installation_at_a_glance.{name}"),
                columns,
                rows_of(columns, rows, visit.text, visit.path),
            )
            for name, columns, rows in (
                ("queues", _QUEUES, queues),
                ("outages", _PROVIDERS, state.providers),
                ("processes", _PROCESSES, state.processes),
            )
            if rows
        ],
        versions=[
            (visit.text(_VERSIONS[0].label), code(lambda _: postern.foundation.version, "-").cell(state, visit.text, visit.path)),
            (visit.text(_VERSIONS[1].label), _VERSIONS[1].cell(state, visit.text, visit.path)),
            (visit.text(_LAST_PROOF.label), _LAST_PROOF.cell(proved, visit.text, visit.path)),
        ],
        unused=[subject for subject, finding in fine if not finding.is_used],
    )
    return Answer(page, 200)


# Each look opens connections to the database and to the mail server.


_COUNTS: Final = (number("size"), number("taken", "console.held_back.used"), number("waiting", "console.held_back.waiting"))
_SINCE: Final = (number("held"), when("held_since"), when("held_at"), when("exempt_until"))

HELD_BACK_TODAY: Final = Resource(
    name="held_back",
    position=position(SECURITY_ENTRY, HELD_BACK_TAB),
    at=HELD_BACK,
    listed=list_mail_budgets,
    columns=(words("budget", BudgetScope), plain("name"), *_SINCE),
    parameter="budget_id",
    called=lambda one: str(one.name or one.budget),
    facts=(words("budget", BudgetScope), copied("key", "console.held_back.key"), *_COUNTS, *_SINCE),
    making=Making(
        shape(
            lift_mail_budget,
            Asked("budget", at_first=BudgetScope.NETWORK),
            Asked("key", label="console.held_back.key", hint="console.held_back.key_hint"),
            Asked("until", label="console.held_back.until", hint="console.held_back.until_hint"),
        )
    ),
    acts=(Act("restore", restore_mail_budget, shows=lambda one: one.exempt_until is not None, leaves=True),),
)


_REVIVED: Final = button("console.jobs.revive")

_REVIVE: Final = f"{JOBS}/{{job_id}}/revive"
_COLUMNS: Final = (code("kind"), plain("last_error"), number("attempts"), when("created_at"), when("died_at"))


async def _show_jobs(call: AnyCall, postern: Postern) -> Page:
    visit = PageVisit(call, postern)
    jobs = (await visit.ask(list_dead_jobs)).jobs
    rows = rows_of(_COLUMNS, jobs, visit.text, visit.path)
    page = visit.show(
        "platform/overview/jobs.html",
        position(OPERATION_ENTRY, JOBS_TAB),
        Head(title=visit.text("console.jobs.title"), curl=visit.curl(list_dead_jobs), done=call.query.done),
        columns=_COLUMNS,
        rows=[(cells, visit.here(_REVIVE, job_id=job.id)) for cells, job in zip(rows, jobs, strict=True)],
    )
    return Answer(page, 200)


async def _revive_job(call: AnyCall, postern: Postern) -> Page:
    visit = PageVisit(call, postern)
    # A job that somebody else has taken up meanwhile, or the same form sent twice, needs nothing more.
    with suppress(NotFound):
        await visit.ask(retry_job)
    return redirect(f"{JOBS}?done={_REVIVED}")


PAGES: Final = (
    console.get(HOME, of=get_platform_overview)(stated(_show_overview, "show_installation", HOME)),
    *pages(EXPIRIES_OF_PLATFORM),
    console.get(HEALTH, of=PLATFORM_OWNER, limit=(PAGE_LOADS, CREDENTIALS))(stated(_show_health, "show_health_of_installation", HEALTH)),
    *pages(HELD_BACK_TODAY),
    console.get(JOBS, of=list_dead_jobs)(stated(_show_jobs, "show_dead_jobs", JOBS, query=DoneLink)),
    console.post(_REVIVE, of=retry_job)(stated(_revive_job, "revive_job", _REVIVE, body=BoundForm)),
)
