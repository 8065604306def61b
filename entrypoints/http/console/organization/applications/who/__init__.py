"""Who can open an application, and what a person can open: the same verdicts with their reasons, by the application and by the person."""

from collections.abc import Sequence
from typing import Any, Final, NamedTuple
from uuid import UUID

import msgspec

from core.domain.federation.token_preview import SignInRule
from core.domain.identity.profiles import Portrait
from entrypoints.bootstrap import Postern
from entrypoints.http.console.kit.cells import Tone, mark_of
from entrypoints.http.console.kit.declaring import console, stated
from entrypoints.http.console.kit.visit import AnyCall, Head, Page, PageVisit
from entrypoints.http.console.organization import applications
from entrypoints.http.console.organization.applications.claims import verdict_of
from entrypoints.http.console.organization.organization_tabs import PEOPLE
from entrypoints.http.console.organization.people.members import person_of
from entrypoints.http.machinery.answers import Answer
from entrypoints.http.machinery.calls import Call
from entrypoints.http.machinery.fields import ServicePath
from entrypoints.http.routes.federation.token_preview import list_service_access, list_sign_in_verdicts
from entrypoints.http.routes.services.end_users import get_end_user
from entrypoints.http.routes.tenancy.members import get_member

AT: Final = f"{applications.ONE}/who"
OPENS: Final = f"{PEOPLE}/users/{{user_id}}/opens"


class ShownAccess(NamedTuple):
    """A line of either page: a person, or an application."""

    called: str
    at: str
    mark: Portrait
    state: tuple[str, Tone]
    rule: str
    held: Sequence[tuple[str, str]]
    """What the person holds: its kind, and the names."""
    outside: str


class NextLink(msgspec.Struct, frozen=True):
    after: UUID | None = None


@console.get(AT, of=list_service_access, needs=(get_end_user,), also=(get_member,))
async def show_who(call: Call[None, NextLink, ServicePath, Any], postern: Postern) -> Page:
    """Show who can open an application, and why."""
    visit, after = PageVisit(call, postern), call.query.after
    found = await visit.ask(list_service_access, query={} if after is None else {"after": str(after)})
    head = Head(
        title=visit.text("console.who.title", application=visit.named(applications.ONE)),
        crumbs=applications.above(visit),
        curl=visit.curl(list_service_access),
    )
    page = visit.show(
        "organization/applications/who/who.html",
        applications.ACCESS_POSITION,
        head,
        explained=visit.text("console.who.explained"),
        anyone=visit.text("console.who.anyone") if any(one.sign_in.rule is SignInRule.ANYONE for one in found.people) else "",
        empty=(visit.text("console.who.nobody_title"), visit.text("console.who.nobody_text")),
        lines=[
            _line(visit, one, one.email, visit.here(f"{PEOPLE}/users/{{user_id}}", user_id=one.user_id), one.user_id)
            for one in found.people
        ],
        at=visit.here(AT),
        older={"after": str(found.next)} if found.next is not None else None,
    )
    return Answer(page, 200)


async def _show_opens(call: AnyCall, postern: Postern) -> Page:
    """Show what a person can open, and why."""
    visit = PageVisit(call, postern)
    found = await visit.ask(list_sign_in_verdicts)
    resource, person = await person_of(visit)
    called = str(resource.call(visit, person))
    head = Head(
        title=visit.text("console.who.opens", person=called),
        crumbs=(*resource.above(visit), (called, visit.here(resource.one))),
        curl=visit.curl(list_sign_in_verdicts),
    )
    page = visit.show(
        "organization/applications/who/who.html",
        resource.position,
        head,
        explained="",
        anyone="",
        empty=(visit.text("console.who.nobody_title"), visit.text("console.who.nobody_text")),
        lines=[_line(visit, one, one.name, visit.here(applications.ONE, service_slug=one.slug), one.service_id) for one in found.services],
        at=visit.here(OPENS),
        older=None,
    )
    return Answer(page, 200)


show_opens: Final = console.get(OPENS, of=list_sign_in_verdicts, needs=(get_end_user,), also=(get_member,))(
    stated(_show_opens, "show_opens", OPENS)
)


def _line(visit: PageVisit, one: Any, name: str, at: str, known_by: UUID) -> ShownAccess:
    may, rule, tone = verdict_of(visit, one)
    held = [
        (visit.text(f"console.who.{kind}"), ", ".join(names))
        for kind, names in (("roles", one.held.roles), ("teams", one.held.teams), ("plan", (one.held.plan,)))
        if any(names)
    ]
    outside = visit.text("console.who.outside") if one.sign_in.outside_unknown else ""
    return ShownAccess(name, at, mark_of(name, known_by), (may, tone), rule, held, outside)


PAGES: Final = (show_who, show_opens)
