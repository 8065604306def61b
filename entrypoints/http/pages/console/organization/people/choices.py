"""The choices of forms about people, and the members whom such forms name."""

from collections.abc import Sequence
from typing import Final
from uuid import UUID

from core.domain.tenancy.roles import BuiltInRole, Capability
from entrypoints.http.pages.console.cells import in_words
from entrypoints.http.pages.console.forms import Choice
from entrypoints.http.pages.console.visit import PageVisit
from entrypoints.http.routes.tenancy.members import list_members
from entrypoints.http.routes.tenancy.roles import list_roles

_SUGGESTED: Final = 100
_OFFERED: Final = 10
_BUILT_IN: Final = (BuiltInRole.MEMBER, BuiltInRole.ADMIN)


async def roles(visit: PageVisit) -> Sequence[Choice]:
    """The roles that a member can have. Nobody is made the owner; the ownership is transferred."""
    own = [Choice(role.slug, role.name, role.description) for role in await visit.ask(list_roles)]
    return [*(Choice(role.value, visit.text(f"roles.{role.value}")) for role in _BUILT_IN), *own]


async def capabilities(visit: PageVisit) -> Sequence[Choice]:
    return [Choice(one.value, in_words("capabilities", one, visit.text), one.value) for one in Capability]


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
