"""The organization's own roles."""

from typing import Final

from core.domain.tenancy.roles import Capability
from entrypoints.http.pages.console.cells import code, copied, plain, when, words
from entrypoints.http.pages.console.forms import Asked, ShortName, shape
from entrypoints.http.pages.console.organization.organization_tabs import PEOPLE, PEOPLE_ENTRY, ROLES_TAB, position
from entrypoints.http.pages.console.organization.people.choices import capabilities
from entrypoints.http.pages.console.resource_pages import pages
from entrypoints.http.pages.console.resources import Ending, Making, Resource, Section
from entrypoints.http.routes.tenancy.roles import change_role, create_role, delete_role, get_role, list_roles

_MAY: Final = Asked("permissions", choices=capabilities, label="console.field.capabilities")

_SLUG: Final = Asked("slug", hint="console.roles.slug_hint", derived=ShortName("name", "role"))

ROLES: Final = Resource(
    name="roles",
    position=position(PEOPLE_ENTRY, ROLES_TAB),
    at=f"{PEOPLE}/roles",
    listed=list_roles,
    columns=(plain("name", beside="description"), code("slug"), when("created_at")),
    parameter="role_id",
    record=get_role,
    facts=(
        code("slug"),
        plain("description"),
        words("permissions", Capability, "console.field.capabilities"),
        copied("id"),
        when("updated_at"),
    ),
    making=Making(shape(create_role, "name", _SLUG, "description", _MAY)),
    sections=(Section("change", shape(change_role, "name", "description", _MAY)),),
    ending=Ending(delete_role),
)

PAGES: Final = pages(ROLES)
