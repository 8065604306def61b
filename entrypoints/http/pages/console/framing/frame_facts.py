"""What the frame of a page says beside the page: the places to change to, and how much of each entry needs a hand.

It is asked before the page, in two statements at most: who may not decide is shown no counts.
"""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final

from core.domain.identity.account_summaries import AdministeredOrganization
from core.domain.platform.todos import Todo
from core.domain.tenancy.members import Member
from core.frozen import Frozen
from entrypoints.http.pages.console.visit import PageVisit
from entrypoints.http.routes.platform.todos import list_todos

NOTHING: Final[Mapping[Todo, int]] = MappingProxyType({})


class FrameFacts(Frozen):
    places: Sequence[AdministeredOrganization] = ()
    """The organizations that the person looks after, this one among them. Nobody changes the place in somebody else's name."""
    todos: Mapping[Todo, int] = NOTHING


async def frame_facts(visit: PageVisit) -> FrameFacts:
    caller, postern = visit.call.caller, visit.postern
    todos = NOTHING
    if isinstance(caller, Member) and caller.organization_is_active and visit.may(list_todos):
        todos = await postern.platform.todos.of(caller)
    if visit.person.impersonator is not None:
        return FrameFacts(todos=todos)
    return FrameFacts(places=await postern.identity.account_summaries.administered(visit.person.user), todos=todos)
