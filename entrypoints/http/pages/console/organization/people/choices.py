"""What forms about people choose from."""

from collections.abc import Sequence
from typing import Final

from core.domain.tenancy.roles import BuiltInRole, Capability
from entrypoints.http.pages.console.cells import value_key
from entrypoints.http.pages.console.forms import Choice
from entrypoints.http.pages.console.visit import PageVisit
from entrypoints.http.routes.tenancy.roles import list_roles

_BUILT_IN: Final = (BuiltInRole.MEMBER, BuiltInRole.ADMIN)


async def roles(visit: PageVisit) -> Sequence[Choice]:
    """The roles that a member can have. Nobody is made the owner; the ownership is transferred."""
    own = [Choice(role.slug, role.name, role.description) for role in await visit.ask(list_roles)]
    return [*(Choice(role.value, visit.text(f"roles.{role.value}")) for role in _BUILT_IN), *own]


async def capabilities(visit: PageVisit) -> Sequence[Choice]:
    return [Choice(one.value, visit.text(f"console.value.{value_key(one.value)}"), one.value) for one in Capability]
