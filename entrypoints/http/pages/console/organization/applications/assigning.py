"""Giving a role of an application: to a person, who is found by address, to everybody with a role of the organization, or to a team."""

from collections.abc import Mapping, Sequence
from typing import Any, Final
from uuid import UUID

from core.domain.errors import NotFound, ReauthenticationRequired, Refusal
from core.domain.identity.proofs import StepUp
from core.domain.tenancy.roles import BuiltInRole
from entrypoints.bootstrap import Postern
from entrypoints.http.machinery.answers import Answer, redirect
from entrypoints.http.machinery.browsers import BoundForm, proof_page
from entrypoints.http.machinery.calls import Call
from entrypoints.http.machinery.endpoints import Endpoint
from entrypoints.http.machinery.fields import ServicePath
from entrypoints.http.pages.console.declaring import console
from entrypoints.http.pages.console.forms import Choice
from entrypoints.http.pages.console.organization.applications import application_tabs
from entrypoints.http.pages.console.organization.applications.claims.preview import named
from entrypoints.http.pages.console.organization.applications.rights import roles
from entrypoints.http.pages.console.sent_forms import explained
from entrypoints.http.pages.console.visit import NO_ERRORS, Head, Page, PageVisit
from entrypoints.http.routes.federation.token_preview import preview_tokens
from entrypoints.http.routes.services.assignments import NewAssignment, create_assignment
from entrypoints.http.routes.services.service_roles import list_service_roles
from entrypoints.http.routes.tenancy.roles import list_roles
from entrypoints.http.routes.tenancy.teams import list_teams

_AT: Final = f"{application_tabs.ASSIGNMENTS}/~new"
_FIELDS: Final = {"role": "role", "user_id": "person", "organization_role": "organization_role", "team": "team"}


class AssignmentForm(BoundForm, frozen=True, kw_only=True):
    role: str = ""
    person: str = ""
    """An address or an id."""
    organization_role: str = ""
    team: str = ""


@console.get(_AT, of=create_assignment, also=(list_service_roles, list_roles, list_teams))
async def ask_for_assignment(call: Call[None, None, ServicePath, Any], postern: Postern) -> Page:
    """Ask which role to give, and to whom."""
    return Answer(await _form(PageVisit(call, postern), AssignmentForm()), 200)


@console.post(_AT, of=create_assignment, also=(preview_tokens,))
async def assign(call: Call[AssignmentForm, None, ServicePath, Any], postern: Postern) -> Page:
    """Give a role."""
    visit, form = PageVisit(call, postern), call.body
    given = [one for one in (form.person.strip(), form.organization_role, form.team) if one]
    errors = {}
    if not form.role:
        errors["role"] = visit.text("console.assignments.role_missing")
    if len(given) != 1:
        errors["person"] = visit.text("console.assignments.whom_missing" if not given else "console.assignments.whom_twice")
    if errors:
        return Answer(await _form(visit, form, errors), 400)
    try:
        user = await _user(visit, form.person.strip())
        body = NewAssignment(role=form.role, user_id=user, organization_role=form.organization_role or None, team=form.team or None)
        await visit.ask(create_assignment, body=body)
    except ReauthenticationRequired:
        # Only some assignments ask for a fresh proof. The proof leads back to this page.
        return redirect(proof_page(visit.here(_AT), StepUp.ACCOUNT))
    except NotFound:
        return Answer(await _form(visit, form, {"person": visit.text("console.preview.nobody")}), 404)
    except Refusal as problem:
        said, status = explained(visit, problem)
        field = next((named for name, named in _FIELDS.items() if problem.message.startswith(name)), "")
        return Answer(await _form(visit, form, {field: " ".join(said.values())}), status)
    return redirect(f"{visit.here(application_tabs.ASSIGNMENTS)}?done=made")


async def _user(visit: PageVisit, person: str) -> Any:
    """The id of the person. Raises `NotFound`, also for people without a tie to the application or its organization."""
    if not person:
        return None
    query = named(person)
    return UUID(query["user_id"]) if "user_id" in query else (await visit.ask(preview_tokens, query=query)).user_id


async def _form(visit: PageVisit, form: AssignmentForm, errors: Mapping[str, str] = NO_ERRORS) -> bytes:
    built_in = [Choice(one.value, visit.text(f"roles.{one.value}")) for one in BuiltInRole]
    own = [Choice(one.slug, one.name) for one in await visit.ask(list_roles)]
    teams = [Choice(one.slug, one.name) for one in await visit.ask(list_teams)] if visit.may(list_teams) else []
    head = Head(
        title=visit.text("console.assignments.new"),
        crumbs=(*application_tabs.above(visit), (visit.text("console.assignments.title"), visit.here(application_tabs.ASSIGNMENTS))),
        curl=visit.curl(create_assignment, body={"role": "editor", "team": "support"}),
        errors=errors,
    )
    return visit.show(
        "organization/applications/assign.html",
        application_tabs.ACCESS_POSITION,
        head,
        action=visit.here(_AT),
        back=visit.here(application_tabs.ASSIGNMENTS),
        form=form,
        roles=await roles(visit),
        new_role=visit.here(f"{application_tabs.ROLES}/~new"),
        organization_roles=[*built_in, *own],
        teams=teams,
    )


PAGES: Final[Sequence[Endpoint]] = (ask_for_assignment, assign)
