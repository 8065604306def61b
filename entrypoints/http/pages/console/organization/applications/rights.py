"""What people may do in an application: its roles, its permissions, and to whom the roles are assigned."""

from collections.abc import Sequence
from operator import attrgetter
from typing import Any, Final

from entrypoints.http.pages.console.cells import Tone, code, copied, listed, plain, role_in_words, sentence, state, when, yes_or_no
from entrypoints.http.pages.console.forms import Asked, Choice, ShortName, shape
from entrypoints.http.pages.console.organization.applications import application_tabs
from entrypoints.http.pages.console.resource_pages import pages
from entrypoints.http.pages.console.resources import Ending, Filter, Making, Resource, Section
from entrypoints.http.pages.console.visit import ButtonLink, PageVisit
from entrypoints.http.routes.services.assignments import create_assignment, delete_assignment, list_assignments
from entrypoints.http.routes.services.permissions import (
    change_service_permission,
    create_service_permission,
    delete_service_permission,
    list_service_permissions,
)
from entrypoints.http.routes.services.service_roles import (
    change_service_role,
    create_service_role,
    delete_service_role,
    get_service_role,
    list_service_roles,
)
from ports.texts import Text


async def _permissions(visit: PageVisit) -> Sequence[Choice]:
    return [Choice(one.key, one.key, one.description) for one in await visit.ask(list_service_permissions)]


async def roles(visit: PageVisit) -> Sequence[Choice]:
    return [Choice(one.slug, f"{one.name} ({one.slug})") for one in await visit.ask(list_service_roles)]


_PERMISSIONS: Final = Asked("permissions", choices=_permissions, hint="console.service_roles.permissions_hint")
_EVERYBODY: Final = Asked("given_to_everybody", hint="console.service_roles.everybody_hint")

ROLES: Final = Resource(
    name="service_roles",
    position=application_tabs.ACCESS_POSITION,
    at=application_tabs.ROLES,
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
    crumbs=application_tabs.above,
)

PERMISSIONS: Final = Resource(
    name="service_permissions",
    position=application_tabs.ACCESS_POSITION,
    at=application_tabs.PERMISSIONS,
    listed=list_service_permissions,
    columns=(code("key"), plain("description"), when("created_at")),
    parameter="permission_key",
    key=attrgetter("key"),
    called=attrgetter("key"),
    facts=(copied("key"), plain("description"), when("created_at")),
    making=Making(shape(create_service_permission, Asked("key", hint="console.service_permissions.key_hint"), "description")),
    sections=(Section("change", shape(change_service_permission, "description")),),
    ending=Ending(delete_service_permission),
    crumbs=application_tabs.above,
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
    return ButtonLink(visit.text("console.assignments.new"), visit.here(f"{application_tabs.ASSIGNMENTS}/~new"))


_KIND: Final = state(_kind_of, lambda kind: (f"console.assignments.to_{kind}", Tone.PLAIN), "console.assignments.kind")

ASSIGNMENTS: Final = Resource(
    name="assignments",
    position=application_tabs.ACCESS_POSITION,
    at=application_tabs.ASSIGNMENTS,
    listed=list_assignments,
    rows="assignments",
    columns=(sentence(_whom_in_words, "console.assignments.whom"), _KIND, code("role"), when("created_at")),
    filters=(Filter("role", "console.field.role", roles),),
    parameter="assignment_id",
    called=_whom,
    ending=Ending(delete_assignment),
    crumbs=application_tabs.above,
    main=_new_assignment,
)

PAGES: Final = (*pages(ROLES), *pages(PERMISSIONS), *pages(ASSIGNMENTS))
