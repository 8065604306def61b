"""What an organization may know of those who use its services, and the one thing that it may do to them."""

from contextlib import nullcontext
from typing import Final

from core.domain.end_users import EndUser, EndUserDetail, is_dear, require_reachable, searched, sessions_in_services_ended
from core.domain.errors import NotFound
from core.domain.events import Actor
from core.domain.identifiers import OrganizationId, ServiceId, UserId
from core.domain.pages import Listed, Page
from ports.end_users import EndUserLookup
from ports.turns import Turns
from ports.unit_of_work import UnitOfWorkFactory


class EndUsers:
    def __init__(self, unit_of_work: UnitOfWorkFactory, lookup: EndUserLookup, turns: Turns) -> None:
        self._unit_of_work = unit_of_work
        self._lookup = lookup
        self._turns = turns

    async def list(
        self, organization: OrganizationId, page: Page, *, search: str = "", service: ServiceId | None = None
    ) -> Listed[EndUser]:
        """The youngest account first. Raises `BadRequest`, also for a page beyond what a search shows; `NotFound` when the organization
        has no such service; `Overloaded` when too many look for something at once.
        """
        wanted = searched(search)
        require_reachable(page, wanted)
        # Every member may ask for what takes long where there are many end users; nobody else is to wait for a connection because of it.
        async with self._turns.take(organization) if is_dear(page, wanted) else nullcontext():
            found = await self._lookup.list(organization, page, search=wanted, service=service)
        if found is None:
            raise NotFound("The organization has no such service")
        return found

    async def get(self, organization: OrganizationId, user: UserId) -> EndUserDetail:
        """Raises `NotFound` when they use none of the organization's services, whoever they are."""
        found = await self._lookup.get(organization, user)
        if found is None:
            raise NotFound(_UNKNOWN)
        return found

    async def end_sessions(self, organization: OrganizationId, user: UserId, actor: Actor) -> int:
        """Sign them out of the organization's services, from the next request on. What they do elsewhere, or as members of the
        organization, is not touched. May be repeated. Raises `NotFound`.
        """
        async with self._unit_of_work() as unit:
            ended = await unit.end_users.end_sessions(organization, user)
            if ended is None:
                raise NotFound(_UNKNOWN)
            if ended:
                await unit.record(sessions_in_services_ended(organization, user, ended, actor))
                await unit.commit()
        return ended


_UNKNOWN: Final = "The organization has no such end user"
