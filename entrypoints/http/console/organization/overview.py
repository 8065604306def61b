"""The overview of an organization: what waits for a decision, what ends soon, people, applications, and sign-ins of thirty days."""

from collections.abc import Mapping, Sequence
from datetime import date
from typing import Any, Final

from core.domain.identity.profiles import Portrait
from core.domain.platform.todos import ExpiryKind, Todo
from core.domain.tenancy.members import Member
from entrypoints.bootstrap import Postern
from entrypoints.http.console.kit.cells import Column, Tone, linked, mark_of, plain, state, when, words
from entrypoints.http.console.kit.charts import LineChart, chart_of_days
from entrypoints.http.console.kit.declaring import console
from entrypoints.http.console.kit.navigation import address
from entrypoints.http.console.kit.resource_pages import pages
from entrypoints.http.console.kit.resources import Resource
from entrypoints.http.console.kit.visit import DoneLink, Head, Page, PageVisit
from entrypoints.http.console.organization import applications
from entrypoints.http.console.organization.organization_tabs import (
    APIS,
    APPLICATIONS,
    AUDIT_LOG,
    DIRECTORIES,
    EVENTS,
    EXPIRIES,
    EXPIRIES_TAB,
    HOME,
    KEYS,
    LOOKS_TAB,
    OVERVIEW_ENTRY,
    OVERVIEW_TAB,
    PEOPLE,
    SETTINGS,
    SETUP_LINKS,
    SIGN_INS,
    TEXTS,
    position,
)
from entrypoints.http.machinery.answers import Answer
from entrypoints.http.machinery.calls import Call
from entrypoints.http.machinery.fields import OrganizationPath
from entrypoints.http.routes.platform.sign_ins import FailedLogins, LoginTrend, get_failed_logins, list_login_trends
from entrypoints.http.routes.platform.todos import list_expiries, list_todos
from entrypoints.http.routes.services.services import create_service, list_services
from entrypoints.http.routes.tenancy.branding import change_branding
from entrypoints.http.routes.tenancy.joining import create_invitation
from entrypoints.http.routes.tenancy.members import list_members
from entrypoints.http.routes.tenancy.organizations import OwnOrganization, get_organization

OVERVIEW: Final = position(OVERVIEW_ENTRY, OVERVIEW_TAB)
_FEW: Final = 8
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
    Todo.OFFBOARDING: f"{AUDIT_LOG}?action=offboarding.late",
    Todo.SETUP_LINKS: SETUP_LINKS,
    Todo.TEXTS: f"{TEXTS}/outdated",
    Todo.KEYS: EXPIRIES,
}


@console.get(HOME, of=get_organization, also=(list_todos, list_login_trends, get_failed_logins, list_services))
async def show_overview_of_organization(call: Call[None, DoneLink, OrganizationPath, Member], postern: Postern) -> Page:
    """See what waits for a decision in an organization, and its figures"""
    visit = PageVisit(call, postern)
    found = await visit.ask(get_organization)
    is_active = call.caller.organization_is_active
    decides = is_active and visit.may(list_todos)
    trends = await visit.ask(list_login_trends) if is_active else ()
    failed = await visit.ask(get_failed_logins) if is_active else None
    page = visit.show(
        "organization/overview.html",
        OVERVIEW,
        Head(title=visit.text("console.overview.title"), curl=visit.curl(get_organization), done=call.query.done),
        found=found,
        is_active=is_active,
        decides=decides,
        # The frame has asked already.
        todos=[(todo.value, count, visit.here(_DECIDED_AT[todo])) for todo, count in call.request.frame.todos.items()],
        beginnings=_beginnings(visit, found) if is_active else (),
        chart=_chart(visit, trends, failed) if failed is not None and (trends or failed.days) else None,
        sign_ins=visit.here(SIGN_INS),
        expiries=visit.here(EXPIRIES) if visit.may(list_expiries) else "",
        figures=[
            (found.member_count, "people", visit.here(PEOPLE) if visit.may(list_members) else ""),
            (found.service_count, "applications", visit.here(APPLICATIONS) if visit.may(list_services) else ""),
            *([(sum(one.count for one in trends), "got_in_lately", visit.here(SIGN_INS))] if failed is not None else ()),
            *(
                [(sum(one.count for one in failed.days), "failed_lately", f"{visit.here(SIGN_INS)}?success=false")]
                if failed is not None
                else ()
            ),
        ],
        named=await _applications(visit, found) if is_active else (),
    )
    return Answer(page, 200)


def _beginnings(visit: PageVisit, found: OwnOrganization) -> Sequence[tuple[str, str, str]]:
    """The first things to do, by their texts, addresses and drawings, until an application is connected."""
    if found.service_count:
        return ()
    first = (
        ("application", _NEW_APPLICATION, "applications", create_service),
        ("invite", _INVITE, "people", create_invitation),
        ("looks", LOOKS_TAB.at, "change", change_branding),
    )
    return [(name, visit.here(where), drawing) for name, where, drawing, of in first if visit.may(of)]


async def _applications(visit: PageVisit, found: OwnOrganization) -> Sequence[tuple[str, str, Portrait]]:
    """The applications by name, while they are few."""
    if not 0 < found.service_count <= _FEW or not visit.may(list_services):
        return ()
    services = (await visit.ask(list_services)).services
    return [
        (one.name, visit.here(f"{APPLICATIONS}/{{service_slug}}", service_slug=one.slug), mark_of(one.name, one.id, one.logo or ""))
        for one in services
    ]


def _chart(visit: PageVisit, trends: Sequence[LoginTrend], failed: FailedLogins) -> LineChart:
    counts, failures = ({date.fromisoformat(one.date): one.count for one in days} for days in (trends, failed.days))
    return chart_of_days(visit, counts, failures, date.fromisoformat(failed.since))


_PLACES: Final[Mapping[ExpiryKind, str]] = {
    ExpiryKind.APPLICATION_CERTIFICATE: applications.SAML_CERTIFICATE,
    ExpiryKind.DIRECTORY_CERTIFICATE: f"{DIRECTORIES}/{{id}}",
    ExpiryKind.OWN_CERTIFICATE: f"{DIRECTORIES}/{{id}}",
    ExpiryKind.MANAGEMENT_KEY: f"{KEYS}/{{id}}",
    ExpiryKind.API_KEY: f"{applications.API_KEYS}/{{id}}",
    ExpiryKind.SCIM_TOKEN: f"{DIRECTORIES}/scim/{{id}}",
    ExpiryKind.DOMAIN: f"{DIRECTORIES}/domains/{{id}}",
    ExpiryKind.OWN_DOMAIN: f"{SETTINGS}/domain",
    ExpiryKind.API_HOST: f"{APIS}/{{id}}",
}
_STATES: Final = {
    "unproved": ("console.state.unproved", Tone.BAD),
    "succeeded": ("console.state.has_successor", Tone.GOOD),
    "ends": ("console.state.ends", Tone.WARN),
}


def _place(one: Any, path: Mapping[str, str]) -> str:
    return address(_PLACES[one.kind], {**path, "id": str(one.id), "service_slug": one.service_slug or ""})


def _state(one: Any) -> str:
    if one.ends_at is None:
        return "unproved"
    return "succeeded" if one.has_successor else "ends"


NAMED_EXPIRIES: Final = plain("name")
OF_EACH: Final[tuple[Column, ...]] = (
    words("kind", ExpiryKind, "console.field.kind"),
    state(_state, _STATES),
    when("last_used_at"),
    when("ends_at", "console.field.expires_at"),
)
_APPLICATION: Final = linked(
    plain("service_slug", "console.field.application"),
    lambda one, path: address(applications.ONE, {**path, "service_slug": one.service_slug}) if one.service_slug else "",
)

EXPIRIES_OF_ORGANIZATION: Final = Resource(
    name="expiries",
    position=position(OVERVIEW_ENTRY, EXPIRIES_TAB),
    at=EXPIRIES,
    listed=list_expiries,
    rows="expiries",
    columns=(linked(NAMED_EXPIRIES, _place), _APPLICATION, *OF_EACH),
    exported=True,
)


PAGES: Final = (show_overview_of_organization, *pages(EXPIRIES_OF_ORGANIZATION))
