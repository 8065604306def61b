"""Runs of directories by LDAP, as an organization's administrators see them, and an owner's word about those that wait."""

from collections.abc import Sequence
from datetime import datetime

from core.domain.errors import found
from core.domain.federation.directory_runs.runs import (
    MOST_PEOPLE_SHOWN,
    MOST_RUNS_SHOWN,
    DirectoryRun,
    RunPerson,
    agreed,
    left,
    require_kept_in_step,
    run_agreed,
    run_left,
    run_started,
)
from core.domain.identifiers import DirectoryRunId, UpstreamProviderId
from core.domain.record.events import Actor
from core.domain.tenancy.members import Member
from core.domain.tenancy.upstream_providers import UpstreamProvider
from core.frozen import Frozen
from core.usecases.tenancy.rights import require_owner
from core.usecases.tenancy.upstream_providers import NO_SUCH_PROVIDER, held
from ports.federation.directory_runs import DirectoryRunStore
from ports.system import System
from ports.tenancy.upstream_providers import UpstreamProviderStore
from ports.unit_of_work import UnitOfWork, UnitOfWorkFactory

_NO_SUCH_RUN = "There is no such run"


class ListedRuns(Frozen):
    runs: Sequence[DirectoryRun]
    next_at: datetime | None
    """None when none is planned."""


class DirectoryRuns(Frozen):
    unit_of_work: UnitOfWorkFactory
    lookup: DirectoryRunStore
    providers: UpstreamProviderStore
    system: System

    async def list(self, member: Member, provider: UpstreamProviderId) -> ListedRuns:
        """Newest first. Raises `NotFound`."""
        await self._found(member, provider)
        runs = await self.lookup.list(member.organization, provider, MOST_RUNS_SHOWN)
        return ListedRuns(runs, await self.lookup.next_at(member.organization, provider))

    async def get(self, member: Member, provider: UpstreamProviderId, run: DirectoryRunId) -> tuple[DirectoryRun, Sequence[RunPerson]]:
        """Raises `NotFound`."""
        one = found(await self.lookup.find(member.organization, provider, run), _NO_SUCH_RUN)
        return one, await self.lookup.people(one.id, MOST_PEOPLE_SHOWN)

    async def start(self, member: Member, provider: UpstreamProviderId, actor: Actor) -> None:
        """Lets a run of everybody begin as soon as an actor finds it. May be repeated. Raises `NotFound` and `BadRequest`."""
        async with self.unit_of_work() as uow:
            _, connection = await held(uow, member, provider)
            require_kept_in_step(connection)
            await uow.directory_runs.start(member.organization, provider, self.system.ids.new(), self.system.clock.now())
            await uow.record(run_started(connection, actor))
            await uow.commit()

    async def go_on(self, member: Member, provider: UpstreamProviderId, run: DirectoryRunId, actor: Actor, *, seen: str) -> DirectoryRun:
        """Lets a run do what it would do, as the owner has seen it. Raises `NotFound`, `Forbidden` for anybody but an owner, `BadRequest`,
        and `Conflict` when it is not what the owner has seen.
        """
        now = self.system.clock.now()
        async with self.unit_of_work() as uow:
            connection, before = await self._held(uow, member, provider, run, now)
            require_kept_in_step(connection)
            after = agreed(before, connection, seen, now)
            await uow.directory_runs.decide(after, starts_at=now)
            await uow.record(run_agreed(after, connection.name, actor))
            await uow.commit()
        return after

    async def leave(self, member: Member, provider: UpstreamProviderId, run: DirectoryRunId, actor: Actor) -> DirectoryRun:
        """Lets a run do nothing. Raises `NotFound`, `Forbidden` for anybody but an owner, and `Conflict`."""
        async with self.unit_of_work() as uow:
            connection, before = await self._held(uow, member, provider, run, self.system.clock.now())
            after = left(before)
            await uow.directory_runs.decide(after, starts_at=None)
            await uow.record(run_left(after, connection.name, actor))
            await uow.commit()
        return after

    async def _found(self, member: Member, provider: UpstreamProviderId) -> None:
        listed = await self.providers.list(member.organization)
        found(next((one for one in listed if one.id == provider), None), NO_SUCH_PROVIDER)

    async def _held(
        self, uow: UnitOfWork, member: Member, provider: UpstreamProviderId, run: DirectoryRunId, now: datetime
    ) -> tuple[UpstreamProvider, DirectoryRun]:
        acting, connection = await held(uow, member, provider)
        await require_owner(uow, acting, now)
        return connection, found(await uow.directory_runs.hold_decision(member.organization, provider, run), _NO_SUCH_RUN)
