"""The organization's own roles, and the choices of roles and members in forms about people."""

from collections.abc import Sequence
from typing import Final
from uuid import UUID

from core.domain.tenancy.roles import BuiltInRole, Capability
from entrypoints.http.console.kit.cells import code, copied, in_words, plain, when, words
from entrypoints.http.console.kit.forms import Asked, Choice, ChoicePreset, ShortName, shape
from entrypoints.http.console.kit.resource_pages import pages
from entrypoints.http.console.kit.resources import Ending, Making, Resource, Section
from entrypoints.http.console.kit.visit import PageVisit
from entrypoints.http.console.organization.organization_tabs import PEOPLE, PEOPLE_ENTRY, ROLES_TAB, position
from entrypoints.http.routes.tenancy.members import list_members
from entrypoints.http.routes.tenancy.roles import change_role, create_role, delete_role, get_role, list_roles

_SUGGESTED: Final = 100
_OFFERED: Final = 10
_BUILT_IN: Final = (BuiltInRole.MEMBER, BuiltInRole.ADMIN)
_ABOUT_PEOPLE: Final = frozenset(
    {Capability.MEMBERS_VIEW, Capability.MEMBERS_MANAGE, Capability.END_USERS_VIEW, Capability.END_USERS_MANAGE}
)


async def roles(visit: PageVisit) -> Sequence[Choice]:
    """The roles that a member can have. Nobody is made the owner; the ownership is transferred."""
    own = [Choice(role.slug, role.name, role.description) for role in await visit.ask(list_roles)]
    return [*(Choice(role.value, visit.text(f"roles.{role.value}")) for role in _BUILT_IN), *own]


async def capabilities(visit: PageVisit) -> Sequence[Choice]:
    return [Choice(one.value, in_words("capabilities", one, visit.text)) for one in Capability]


def capability_presets(visit: PageVisit) -> Sequence[ChoicePreset]:
    """Of what the reader has, since nobody gives more."""
    held = [one for one in Capability if one in visit.capabilities]
    named = (
        ("read", [one for one in held if one.value.endswith(".view")]),
        ("people", [one for one in held if one in _ABOUT_PEOPLE]),
        ("everything", held),
    )
    return [ChoicePreset(name, visit.text(f"console.presets_{name}"), [one.value for one in each]) for name, each in named if each]


async def addresses(visit: PageVisit) -> Sequence[str]:
    """Addresses of members, to complete what somebody types. Everybody else is found as well."""
    found = await visit.ask(list_members, query={"limit": _SUGGESTED})
    return [str(one.user.email) for one in found.members]


async def members_called(visit: PageVisit, person: str) -> Sequence[Choice]:
    """The members whom this address, name or id means. An address or a name that is whole means one, though it is a part of others."""
    if not person:
        return ()
    try:
        user = UUID(person)
    except ValueError:
        pass
    else:
        return (Choice(str(user), person),)
    found = (await visit.ask(list_members, query={"search": person, "limit": _SUGGESTED})).members
    whole = [one for one in found if person.casefold() in {str(one.user.email).casefold(), (one.user.name or "").casefold()}]
    return [Choice(str(one.user.id), one.user.name or str(one.user.email), str(one.user.email)) for one in whole or found[:_OFFERED]]


_MAY: Final = Asked("permissions", choices=capabilities, label="console.field.capabilities", presets=capability_presets)

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
