"""Runs of directories by LDAP, as an organization's administrators see them, and an owner's word about those that wait."""

from collections import Counter
from collections.abc import Sequence
from datetime import datetime

from core.domain.errors import Conflict, found
from core.domain.federation.directory_runs.people import PersonInDirectory, RunDirectory, WhyLeftOut, comes_without_scim
from core.domain.federation.directory_runs.runs import (
    COMES_BACK,
    MAY_MORE,
    MOST_PEOPLE_SHOWN,
    MOST_RUNS_SHOWN,
    OWNER,
    STAYS_MEMBER,
    DecidedAbout,
    DirectoryRun,
    NamedAs,
    RunPerson,
    agreed,
    digest_of_ends,
    is_decidable,
    left,
    people_decided,
    require_decidable,
    require_kept_in_step,
    run_agreed,
    run_left,
    run_started,
)
from core.domain.federation.scim.users import ProvisionedFate, ReasonForLeaving, user_joined
from core.domain.identifiers import DirectoryRunId, MembershipId, UpstreamProviderId
from core.domain.record.events import Actor
from core.domain.requests import Page
from core.domain.tenancy.members import Member
from core.domain.tenancy.upstream_providers import UpstreamProvider, require_seen
from core.frozen import Frozen, replace
from core.usecases.federation.scim.enrolment import Enrolment, require_room
from core.usecases.tenancy.rights import require_owner
from core.usecases.tenancy.upstream_providers import NO_SUCH_PROVIDER, held
from ports.federation.directory_runs import DirectoryPeopleStore, DirectoryRunStore
from ports.system import System
from ports.tenancy.connections import UpstreamProviderStore
from ports.unit_of_work import UnitOfWork, UnitOfWorkFactory

_OPEN_TO_OWNERS = frozenset({WhyLeftOut.LISTED_BY_SCIM, WhyLeftOut.MAY_MORE})
_NO_SUCH_RUN = "There is no such run"


class DecidableRun(Frozen, kw_only=True):
    """A run with whom it names, and those about whom an owner may decide, each with the digest of names and what happens."""

    run: DirectoryRun
    people: Sequence[RunPerson]
    taken_over: Sequence[RunPerson] = ()
    """SCIM lists them, and nothing else keeps this directory from it."""
    privileged: Sequence[RunPerson] = ()
    """The directory names them no more, and they may do more than a member."""


class ListedRuns(Frozen):
    runs: Sequence[DirectoryRun]
    next_at: datetime | None
    """None when none is planned."""


class DirectoryRuns(Frozen):
    unit_of_work: UnitOfWorkFactory
    lookup: DirectoryRunStore
    people: DirectoryPeopleStore
    providers: UpstreamProviderStore
    system: System

    async def list(self, member: Member, provider: UpstreamProviderId) -> ListedRuns:
        """Newest first. Raises `NotFound`."""
        await self._found(member, provider)
        runs = await self.lookup.list(member.organization, provider, MOST_RUNS_SHOWN)
        return ListedRuns(runs, await self.lookup.next_at(member.organization, provider))

    async def get(self, member: Member, provider: UpstreamProviderId, run: DirectoryRunId) -> DecidableRun:
        """Raises `NotFound`."""
        one = found(await self.lookup.find(member.organization, provider, run), _NO_SUCH_RUN)
        shown = await self.lookup.people(one.id, None, Page(limit=MOST_PEOPLE_SHOWN))
        if _OPEN_TO_OWNERS.isdisjoint(one.counts.reasons):
            return DecidableRun(run=one, people=shown)
        newest = await self.lookup.list(member.organization, provider, MOST_RUNS_SHOWN)
        if not is_decidable(one, newest, self.system.clock.now()):
            return DecidableRun(run=one, people=shown)
        return DecidableRun(
            run=one,
            people=shown,
            taken_over=await self._taken_over(self.lookup, self.people, one) if WhyLeftOut.LISTED_BY_SCIM in one.counts.reasons else (),
            privileged=await self._privileged(self.lookup, self.people, one) if WhyLeftOut.MAY_MORE in one.counts.reasons else (),
        )

    async def list_people(
        self, member: Member, provider: UpstreamProviderId, run: DirectoryRunId, what: NamedAs | None, page: Page
    ) -> Sequence[RunPerson]:
        """Whom a run names, page by page. Raises `NotFound`."""
        one = found(await self.lookup.find(member.organization, provider, run), _NO_SUCH_RUN)
        return await self.lookup.people(one.id, what, page)

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

    async def take_over(self, member: Member, provider: UpstreamProviderId, run: DirectoryRunId, actor: Actor, *, seen: str) -> int:
        """The connection lists those whom the run has left out because SCIM lists them, as the owner has seen it. SCIM's word about them
        counts no more. Returns how many. Raises the errors of `go_on`, and `TeamLimitExceeded`.
        """
        now = self.system.clock.now()
        async with self.unit_of_work() as uow:
            connection, of = await self._decidable(uow, member, provider, run, now)
            left_out = await uow.directory_runs.open(of.id, WhyLeftOut.LISTED_BY_SCIM)
            await uow.directory_people.lock_people(provider, [_asked(one) for one in left_out])
            people = await self._taken_over(uow.directory_runs, uow.directory_people, of)
            _require_people(people, seen)
            back = {one.user: MembershipId(self.system.ids.new()) for one in people if one.reason == COMES_BACK and one.user is not None}
            capacity = await uow.directory_people.room(member.organization)
            assert capacity is not None  # noqa: S101 - the organization is held
            require_room(capacity, len(back))
            if back:
                await uow.directory_people.enter(member.organization, back, now)
            taken = {one.user: one.external_id for one in people if one.user is not None and one.external_id is not None}
            await uow.directory_people.take_over(member.organization, provider, taken)
            # The next run writes what the directory says of them.
            await uow.directory_runs.start(member.organization, provider, self.system.ids.new(), now)
            directory = RunDirectory(provider, member.organization)
            events = [user_joined(user, ProvisionedFate.ACTIVATED, directory, actor) for user in back]
            await uow.record_all([people_decided(DecidedAbout.TAKEN_OVER, of, connection.name, people, actor), *events])
            await uow.commit()
        return len(people)

    async def keep(self, member: Member, provider: UpstreamProviderId, run: DirectoryRunId, actor: Actor, *, seen: str) -> int:
        """Those who may do more than a member, and whom the directory names no more, are the organization's own members from now on: no
        run names them again. Returns how many. Raises the errors of `go_on`.
        """
        async with self.unit_of_work() as uow:
            connection, of = await self._decidable(uow, member, provider, run, self.system.clock.now())
            people = await self._privileged(uow.directory_runs, uow.directory_people, of)
            _require_people(people, seen)
            await uow.directory_people.keep(provider, [one.user for one in people if one.user is not None])
            await uow.record(people_decided(DecidedAbout.KEPT, of, connection.name, people, actor))
            await uow.commit()
        return len(people)

    async def end(self, member: Member, provider: UpstreamProviderId, run: DirectoryRunId, actor: Actor, *, seen: str) -> int:
        """Ends those of whom `keep` speaks, except owners, as a run ends members. Returns how many. Raises the errors of `go_on`."""
        now = self.system.clock.now()
        async with self.unit_of_work() as uow:
            connection, of = await self._decidable(uow, member, provider, run, now)
            people = await self._privileged(uow.directory_runs, uow.directory_people, of)
            _require_people(people, seen)
            ending = [one for one in people if one.reason != OWNER]
            if not ending:
                raise Conflict("Owners cannot be removed this way: change their role first", words="run_owners")
            users = [one.user for one in ending if one.user is not None]
            held_people = [one for _, one in await uow.provisioned_users.find_all_for_update(member.organization, users)]
            directory = RunDirectory(provider, member.organization)
            enrolment = Enrolment(uow, self.system.ids, directory, actor, now)
            events = await enrolment.leave(held_people, ReasonForLeaving.DEACTIVATED, whatever_they_may=True)
            await uow.directory_people.end_people(provider, users, now)
            await uow.record_all([people_decided(DecidedAbout.ENDED, of, connection.name, ending, actor), *events])
            await uow.commit()
        return len(ending)

    async def _decidable(
        self, uow: UnitOfWork, member: Member, provider: UpstreamProviderId, run: DirectoryRunId, now: datetime
    ) -> tuple[UpstreamProvider, DirectoryRun]:
        connection, of = await self._held(uow, member, provider, run, now)
        require_decidable(of, await uow.directory_runs.list(member.organization, provider, MOST_RUNS_SHOWN), connection, now)
        return connection, of

    async def _taken_over(self, runs: DirectoryRunStore, store: DirectoryPeopleStore, run: DirectoryRun) -> Sequence[RunPerson]:
        """As things are now: whoever has another directory by now, or none, is not among them. Nor is an account to which two entries lead:
        people may write their own address in many directories, and whoever writes another's would get the other's place.
        """
        left_out = await runs.open(run.id, WhyLeftOut.LISTED_BY_SCIM)
        asked = {one.external_id: _asked(one) for one in left_out if one.external_id is not None}
        met = await store.met(run.organization, run.connection, list(asked.values()))
        domains = await store.proved_domains(run.organization)
        led = Counter(account.user for account in met.values())
        return [
            replace(one, reason=STAYS_MEMBER if account.is_member else COMES_BACK)
            for one in left_out
            if one.external_id is not None
            and (account := met.get(one.external_id)) is not None
            and account.user == one.user
            and led[account.user] == 1
            and comes_without_scim(asked[one.external_id], account, domains)
        ]

    async def _privileged(self, runs: DirectoryRunStore, store: DirectoryPeopleStore, run: DirectoryRun) -> Sequence[RunPerson]:
        left_out = await runs.open(run.id, WhyLeftOut.MAY_MORE)
        listed = await store.named(run.connection, [one.external_id for one in left_out if one.external_id is not None])
        return [
            replace(one, reason=OWNER if known.is_owner else MAY_MORE)
            for one in left_out
            if one.external_id is not None
            and (known := listed.get(one.external_id)) is not None
            and known.is_active
            and known.may_more
            and known.user == one.user
        ]

    async def _found(self, member: Member, provider: UpstreamProviderId) -> None:
        listed = await self.providers.list(member.organization)
        found(next((one for one in listed if one.id == provider), None), NO_SUCH_PROVIDER)

    async def _held(
        self, uow: UnitOfWork, member: Member, provider: UpstreamProviderId, run: DirectoryRunId, now: datetime
    ) -> tuple[UpstreamProvider, DirectoryRun]:
        acting, connection = await held(uow, member, provider)
        await require_owner(uow, acting, now)
        return connection, found(await uow.directory_runs.find_run_for_update(member.organization, provider, run), _NO_SUCH_RUN)


def _require_people(people: Sequence[RunPerson], seen: str) -> None:
    """Raises `Conflict` when the owner has seen something else, and when it is about nobody."""
    if not people:
        raise Conflict("The sync run has no people for an owner to review", words="run_nobody")
    require_seen(seen, digest_of_ends(people))


def _asked(one: RunPerson) -> PersonInDirectory:
    """The person as the run has named them, to find the account once more."""
    return PersonInDirectory(
        external_id=one.external_id or b"",
        dn="",
        email=one.named,
        given_name=None,
        family_name=None,
        display_name=None,
        fields={},
        is_disabled=False,
    )
