"""The roles and permissions of an application, and giving a role to a person, to a team, or to all with an organization's role."""

from collections.abc import Mapping, Sequence
from operator import attrgetter
from typing import Any, Final
from uuid import UUID

from core.domain.errors import NotFound, ReauthenticationRequired, Refusal
from core.domain.identity.proofs import StepUp
from core.domain.tenancy.roles import BuiltInRole
from entrypoints.bootstrap import Postern
from entrypoints.http.console.kit.cells import Tone, code, copied, listed, plain, role_in_words, sentence, state, when, yes_or_no
from entrypoints.http.console.kit.declaring import console
from entrypoints.http.console.kit.forms import Asked, Choice, ShortName, shape
from entrypoints.http.console.kit.resource_pages import pages
from entrypoints.http.console.kit.resources import Ending, Filter, Making, Resource, Section
from entrypoints.http.console.kit.sent_forms import explained
from entrypoints.http.console.kit.visit import NO_ERRORS, ButtonLink, Head, Page, PageVisit
from entrypoints.http.console.organization import applications
from entrypoints.http.console.organization.applications.claims import named
from entrypoints.http.machinery.answers import Answer, redirect
from entrypoints.http.machinery.browsers import BoundForm, proof_page
from entrypoints.http.machinery.calls import Call
from entrypoints.http.machinery.fields import Line, ServicePath
from entrypoints.http.routes.federation.token_preview import preview_tokens
from entrypoints.http.routes.services.service_roles import (
    NewAssignment,
    change_service_permission,
    change_service_role,
    create_assignment,
    create_service_permission,
    create_service_role,
    delete_assignment,
    delete_service_permission,
    delete_service_role,
    get_service_role,
    list_assignments,
    list_service_permissions,
    list_service_roles,
)
from entrypoints.http.routes.tenancy.roles import list_roles
from entrypoints.http.routes.tenancy.teams import list_teams
from ports.texts import Text


async def _permissions(visit: PageVisit) -> Sequence[Choice]:
    return [Choice(one.key, one.key, one.description) for one in await visit.ask(list_service_permissions)]


async def roles(visit: PageVisit) -> Sequence[Choice]:
    return [Choice(one.slug, f"{one.name} ({one.slug})") for one in await visit.ask(list_service_roles)]


_PERMISSIONS: Final = Asked("permissions", choices=_permissions, hint="console.service_roles.permissions_hint")
_EVERYBODY: Final = Asked("given_to_everybody", hint="console.service_roles.everybody_hint")

ROLES: Final = Resource(
    name="service_roles",
    position=applications.ACCESS_POSITION,
    at=applications.ROLES,
    listed=list_service_roles,
    columns=(plain("name", beside="slug"), plain("description"), listed("permissions"), yes_or_no("given_to_everybody")),
    parameter="role_slug",
    key=attrgetter("slug"),
    record=get_service_role,
    facts=(
        copied("slug"),
        plain("description"),
        listed("permissions"),
        yes_or_no("given_to_everybody"),
        when("created_at"),
        when("updated_at"),
    ),
    making=Making(
        shape(
            create_service_role,
            "name",
            Asked("slug", hint="console.service_roles.slug_hint", derived=ShortName("name", "role")),
            "description",
            _PERMISSIONS,
            _EVERYBODY,
        )
    ),
    sections=(Section("change", shape(change_service_role, "name", "description", _PERMISSIONS, _EVERYBODY)),),
    ending=Ending(delete_service_role),
    crumbs=applications.above,
)

PERMISSIONS: Final = Resource(
    name="service_permissions",
    position=applications.ACCESS_POSITION,
    at=applications.PERMISSIONS,
    listed=list_service_permissions,
    columns=(code("key"), plain("description"), when("created_at")),
    parameter="permission_key",
    key=attrgetter("key"),
    called=attrgetter("key"),
    facts=(copied("key"), plain("description"), when("created_at")),
    making=Making(shape(create_service_permission, Asked("key", hint="console.service_permissions.key_hint"), "description")),
    sections=(Section("change", shape(change_service_permission, "description")),),
    ending=Ending(delete_service_permission),
    crumbs=applications.above,
)


def _whom(assignment: Any) -> str:
    return str(assignment.email or assignment.user_id or assignment.organization_role or assignment.team)


def _whom_in_words(assignment: Any, text: Text) -> str:
    role = assignment.organization_role
    return role_in_words(role, text) if role else _whom(assignment)


def _kind_of(assignment: Any) -> str:
    if assignment.user_id is not None:
        return "person"
    return "team" if assignment.team is not None else "role"


def _new_assignment(visit: PageVisit) -> ButtonLink | None:
    """Assigning is a screen of its own, which finds people by their addresses."""
    if not visit.may(create_assignment):
        return None
    return ButtonLink(visit.text("console.assignments.new"), visit.here(f"{applications.ASSIGNMENTS}/~new"))


_KIND: Final = state(_kind_of, lambda kind: (f"console.assignments.to_{kind}", Tone.PLAIN), "console.assignments.kind")

ASSIGNMENTS: Final = Resource(
    name="assignments",
    position=applications.ACCESS_POSITION,
    at=applications.ASSIGNMENTS,
    listed=list_assignments,
    rows="assignments",
    columns=(sentence(_whom_in_words, "console.assignments.whom"), _KIND, code("role"), when("created_at")),
    filters=(Filter("role", "console.field.role", roles),),
    parameter="assignment_id",
    called=_whom,
    ending=Ending(delete_assignment),
    crumbs=applications.above,
    main=_new_assignment,
)


_AT: Final = f"{applications.ASSIGNMENTS}/~new"
_FIELDS: Final = {"role": "role", "user_id": "person", "organization_role": "organization_role", "team": "team"}


class AssignmentForm(BoundForm, frozen=True, kw_only=True):
    role: Line = ""
    person: Line = ""
    """An address or an id."""
    organization_role: Line = ""
    team: Line = ""


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
    return redirect(f"{visit.here(applications.ASSIGNMENTS)}?done=made")


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
        crumbs=(*applications.above(visit), (visit.text("console.assignments.title"), visit.here(applications.ASSIGNMENTS))),
        curl=visit.curl(create_assignment, body={"role": "editor", "team": "support"}),
        errors=errors,
    )
    return visit.show(
        "organization/applications/assign.html",
        applications.ACCESS_POSITION,
        head,
        action=visit.here(_AT),
        back=visit.here(applications.ASSIGNMENTS),
        form=form,
        roles=await roles(visit),
        new_role=visit.here(f"{applications.ROLES}/~new"),
        organization_roles=[*built_in, *own],
        teams=teams,
    )


PAGES: Final = (*pages(ROLES), *pages(PERMISSIONS), *pages(ASSIGNMENTS), ask_for_assignment, assign)
