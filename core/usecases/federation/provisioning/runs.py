"""Runs of connections outwards, and the people whom a connection has sent: as members who manage integrations see them, and an owner's word
about the runs that wait.
"""

from collections.abc import Sequence

from core.domain.errors import Conflict, NotFound, found
from core.domain.federation.provisioning.people import PlaceThere
from core.domain.federation.provisioning.runs import (
    MOST_RUNS_SHOWN,
    ProvisioningRun,
    ProvisioningRunPerson,
    ProvisioningWork,
    agreed_there,
    left_there,
    provisioning_event,
    run_facts,
)
from core.domain.identifiers import ProvisioningRunId, UserId
from core.domain.record.events import Actor
from core.domain.tenancy.members import Member
from core.frozen import Frozen
from core.usecases.tenancy.rights import find_members_for_update, require_owner
from ports.federation.provisioning_runs import ListedThere, ProvisionedPeopleStore, ProvisioningRunStore, RemoteExchange
from ports.system import System
from ports.unit_of_work import UnitOfWork, UnitOfWorkFactory

_NO_SUCH_CONNECTION = "The application has no connection outwards"
_NO_SUCH_RUN = "There is no such run"
_NOWHERE = "No connection of the organization has met this person"
_NO_SUCH_PERSON = "The connection has not sent this person"


class ProvisioningRuns(Frozen):
    unit_of_work: UnitOfWorkFactory
    lookup: ProvisioningRunStore
    people_there: ProvisionedPeopleStore
    system: System

    async def list(self, member: Member, service_slug: str) -> Sequence[ProvisioningRun]:
        """Newest first. Raises `NotFound`."""
        found(await self.lookup.work(member.organization, service_slug), _NO_SUCH_CONNECTION)
        return await self.lookup.list(member.organization, service_slug, MOST_RUNS_SHOWN)

    async def get(self, member: Member, service_slug: str, run: ProvisioningRunId) -> ProvisioningRun:
        """Raises `NotFound`."""
        return found(await self.lookup.find(member.organization, service_slug, run), _NO_SUCH_RUN)

    async def list_people(
        self, member: Member, service_slug: str, run: ProvisioningRunId, *, what: str | None, after: int | None, limit: int
    ) -> Sequence[ProvisioningRunPerson]:
        """Whom a run names, page by page. Raises `NotFound`."""
        one = await self.get(member, service_slug, run)
        return await self.lookup.people(one.id, what, after, limit)

    async def start(self, member: Member, service_slug: str, actor: Actor) -> None:
        """Lets a look at everybody begin within a minute. May be repeated. Raises `NotFound`, and `Conflict` for a connection that is not
        active.
        """
        async with self.unit_of_work() as uow:
            await find_members_for_update(uow, member)
            work = found(await uow.provisioning_runs.work(member.organization, service_slug), _NO_SUCH_CONNECTION)
            if not await uow.provisioning_runs.start(member.organization, service_slug, self.system.clock.now()):
                raise Conflict("The connection is not active: an owner must activate it first", words="provisioning_inactive")
            await uow.record(provisioning_event("service.provisioning.run.started", work, {}, actor))
            await uow.commit()

    async def go_on(
        self, member: Member, service_slug: str, run: ProvisioningRunId, actor: Actor, *, seen: str, adopts: bool
    ) -> ProvisioningRun:
        """Lets a run do what it would do, as the owner has seen it. `adopts`: those who may be adopted take the accounts over. Raises
        `NotFound`, `Forbidden` for anybody but an owner, `BadRequest`, and `Conflict` when it is not what the owner has seen.
        """
        now = self.system.clock.now()
        async with self.unit_of_work() as uow:
            work, before = await self._held(uow, member, service_slug, run)
            after = agreed_there(before, work, seen, now, adopts=adopts)
            if not await uow.provisioning_runs.decide(after, now):
                raise Conflict("The sync run does not require approval", words="run_not_waiting")
            await uow.record(provisioning_event("service.provisioning.run.agreed", work, run_facts(after), actor))
            await uow.commit()
        return after

    async def leave(self, member: Member, service_slug: str, run: ProvisioningRunId, actor: Actor) -> ProvisioningRun:
        """Lets a run do nothing. Raises `NotFound`, `Forbidden` for anybody but an owner, and `Conflict`."""
        async with self.unit_of_work() as uow:
            work, before = await self._held(uow, member, service_slug, run)
            after = left_there(before)
            if not await uow.provisioning_runs.decide(after, self.system.clock.now()):
                raise Conflict("The sync run does not require approval", words="run_not_waiting")
            await uow.record(provisioning_event("service.provisioning.run.left", work, run_facts(after), actor))
            await uow.commit()
        return after

    async def people(
        self, member: Member, service_slug: str, place: PlaceThere | None, *, after: UserId | None, limit: int
    ) -> Sequence[ListedThere]:
        """Raises `NotFound`."""
        found(await self.lookup.work(member.organization, service_slug), _NO_SUCH_CONNECTION)
        return await self.people_there.list(member.organization, service_slug, place, after, limit)

    async def of_person(self, member: Member, user: UserId) -> Sequence[ListedThere]:
        """In which systems a person is, for the person's page. Raises `NotFound` for somebody whom no connection has met."""
        if places := await self.people_there.of_person(member.organization, user):
            return places
        raise NotFound(_NOWHERE)

    async def try_again(self, member: Member, service_slug: str, user: UserId, actor: Actor) -> None:
        """Looks at a person again within a minute. Raises `NotFound`."""
        async with self.unit_of_work() as uow:
            await find_members_for_update(uow, member)
            work = found(await uow.provisioning_runs.work(member.organization, service_slug), _NO_SUCH_CONNECTION)
            if not await uow.provisioned_people.mark(member.organization, service_slug, user, self.system.clock.now()):
                raise NotFound(_NO_SUCH_PERSON)
            await uow.record(provisioning_event("service.provisioning.person.tried_again", work, {"user_id": str(user)}, actor))
            await uow.commit()

    async def exchanges(self, member: Member, service_slug: str) -> Sequence[RemoteExchange]:
        """Newest first. Raises `NotFound`."""
        found(await self.lookup.work(member.organization, service_slug), _NO_SUCH_CONNECTION)
        return await self.lookup.exchanges(member.organization, service_slug)

    async def _held(
        self, uow: UnitOfWork, member: Member, service_slug: str, run: ProvisioningRunId
    ) -> tuple[ProvisioningWork, ProvisioningRun]:
        acting, _ = await find_members_for_update(uow, member)
        await require_owner(uow, acting, self.system.clock.now())
        work = found(await uow.provisioning_runs.find_work_for_update(member.organization, service_slug), _NO_SUCH_CONNECTION)
        return work, found(await uow.provisioning_runs.find(member.organization, service_slug, run), _NO_SUCH_RUN)
