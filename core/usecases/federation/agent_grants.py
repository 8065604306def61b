"""What the people of an organization's services let its agents do, for the members who look after them: they see it, and may end it."""

from collections.abc import Sequence

from core.domain.errors import BadRequest, NotFound
from core.domain.federation.oauth.agents import AgentGrant, AgentReach, all_grants_ended, grant_ended
from core.domain.identifiers import AgentGrantId, OrganizationId
from core.domain.record.events import Actor
from core.frozen import Frozen, replace
from ports.clock import Clock
from ports.federation.consents import ConsentStore
from ports.unit_of_work import UnitOfWorkFactory


class AgentGrants(Frozen):
    unit_of_work: UnitOfWorkFactory
    lookup: ConsentStore
    clock: Clock

    async def list(self, organization: OrganizationId, reach: AgentReach, before: AgentGrantId | None, limit: int) -> Sequence[AgentGrant]:
        """Those that stand, the newest first, from before this one on."""
        return await self.lookup.list_grants(organization, reach, before, limit)

    async def get(self, organization: OrganizationId, grant: AgentGrantId) -> AgentGrant:
        """Raises `NotFound` for a grant that has ended, or of another organization."""
        found = await self.lookup.find_grant(organization, grant)
        if found is None:
            raise _unknown()
        return found

    async def end(self, organization: OrganizationId, grant: AgentGrantId, actor: Actor) -> None:
        """The agent can do nothing there for the person from its next request on, and has to ask them again. Raises `NotFound`."""
        found = await self.get(organization, grant)
        async with self.unit_of_work() as uow:
            await uow.accounts.hold(found.user)
            if await uow.consents.revoke_resource(found.user, found.service, found.resource) is None:
                raise _unknown()
            await uow.record(grant_ended(found, organization, actor))
            await uow.commit()

    async def end_all(self, organization: OrganizationId, service_slug: str, actor: Actor) -> None:
        """The agent can do nothing for anybody from its next request on, and has to ask everybody again. One row says so, however many
        people have let it in. Raises `NotFound`, and `BadRequest` for a service that is no agent.
        """
        async with self.unit_of_work() as uow:
            service = await uow.services.hold(organization, service_slug)
            if service is None:
                raise NotFound("There is no such service", words="service_unknown")
            if not service.is_agent:
                raise BadRequest("This service is no agent", words="no_agent")
            await uow.services.save(replace(service, agent_since=self.clock.now()))
            await uow.record(all_grants_ended(service.id, organization, replace(actor, agent=service.client_id)))
            await uow.commit()


def _unknown() -> NotFound:
    return NotFound("There is no such grant", words="agent_grant_unknown")
