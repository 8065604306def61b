"""Syncs organizations with their LDAP directories."""

from collections.abc import Collection, Mapping, Sequence
from datetime import timedelta
from typing import Final

import structlog

from core.domain.errors import BadRequest
from core.domain.federation.directory_runs.people import (
    PersonFate,
    PersonInDirectory,
    ReasonForEnd,
    RunDirectory,
    WhyLeftOut,
    decided_together,
    external_id,
    is_unchanged,
    named_person,
    run_attributes,
)
from core.domain.federation.directory_runs.runs import (
    AGAIN_AFTER_FAULT,
    LEASE,
    PLAN_LASTS,
    STOP_WINDOW,
    DirectoryRun,
    DirectoryStep,
    NamedAs,
    RunKind,
    RunPerson,
    RunState,
    RunTally,
    begun,
    coming_by,
    digest_of_ends,
    end_of,
    must_stop,
    parts,
    run_failed,
    run_stopped,
)
from core.domain.identifiers import DirectoryRunId
from core.domain.identity.upstream.directories import ConnectedDirectory
from core.domain.identity.upstream.ldap.answers import LdapFailed, LdapSite
from core.domain.identity.upstream.ldap.settings import LdapSettings
from core.domain.identity.upstream.ldap.surveys import MODIFIED, LdapMarks, LdapPerson, later_marks, words_of
from core.domain.tenancy.upstream_providers import UpstreamProvider
from core.frozen import Frozen, replace
from core.usecases.federation.directory_runs.applying import RunChanges, RunTeams, TakenOver
from core.usecases.tenancy.connections.trials import DirectorySurveys
from core.usecases.tenancy.ownerships import tell_owners
from ports.federation.directory_runs import DirectoryPeopleStore, DirectoryRunStore
from ports.identity.accounts import EmailSyntax
from ports.identity.upstream import ConnectionLookup, LdapReading
from ports.mail import MailTemplates
from ports.metrics import Metrics
from ports.system import System
from ports.unit_of_work import UnitOfWork, UnitOfWorkFactory

log = structlog.get_logger()

_MOST_AT_ONCE: Final = 200
_TOO_MANY: Final = "too_many"
_FIRST: Final = "first"


class DirectoryKeeping(Frozen):
    """Reads the directory, decides about each user, and writes in small transactions. A run that was killed leaves nothing half: the next
    one finds what is left to do by comparing.
    """

    unit_of_work: UnitOfWorkFactory
    runs: DirectoryRunStore
    people: DirectoryPeopleStore
    lookup: ConnectionLookup
    surveys: DirectorySurveys
    reading: LdapReading
    changes: RunChanges
    teams: RunTeams
    syntax: EmailSyntax
    templates: MailTemplates
    metrics: Metrics
    system: System
    base_url: str

    async def claim_due(self, limit: int) -> Sequence[DirectoryStep]:
        now = self.system.clock.now()
        return await self.runs.claim_due(now, now + LEASE, self.system.ids.new(), limit)

    async def run(self, step: DirectoryStep) -> None:
        """One run of one connection. Raises `Overloaded` and `Unavailable`: then another begins when the lease ends."""
        directory = await self.lookup.directory(step.connection)
        async with self.unit_of_work() as uow:
            is_held = await uow.directory_runs.hold_step(step, self.system.clock.now() + LEASE)
            provider = await uow.upstream_providers.hold(step.organization, step.connection)
            if not is_held or provider is None or directory is None or directory.ldap is None:
                return
            run = begun(step, DirectoryRunId(self.system.ids.new()), provider.digest, self.system.clock.now())
            await uow.directory_runs.begin(run)
            await uow.commit()
        try:
            await _Run(self, step, run, directory, directory.ldap).carry_out()
        except TakenOver:
            log.info("directory_run_taken_over", connection=str(step.connection))
            async with self.unit_of_work() as uow:
                await uow.directory_runs.interrupt(run.id, self.system.clock.now())
                await uow.commit()
        except LdapFailed as failed:
            await self._failed(step, run, directory.name, " ".join(words_of(failed.fault)))

    async def _failed(self, step: DirectoryStep, run: DirectoryRun, name: str, fault: str) -> None:
        """The directory could not be read to its end. So nobody has gone, and the next run does what is left."""
        now = self.system.clock.now()
        self.metrics.directory_run_ended(run.kind.value, "failed")
        log.warning("directory_run_failed", connection=str(step.connection), fault=fault)
        async with self.unit_of_work() as uow:
            if not await uow.directory_runs.hold_step(step, now + LEASE):
                return
            newest = await uow.directory_runs.list(step.organization, step.connection, 2)
            ended = replace(run, state=RunState.FAILED, ended_at=now, fault=fault)
            await uow.directory_runs.end(ended, ())
            await uow.directory_runs.save_step(step, replace(step, wants_whole=True), now + AGAIN_AFTER_FAULT)
            if not any(one.state is RunState.FAILED for one in newest if one.id != run.id):
                # A directory that is away is news once.
                await uow.record(run_failed(ended, name))
            await uow.commit()

    async def ask_owners(self, uow: UnitOfWork, provider: UpstreamProvider, slug: str, run: DirectoryRun) -> None:
        link = f"{self.base_url}/ui/o/{slug}/directories/{provider.id}/runs/{run.id}"
        owners = await uow.directory_runs.owners(provider.organization)
        why = _FIRST if run.kind is RunKind.PLAN else _TOO_MANY
        counts = run.counts
        numbers = {"came": str(counts.came), "ends": str(counts.held_back)}
        await tell_owners(uow, self.templates, owners, "directory_run_waits", connection=provider.name, link=link, why=why, **numbers)


class _Run:
    """One run while it is under way. It holds identities, and one page of people."""

    def __init__(
        self, keeping: DirectoryKeeping, step: DirectoryStep, run: DirectoryRun, directory: ConnectedDirectory, settings: LdapSettings
    ) -> None:
        self._keeping = keeping
        self._step = step
        self._run = run
        self._directory = directory
        self._settings = settings
        self._tally = RunTally()
        self._seen = set[bytes]()
        self._disabled = set[bytes]()
        self._domains: Collection[str] | None = None
        self._capacity: int | None = None

    @property
    def _is_plan(self) -> bool:
        return self._run.kind is RunKind.PLAN

    async def carry_out(self) -> None:
        keeping, step, run = self._keeping, self._step, self._run
        site = keeping.surveys.site(self._directory)
        marks = step.marks
        if run.kind is RunKind.IDENTITIES:
            async for ids in keeping.reading.identities(site):
                await self._pass_over(ids)
        else:
            marks = await self._read(site)
        ends = await self._ends()
        if not self._is_plan and self._run.kind is not RunKind.IDENTITIES and self._settings.groups_attribute:
            everything = self._tally.came > 0 or self._run.kind is RunKind.WHOLE
            await keeping.teams.fill(step, site, self._tally, everything=everything)
        await self._close(marks, ends)

    async def _read(self, site: LdapSite) -> LdapMarks | None:
        """Everybody, or those who have changed. Returns what the next run begins from."""
        reading, before = self._keeping.reading, self._step.marks
        since = before if self._run.kind is RunKind.CHANGES else None
        attributes = [*run_attributes(self._settings, self._directory.profile_mapping)]
        if since is not None and since.modified is not None:
            # The changed people tell how far the run has come, so nobody else is read for that.
            async for page in reading.people(site, [*attributes, MODIFIED], since):
                await self._take(page)
                since = later_marks(since, page)
            return since
        marks = await reading.marks(site)
        if since is not None and (since.controller is None or since.controller != marks.controller):
            # Another controller numbers its changes otherwise, and one without marks tells nothing about them: everybody is read.
            self._run, since = replace(self._run, kind=RunKind.WHOLE), None
        async for page in reading.people(site, attributes, since):
            await self._take(page)
        return marks

    async def _pass_over(self, ids: Sequence[bytes]) -> None:
        self._tally.read += len(ids)
        self._seen.update(external_id(one, self._settings) for one in ids)
        await self._keeping.changes.go_on(self._step)

    async def _take(self, page: Sequence[LdapPerson]) -> None:
        """One page of people."""
        self._tally.read += len(page)
        named: dict[bytes, PersonInDirectory] = {}
        for read in page:
            person = named_person(self._settings, self._directory.profile_mapping, read)
            if person.external_id in self._seen:
                self._tally.leave_out(person.named, WhyLeftOut.TWICE)
            else:
                self._seen.add(person.external_id)
                named[person.external_id] = person
        known = await self._keeping.people.known(self._step.connection, named)
        rest = [one for key, one in named.items() if key not in known or not is_unchanged(one, known[key])]
        for at in range(0, len(rest), _MOST_AT_ONCE):
            await self._decide([self._checked(one) for one in rest[at : at + _MOST_AT_ONCE]])
        await self._keeping.changes.go_on(self._step)

    def _checked(self, person: PersonInDirectory) -> PersonInDirectory:
        """The person, without an address to which nobody could send mail."""
        try:
            return replace(person, email=self._keeping.syntax.parse(person.email).address) if person.email else person
        except BadRequest:
            return replace(person, email="")

    async def _decide(self, people: Sequence[PersonInDirectory]) -> None:
        if self._is_plan:
            met = await self._keeping.people.met(self._step.organization, self._step.connection, people)
            decisions = decided_together(people, met, await self._proved(), await self._room())
            coming = [coming_by(one) for one in decisions if one.fate in {PersonFate.COMES, PersonFate.RETURNS}]
            if coming:
                await self._keeping.changes.name(self._step, self._run, coming, self._tally.came)
        else:
            directory = RunDirectory(self._step.connection, self._step.organization)
            decisions = await self._keeping.changes.carry_out(self._step, directory, people)
        for one in decisions:
            if one.fate is PersonFate.ENDS:
                self._disabled.add(one.person.external_id)
            self._tally.note(one)

    async def _room(self) -> int:
        """For how many more members a plan finds room."""
        if self._capacity is None:
            found = await self._keeping.people.room(self._step.organization)
            self._capacity = 0 if found is None else found.limit.max_users - found.members
        return self._capacity - self._tally.came

    async def _proved(self) -> Collection[str]:
        if self._domains is None:
            self._domains = await self._keeping.lookup.proved_domains(self._step.organization)
        return self._domains

    async def _ends(self) -> Sequence[RunPerson]:
        """Ends those who are gone or disabled, unless there are too many. Returns those who wait for an owner."""
        held = await self._held()
        why = dict.fromkeys(self._disabled, ReasonForEnd.DISABLED)
        if self._run.kind.finds_gone or held:
            active = await self._keeping.people.active(self._step.connection)
            if not self._run.kind.reads_everything:
                why = {one: held[one] for one in active if one in held and self._says_nothing_else(one, held[one])} | why
            if self._run.kind.finds_gone:
                why |= dict.fromkeys((one for one in active if one not in self._seen), ReasonForEnd.GONE)
        if not why:
            return ()
        wanted = await self._wanted(why)
        if self._is_plan:
            return wanted
        agreed = await self._agreed()
        may_end = [one for one in wanted if (one.external_id, one.reason) in agreed]
        beyond = [one for one in wanted if (one.external_id, one.reason) not in agreed]
        lately = await self._keeping.people.ended_lately(self._step.connection, self._keeping.system.clock.now() - STOP_WINDOW)
        # Whoever came by this run makes no room for ends: another directory names many other people.
        stops = must_stop(len(beyond), lately.ended + len(may_end), lately.listed - len(may_end) - self._tally.came)
        waiting = beyond if stops else [one for one in beyond if one.external_id in held]
        stay = {one.external_id for one in waiting}
        ending = [one for one in wanted if one.external_id not in stay]
        directory = RunDirectory(self._step.connection, self._step.organization)
        for part in parts([one.external_id for one in ending if one.external_id is not None], _MOST_AT_ONCE):
            kept = await self._keeping.changes.end(self._step, directory, part)
            self._tally.ended += len(part) - len(kept)
            for named in kept:
                self._tally.leave_out(named, WhyLeftOut.MAY_MORE)
        return waiting

    async def _held(self) -> Mapping[bytes, ReasonForEnd]:
        """Whom the last stop holds. They wait for an owner, or have been left: no later run ends them because it sees fewer of them."""
        if self._step.held_run is None:
            return {}
        people = await self._keeping.runs.people(self._step.held_run, NamedAs.END, None)
        return {one.external_id: ReasonForEnd(one.reason) for one in people if one.external_id is not None}

    def _says_nothing_else(self, external_id: bytes, reason: ReasonForEnd) -> bool:
        """A run that reads a part has not found out that somebody whom a stop holds is back."""
        return external_id not in self._seen or (self._run.kind is RunKind.IDENTITIES and reason is ReasonForEnd.DISABLED)

    async def _wanted(self, why: Mapping[bytes, ReasonForEnd]) -> Sequence[RunPerson]:
        """Those who would end. Whoever may do more than a member does not end by a run, so they stop none: an owner decides about them."""
        wanted: list[RunPerson] = []
        for part in parts(sorted(why), 1000):
            named = await self._keeping.people.named(self._step.connection, part)
            for external, one in ((one, named[one]) for one in part if one in named):
                if one.may_more:
                    self._tally.leave_out(one.email, WhyLeftOut.MAY_MORE, one.user, external)
                else:
                    wanted.append(end_of(external, one.user, one.email, why[external]))
        return wanted

    async def _agreed(self) -> Collection[tuple[bytes | None, str]]:
        """Those whose end an owner has let go on."""
        step, keeping = self._step, self._keeping
        if step.agreed_run is None:
            return ()
        run = await keeping.runs.find(step.organization, step.connection, step.agreed_run)
        if run is None or not run.may_be_carried_out(keeping.system.clock.now()):
            # The directory was away for days. What it says now is another state than the owner has seen.
            return ()
        people = await keeping.runs.people(step.agreed_run, NamedAs.END, None)
        return {(one.external_id, one.reason) for one in people}

    async def _close(self, marks: LdapMarks | None, ends: Sequence[RunPerson]) -> None:
        keeping, step, now = self._keeping, self._step, self._keeping.system.clock.now()
        self._tally.held_back = len(ends)
        digest = self._tally.digest(ends)
        # What comes and changes is done, so the next stop is about ends alone.
        compared = digest if self._is_plan else digest_of_ends(ends)
        waits = self._is_plan or (len(ends) > 0 and not step.has_asked(compared, now))
        run = replace(
            self._run,
            state=RunState.WAITING if waits else RunState.DONE,
            ended_at=now,
            counts=self._tally.counts,
            digest=digest if waits else None,
        )
        is_whole = run.kind is RunKind.WHOLE
        minutes = timedelta(minutes=self._settings.step_minutes)
        after = replace(
            step,
            runs=step.runs + 1,
            marks=marks,
            wants_whole=False,
            whole_at=now if is_whole else step.whole_at,
            agreed_run=None,
            held_digest=compared if waits else step.held_digest if ends else None,
            held_since=now if waits else step.held_since if ends else None,
            held_run=run.id if waits else step.held_run if ends else None,
        )
        async with keeping.unit_of_work() as uow:
            if not await uow.directory_runs.hold_step(step, now + LEASE):
                raise TakenOver
            # A run that asks nobody names nobody besides: the one that has asked does.
            await uow.directory_runs.end(run, [*(ends if waits else ()), *self._tally.open, *self._tally.left_out])
            await uow.directory_runs.save_step(step, after, now + (PLAN_LASTS if self._is_plan else minutes))
            if waits:
                provider = await uow.upstream_providers.hold(step.organization, step.connection)
                if provider is not None and step.held_digest != compared:
                    await uow.record(run_stopped(run, provider.name))
                    await keeping.ask_owners(uow, provider, self._directory.organization_slug, run)
            await uow.commit()
        keeping.metrics.directory_run_ended(run.kind.value, run.state.value)
        counts = run.counts
        told = {"came": counts.came, "changed": counts.changed, "ended": counts.ended, "left_out": counts.left_out}
        log.info("directory_run", connection=str(step.connection), kind=run.kind.value, state=run.state.value, read=counts.read, **told)
