"""What the frame of a page says beside the page: the places to change to, and how much of each entry needs a hand.

It is asked before the page, in one statement. Who may not decide is shown no counts.
"""

from core.domain.platform.todos import FrameFacts
from core.domain.tenancy.members import Member
from entrypoints.http.pages.console.visit import PageVisit
from entrypoints.http.routes.platform.todos import list_todos


async def frame_facts(visit: PageVisit) -> FrameFacts:
    caller, frames = visit.call.caller, visit.postern.platform.frames
    if not isinstance(caller, Member):
        return await frames.of_platform_owner(caller)
    return await frames.of_member(caller, decides=caller.organization_is_active and visit.may(list_todos))
