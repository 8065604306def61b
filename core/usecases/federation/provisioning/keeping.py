"""Provisions the users of an organization to the systems of its applications."""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from itertools import takewhile
from typing import Final

import structlog

from core.domain.errors import Overloaded, Unavailable
from core.domain.federation.directory_runs.runs import PLAN_LASTS, STOP_WINDOW, WHOLE_EVERY, RunPerson, digest_of_ends, must_stop
from core.domain.federation.provisioning.connections import token_context
from core.domain.federation.provisioning.listed import MOST_BYTES_LISTED
from core.domain.federation.provisioning.people import (
    ACTIVE,
    EXTERNAL_ID,
    USER_NAME,
    FarIdentity,
    OutwardPerson,
    PlaceThere,
    SentPerson,
    Wanted,
    WhyNotThere,
    found_there,
)
from core.domain.federation.provisioning.progress import LONGEST_RUN, LONGEST_TURN, RunProgress, gone_on
from core.domain.federation.provisioning.runs import (
    AGAIN_AFTER_FAULT,
    FAILING_FOR,
    LONGEST_REST,
    PEOPLE_A_PAGE,
    PEOPLE_AT_ONCE,
    PROVISIONING_LEASE,
    DoneThere,
    ProvisioningRun,
    ProvisioningRunKind,
    ProvisioningRunPerson,
    ProvisioningRunState,
    ProvisioningTally,
    ProvisioningWork,
    begun_there,
    end_there,
    person_adopted,
    provisioning_event,
    run_facts,
)
from core.domain.identifiers import ProvisioningRunId, UserId
from core.domain.record.deliveries import ReceiverKind
from core.domain.secrets import Secret
from core.frozen import Frozen, replace
from core.usecases.federation.provisioning.sending import FarNotes, PeopleSender, SendingResult
from core.usecases.outbound_reach import OutboundReach
from core.usecases.tenancy.ownerships import tell_owners
from ports.crypto import KeyRing
from ports.federation.provisioning_runs import (
    FarExchange,
    FarFailed,
    FarFault,
    FarOtherId,
    FarPage,
    FarPerson,
    FarRefused,
    FarSide,
    FarSite,
    KnownThere,
    ProvisionedPeopleStore,
    ProvisioningPace,
    ProvisioningRunStore,
    TurnOver,
)
from ports.mail import MailTemplates
from ports.metrics import Metrics
from ports.system import System
from ports.unit_of_work import UnitOfWork, UnitOfWorkFactory

log = structlog.get_logger()

_AT_ONCE: Final = 10
"""People who are sent before the next look at the lease."""
_MOST_RESTARTS: Final = 3
"""Of a list whose cursors expire while it is read. After these, each person is asked for."""
_MOST_EMPTY_PAGES: Final = 20
"""One after another. A page by cursor may have nobody, and another page behind it."""
_RENEWED_EVERY: Final = timedelta(seconds=20)
_FIRST_AGAIN: Final = timedelta(minutes=1)
_LONGEST_AGAIN: Final = timedelta(hours=6)


_NOTED_BY_US: Final = frozenset({FarFault.LIST_TOO_LONG, FarFault.REPEATED_PAGE, FarFault.NOT_ENDED, FarFault.TOO_SLOW, FarFault.BROKEN})
"""Faults that no single answer shows: the list of requests has a line for them, too."""


class WorkTakenOver(Exception):
    """Another process has the connection by now, or nobody wants it any more: nothing may be written or sent."""


class ProvisioningKeeping(Frozen):
    """Looks at all users, or at those whom marks name, and sends what differs. A run that was killed leaves nothing half: before a user is
    created, the other system is asked, and the next run finds what is left to do. A run works in turns, so that a slow system blocks nobody
    for long; and every way out of a turn settles it.
    """

    unit_of_work: UnitOfWorkFactory
    runs: ProvisioningRunStore
    people: ProvisionedPeopleStore
    far: FarSide
    pace: ProvisioningPace
    keyring: KeyRing
    templates: MailTemplates
    metrics: Metrics
    system: System
    base_url: str
    reach: OutboundReach

    async def claim_due(self, limit: int) -> Sequence[ProvisioningWork]:
        now = self.system.clock.now()
        due = await self.runs.claim_due(now, now + PROVISIONING_LEASE, self.system.ids.new(), limit)
        if len(due) < limit:
            counted = await self.runs.counted()
            self.metrics.provisioning(counted.waiting, counted.failing, counted.late)
        return due

    async def run(self, work: ProvisioningWork) -> None:
        """Does what is due of one connection, for a turn. Raises `Overloaded` and `Unavailable`: then another begins when the lease ends;
        and whatever nobody has foreseen, after the run has failed by it.
        """
        try:
            await _Working(self, work).run_turn()
        except WorkTakenOver:
            log.info("provisioning_taken_over", connection=str(work.connection))

    async def give_up(self, work: ProvisioningWork) -> None:
        """Of a turn that did not end by itself, and was cancelled."""
        try:
            await _Working(self, work).give_up_turn()
        except WorkTakenOver:
            log.info("provisioning_taken_over", connection=str(work.connection))

    async def tell_owners(self, uow: UnitOfWork, work: ProvisioningWork, why: str, run: ProvisioningRun | None = None) -> None:
        owners = await uow.provisioning_runs.owners(work.organization)
        link = f"{self.base_url}/ui/o/{work.organization_slug}/services/{work.service_slug}/people-there"
        came, ends = (0, 0) if run is None else (run.made + run.matched, run.held_back)
        facts = {"service": work.service_name, "link": link, "why": why, "came": str(came), "ends": str(ends)}
        await tell_owners(uow, self.templates, owners, "people_there", **facts)


class _Working:
    """One connection while it is worked for. It holds identities, and one page of people."""

    def __init__(self, keeping: ProvisioningKeeping, work: ProvisioningWork) -> None:
        self._keeping = keeping
        self._claimed = work
        self._work = work
        self._notes = FarNotes()
        self._run: ProvisioningRun | None = None
        """A look at everybody."""
        self._changing: ProvisioningRun | None = None
        """A look at those whom marks name. It is kept when it has done something, or failed."""
        self._progress = RunProgress()
        self._tally = self._progress.tally
        self._began = self._renewed_at = keeping.system.clock.now()
        self._make_sender("")
        self._names = tuple(one.attribute for one in work.mapping if one.attribute not in work.left_out)

    def _make_sender(self, token: str) -> None:
        keeping, work = self._keeping, self._work
        self._site = FarSite(work.base_url, Secret(token), work.dialect, self._notes.add)
        self._sender = PeopleSender(
            work,
            keeping.far,
            self._site,
            people=keeping.people,
            secrets=keeping.system.secrets,
            pace=keeping.pace,
            issuer=keeping.base_url,
            has_turn=self._has_turn,
        )

    def _has_turn(self, rest: timedelta = timedelta(0)) -> bool:
        return self._now + rest < self._began + LONGEST_TURN

    def _require_turn(self) -> None:
        """Raises `TurnOver`."""
        if not self._has_turn():
            raise TurnOver

    @property
    def _now(self) -> datetime:
        return self._keeping.system.clock.now()

    async def run_turn(self) -> None:
        """Every way out settles the turn, but for a lost connection and a database that is away."""
        try:
            await self._run_due_work()
        except (WorkTakenOver, Unavailable, Overloaded):
            raise
        except Exception:
            for _ in range(2):
                try:
                    await self._settle_failure(FarFailed(FarFault.BROKEN))
                except (WorkTakenOver, Unavailable, Overloaded):
                    break
                except Exception:  # noqa: BLE001, S112 - what was to be kept may be what broke: the first try has let go of it
                    continue
                break
            raise

    async def give_up_turn(self) -> None:
        self._run = await self._keeping.runs.under_way(self._work.connection)
        await self._settle_failure(FarFailed(FarFault.TOO_SLOW))

    async def _run_due_work(self) -> None:
        work, keeping = self._work, self._keeping
        try:
            if work.sealed_token is not None:
                self._make_sender(keeping.keyring.open(work.sealed_token, token_context(work.connection)).decode())
            kind = None if work.is_ending else work.kind(self._now)
            if work.turn_over_at is not None:
                await self._resume_progress(kind)
            if kind is not None and self._run is None:
                await self._begin_run(kind)
            await self._delete_forgotten_people()
            if work.is_ending:
                await self._end_everybody()
            elif kind is not None:
                await self._sync_everybody()
            else:
                await self._sync_changes()
                await self._settle_turn()
        except TurnOver as over:
            await self._end_turn(over)
        except FarFailed as failed:
            await self._settle_failure(failed)
        except FarRefused as refused:
            await self._settle_failure(FarFailed(f"status_{refused.status}"))
        except FarOtherId:
            await self._settle_failure(FarFailed(FarFault.MALFORMED))

    async def _resume_progress(self, kind: ProvisioningRunKind | None) -> None:
        """Goes on from where the last turn was over. What was kept is taken: whoever is killed within this turn begins anew."""
        keeping, connection = self._keeping, self._work.connection
        kept = gone_on(await keeping.runs.progress(connection))
        run = await keeping.runs.under_way(connection)
        async with keeping.unit_of_work() as uow:
            await self._hold_connection(uow)
            await uow.provisioning_runs.keep_progress(connection, ())
            await uow.commit()
        if kept is None:
            return
        if kept.run is None:
            # Ends of everybody, or single changes: the people themselves say what is done.
            if kind is None:
                self._progress = kept
            return
        if run is None or kind is not run.kind or not kept.is_of(run, self._work):
            return
        self._run, self._progress, self._tally = run, kept, kept.tally
        self._claimed = replace(self._claimed, whole_due_at=kept.whole_due_at, agreed_run=kept.agreed_run)
        self._work = replace(self._work, whole_due_at=kept.whole_due_at, agreed_run=kept.agreed_run)

    async def _begin_run(self, kind: ProvisioningRunKind) -> None:
        progress = self._progress
        run = self._run = begun_there(self._work, ProvisioningRunId(self._keeping.system.ids.new()), kind, self._now)
        progress.run, progress.whole_due_at, progress.agreed_run = run.id, self._work.whole_due_at, self._work.agreed_run
        dialect = self._work.dialect
        progress.by_cursor = dialect.cursors
        progress.asks_each = progress.has_list = not dialect.lists and not dialect.cursors
        async with self._keeping.unit_of_work() as uow:
            await self._hold_connection(uow)
            await uow.provisioning_runs.begin(run)
            await uow.commit()

    async def _sync_everybody(self) -> None:
        progress = self._progress
        if not progress.has_list:
            await self._read_list()
        while page := await self._keeping.people.page(self._work, progress.after, PEOPLE_AT_ONCE):
            await self._sync_page(page)
            progress.after = page[-1].user
            progress.done.clear()
            await self._keeping.pace.breathe()
            self._require_turn()
        waiting = await self._end_leavers()
        await self._close_run(waiting)

    async def _read_list(self) -> None:
        """Reads who is there, page by page, and keeps identities alone."""
        progress = self._progress
        if progress.by_cursor is None:
            progress.by_cursor = await self._sender.asked(lambda: self._keeping.far.offers_cursors(self._site))
        if progress.by_cursor:
            await self._read_list_by_cursor()
        if not progress.by_cursor and not progress.asks_each:
            await self._read_list_by_number()
        progress.has_list = True

    async def _read_list_by_cursor(self) -> None:
        """By RFC 9865. Where the other system turns out to know no cursors, the run goes on as if it had offered none."""
        progress = self._progress
        while (page := await self._page_at_cursor()) is not None:
            if page.people and (progress.restarts > _MOST_RESTARTS or not await self._is_new(page)):
                await self._give_up_list(page.people[0].identity)
                return
            if page.next_cursor is None:
                return
            progress.empty_pages = 0 if page.people else progress.empty_pages + 1
            if progress.empty_pages > _MOST_EMPTY_PAGES:
                raise FarFailed(FarFault.LIST_TOO_LONG)
            progress.cursor = page.next_cursor
            await self._renew_hold()
            await self._keeping.pace.breathe()

    async def _page_at_cursor(self) -> FarPage | None:
        """None where the other system knows no cursors."""
        keeping, progress = self._keeping, self._progress
        while True:
            is_first = progress.cursor == ""
            try:
                page = await self._sender.asked(lambda: keeping.far.page_at(self._site, progress.cursor, PEOPLE_A_PAGE))
            except FarRefused as refused:
                if is_first:
                    self._go_on_without_cursors()
                    return None
                if refused.status != 400:
                    raise
                if progress.restarts > _MOST_RESTARTS:
                    raise FarFailed(FarFault.REPEATED_PAGE) from None
                # The cursor has expired, perhaps while others had their turn. What was read before may have changed since.
                progress.restart_list()
                continue
            if is_first and page.next_cursor is None and self._is_a_beginning(page):
                self._go_on_without_cursors()
                return None
            return page

    async def _is_new(self, page: FarPage) -> bool:
        """Notes the people of a page. False where nobody of them is new: the list begins anew with each page. Whoever took it for the whole
        would make everybody twice.
        """
        before = len(self._progress.seen)
        for start in range(0, len(page.people), PEOPLE_A_PAGE):
            await self._note_listed_people(page.people[start : start + PEOPLE_A_PAGE])
        return len(self._progress.seen) > before

    def _is_a_beginning(self, page: FarPage) -> bool:
        """Whether the answer to the first cursor is none by cursor, and perhaps not all: it says a total, as answers by number do."""
        return page.says_total and (not self._work.dialect.lists or page.total > len(page.people))

    def _go_on_without_cursors(self) -> None:
        progress = self._progress
        progress.forget_list()
        progress.by_cursor, progress.asks_each = False, not self._work.dialect.lists
        log.info("provisioning_without_cursors", connection=str(self._work.connection))

    async def _read_list_by_number(self) -> None:
        keeping, progress = self._keeping, self._progress
        while True:
            page = await self._sender.asked(lambda: keeping.far.page(self._site, progress.start, PEOPLE_A_PAGE))
            if page.people and not await self._is_new(page):
                await self._give_up_list(page.people[0].identity)
                break
            progress.start += len(page.people)
            await self._renew_hold()
            if not page.people or progress.start > page.total:
                break
            await keeping.pace.breathe()

    async def _note_listed_people(self, people: Sequence[FarPerson]) -> None:
        keeping, progress = self._keeping, self._progress
        known = await keeping.people.known(self._work.connection, [one.identity.far_id for one in people])
        for one in people:
            await keeping.pace.turn()
            identity = one.identity
            if not progress.seen.add(identity.far_id):
                continue
            ours = known.get(identity.far_id)
            if ours is None:
                progress.strangers.add(identity)
                if progress.strangers.size > MOST_BYTES_LISTED:
                    raise FarFailed(FarFault.LIST_TOO_LONG)
            elif ours.user is None:
                continue
            elif ours.is_active != identity.is_active or (ours.is_active and not self._is_as_sent(one.resource, ours)):
                progress.different.add(ours.user)

    async def _give_up_list(self, one_of_theirs: FarIdentity) -> None:
        """A list that does not go on is not needed, where filters find each person. Whoever ignores filters, too, would get doubles."""
        keeping, site = self._keeping, self._site
        nobody = keeping.system.secrets.token().reveal()
        try:
            has_filters = site.dialect.filters and await self._sender.asked(
                lambda: keeping.far.takes_filters(site, one_of_theirs, nobody),
            )
        except FarRefused:
            has_filters = False
        if not has_filters:
            raise FarFailed(FarFault.REPEATED_PAGE)
        self._progress.forget_list()
        self._progress.asks_each = True
        log.info("provisioning_asks_each", connection=str(self._work.connection))

    def _is_as_sent(self, resource: Mapping[str, object], ours: KnownThere) -> bool:
        names = [one for one in (*self._names, EXTERNAL_ID, ACTIVE) if one not in ours.kept_there]
        return self._sender.digest(found_there(resource, names)) == ours.digest

    def _find_strangers(self, wanted: Wanted) -> Sequence[FarIdentity]:
        return self._progress.strangers.like(str(wanted[EXTERNAL_ID]), str(wanted.get(USER_NAME) or ""))

    def _is_listed(self, sent: SentPerson | None) -> bool:
        """Or is asked for, where nobody is listed."""
        return self._progress.asks_each or (sent is not None and sent.far_id is not None and sent.far_id in self._progress.seen)

    async def _sync_page(self, page: Sequence[OutwardPerson]) -> None:
        """One page of people: those whom nothing changed cost a comparison of digests."""
        pace, progress = self._keeping.pace, self._progress
        to_send = list[tuple[OutwardPerson, Wanted]]()
        for person in page:
            await pace.turn()
            gone, sent = person.why_gone, person.sent
            if person.user in progress.done:
                continue
            if gone is not None:
                if sent is not None and sent.far_id is not None and (sent.is_active or person.user in progress.different):
                    progress.why[person.user] = gone
                continue
            wanted = self._sender.wanted(person)
            if (
                not progress.asks_each
                and self._is_listed(sent)
                and sent is not None
                and sent.place is PlaceThere.SENT
                and sent.is_active
                and sent.digest == self._sender.digest(wanted)
                and person.user not in progress.different
            ):
                self._tally.unchanged += 1
                progress.done.add(person.user)
            else:
                to_send.append((person, wanted))
        if self._is_plan:
            await self._plan_people(to_send)
            return
        if self._work.agreed_run is not None and to_send:
            self._sender.adopted = await self._keeping.runs.adopted(self._work.agreed_run, [person.user for person, _ in to_send])
        await self._send_people(to_send)

    async def _plan_people(self, people: Sequence[tuple[OutwardPerson, Wanted]]) -> None:
        """Names what a run would do with them. It asks, and changes nothing."""
        planned = dict[UserId, ProvisioningRunPerson | None]()

        async def one(person: OutwardPerson, wanted: Wanted) -> None:
            planned[person.user] = await self._sender.planned(person, wanted, self._find_strangers(wanted))

        try:
            for start in range(0, len(people), _AT_ONCE):
                part = people[start : start + _AT_ONCE]
                await self._renew_hold()
                await self._keeping.pace.together([lambda p=person, w=wanted: one(p, w) for person, wanted in part])  # type: ignore[misc]
        finally:
            # In the order of the page, whoever was answered first: the digest is of all of them. The next turn goes on with the rest.
            for person, _ in takewhile(lambda pair: pair[0].user in planned, people):
                self._tally.note_planned(planned[person.user])
                self._progress.done.add(person.user)
        await self._write_results(())

    async def _send_people(self, to_send: Sequence[tuple[OutwardPerson, Wanted]]) -> None:
        """Some at once, and what was done is written before the next ones: whoever is killed here has made so many at most, and the next
        run finds them.
        """
        results = list[SendingResult]()

        async def one(person: OutwardPerson, wanted: Wanted) -> None:
            results.append(await self._sender.send(person, wanted, self._find_strangers(wanted)))

        for start in range(0, len(to_send), _AT_ONCE):
            part = to_send[start : start + _AT_ONCE]
            await self._renew_hold()
            self._sender.begin_batch()
            try:
                await self._keeping.pace.together([lambda p=person, w=wanted: one(p, w) for person, wanted in part])  # type: ignore[misc]
            finally:
                # What was done before the other system went away stays done.
                done, results[:] = list(results), []
                if done:
                    await self._write_results(done)

    async def _write_results(self, results: Sequence[SendingResult]) -> None:
        now, keeping = self._now, self._keeping
        for one in results:
            self._progress.done.add(one.sent.user)
            self._progress.why.pop(one.sent.user, None)
            if one.named is not None:
                self._tally.note(one.named)
                keeping.metrics.person_sent_there(one.named.what.value)
            elif one.sent.place is PlaceThere.SENT:
                self._tally.unchanged += 1
        # Single changes have a run only if something was done, and keep their few names until then.
        after, names = (0, ()) if self._run is None else self._tally.take_names()
        notes = self._notes.take()
        if not results and not names and not notes:
            return
        async with keeping.unit_of_work() as uow:
            await self._hold_connection(uow)
            if results:
                by_word = self._run is not None and self._work.agreed_run is not None
                await uow.provisioned_people.save(self._work.connection, [one.sent for one in results], now, by_word=by_word)
                for one in results:
                    if one.named is not None and one.named.what is DoneThere.MATCHED and one.named.former_external_id is not None:
                        await uow.record(person_adopted(self._work, one.sent.user, one.named))
            if names and self._run is not None:
                await uow.provisioning_runs.name(self._run, names, after)
            await uow.provisioning_runs.note_exchanges(self._work.connection, notes)
            await uow.commit()

    async def _end_leavers(self) -> Sequence[RunPerson]:
        """Ends those who do not belong there, unless there are too many. Returns those who wait for an owner."""
        work, keeping, why = self._work, self._keeping, self._progress.why
        wanted = [end_there(user, why[user]) for user in sorted(why)]
        if self._is_plan or not wanted:
            return wanted
        agreed = await self._find_agreed_users()
        held = frozenset[UserId]() if work.held_run is None else frozenset(await keeping.runs.ends(work.held_run))
        may_end = [one for one in wanted if one.user in agreed]
        beyond = [one for one in wanted if one.user not in agreed]
        lately = await keeping.people.ended_lately(work.connection, self._now - STOP_WINDOW)
        # Whoever came by this run makes no room for ends. Those of other runs of today are not counted.
        came = 0 if work.agreed_run is None else self._tally.counts[DoneThere.MADE] + self._tally.counts[DoneThere.MATCHED]
        stops = must_stop(len(beyond), lately.ended + len(may_end), lately.active - len(may_end) - came)
        waiting = beyond if stops else [one for one in beyond if one.user in held]
        stay = {one.user for one in waiting}
        await self._end_users_still_gone([one.user for one in wanted if one.user is not None and one.user not in stay])
        return waiting

    async def _find_agreed_users(self) -> frozenset[UserId]:
        """Those whose end an owner has let go on."""
        work, keeping = self._work, self._keeping
        if work.agreed_run is None:
            return frozenset()
        run = await keeping.runs.find(work.organization, work.service_slug, work.agreed_run)
        if run is None or not run.may_be_carried_out(self._now):
            # What is true now is another state than the owner has seen.
            return frozenset()
        return frozenset(await keeping.runs.ends(work.agreed_run))

    async def _end_users_still_gone(self, users: Sequence[UserId]) -> None:
        for start in range(0, len(users), _AT_ONCE):
            # Whoever has come back meanwhile does not end.
            people = await self._keeping.people.people(self._work, users[start : start + _AT_ONCE])
            await self._send_ends([one for one in people if one.why_gone is not None])
            self._progress.done.clear()

    async def _send_ends(self, people: Sequence[OutwardPerson]) -> None:
        results = list[SendingResult]()

        async def one(person: OutwardPerson) -> None:
            results.append(await self._sender.end(person))

        there = [person for person in people if person.sent is not None and person.sent.far_id is not None]
        for start in range(0, len(there), _AT_ONCE):
            await self._renew_hold()
            try:
                await self._keeping.pace.together([lambda p=person: one(p) for person in there[start : start + _AT_ONCE]])  # type: ignore[misc]
            finally:
                done, results[:] = list(results), []
                if done:
                    await self._write_results(done)

    async def _close_run(self, waiting: Sequence[RunPerson]) -> None:
        work, now, keeping, tally = self._work, self._now, self._keeping, self._tally
        assert self._run is not None  # noqa: S101 - a run is closed that was begun
        tally.held_back = len(waiting)
        digest = tally.digest(waiting)
        # What comes and changes is done, so the next stop is about ends alone.
        compared = digest if self._is_plan else digest_of_ends(waiting)
        waits = self._is_plan or (len(waiting) > 0 and not work.has_asked(compared, now))
        run = tally.counted(
            replace(
                self._run,
                state=ProvisioningRunState.WAITING if waits else ProvisioningRunState.DONE,
                ended_at=now,
                digest=digest if waits else None,
            )
        )
        after = replace(
            work,
            whole_due_at=now + (PLAN_LASTS if self._is_plan else WHOLE_EVERY),
            whole_at=work.whole_at if self._is_plan else now,
            failing_since=None,
            agreed_run=None,
            held_digest=compared if waits else work.held_digest if waiting else None,
            held_since=now if waits else work.held_since if waiting else None,
            held_run=run.id if waits else work.held_run if waiting else None,
        )
        ends = [ProvisioningRunPerson(what=DoneThere.ENDED, why=one.reason, user=one.user) for one in waiting] if waits else []
        async with keeping.unit_of_work() as uow:
            await self._hold_connection(uow)
            place, names = tally.take_names()
            await uow.provisioning_runs.name(run, [*names, *ends], place)
            await uow.provisioning_runs.save(run)
            await uow.provisioning_runs.note_exchanges(work.connection, self._notes.take())
            await uow.provisioning_runs.settle(self._claimed, after, None)
            if waits and work.held_digest != compared:
                await uow.record(provisioning_event("service.provisioning.run.stopped", work, run_facts(run)))
                await keeping.tell_owners(uow, work, "first" if self._is_plan else "too_many", run)
            await uow.commit()
        self._report_run(run)

    async def _sync_changes(self) -> None:
        """The people whom marks name, as they are now. Of several marks of one person, one is left, and there is no order to keep."""
        keeping = self._keeping
        while True:
            async with keeping.unit_of_work() as uow:
                await self._hold_connection(uow)
                users = await uow.provisioning_runs.take_marks(self._work, self._now, PEOPLE_A_PAGE)
                await uow.commit()
            if not users:
                break
            # Who would end is counted over all of them, so that many do not end by halves.
            people = [
                person
                for start in range(0, len(users), PEOPLE_AT_ONCE)
                for person in await keeping.people.people(self._work, users[start : start + PEOPLE_AT_ONCE])
            ]
            run = begun_there(self._work, ProvisioningRunId(keeping.system.ids.new()), ProvisioningRunKind.CHANGES, self._now)
            self._changing, self._tally = run, ProvisioningTally()
            again = await self._sync_changed_people(people)
            async with keeping.unit_of_work() as uow:
                await self._hold_connection(uow)
                await uow.provisioning_runs.finish_marks(self._work, again)
                ended = self._tally.counted(replace(run, state=ProvisioningRunState.DONE, ended_at=self._now))
                place, names = self._tally.take_names()
                if names:
                    await uow.provisioning_runs.begin(ended)
                    await uow.provisioning_runs.name(ended, names, place)
                await uow.provisioning_runs.note_exchanges(self._work.connection, self._notes.take())
                await uow.commit()
            if names:
                self._report_run(ended)
            self._changing = None
            self._progress.done.clear()
            await keeping.pace.breathe()
            # A whole run that is due meanwhile has its turn, too.
            self._require_turn()

    async def _sync_changed_people(self, people: Sequence[OutwardPerson]) -> Mapping[UserId, datetime]:
        """Returns those to look at again, and when."""
        keeping, work = self._keeping, self._work
        sending, ending = list[tuple[OutwardPerson, Wanted]](), list[OutwardPerson]()
        for person in people:
            await keeping.pace.turn()
            sent = person.sent
            if person.why_gone is not None:
                if sent is not None and sent.far_id is not None and sent.is_active:
                    ending.append(person)
                continue
            wanted = self._sender.wanted(person)
            if sent is None or sent.place is not PlaceThere.SENT or not sent.is_active or sent.digest != self._sender.digest(wanted):
                sending.append((person, wanted))
        await self._send_people(sending)
        if ending:
            lately = await keeping.people.ended_lately(work.connection, self._now - STOP_WINDOW)
            if work.held_run is not None or must_stop(len(ending), lately.ended, lately.active):
                # A look at everybody sees all who would end, and asks an owner.
                self._work = replace(self._work, whole_due_at=self._now)
            else:
                await self._send_ends(ending)
        failed = await keeping.people.people(work, [one.user for one, _ in sending] + [one.user for one in ending])
        return {
            one.user: self._now + min(_FIRST_AGAIN * 2 ** min(one.sent.tries, 12), _LONGEST_AGAIN)
            for one in failed
            if one.sent is not None and one.sent.why == WhyNotThere.NO_ANSWER
        }

    async def _delete_forgotten_people(self) -> None:
        """Whoever was forgotten or deleted here is deleted there."""
        keeping, work = self._keeping, self._work
        while far_ids := await keeping.people.to_delete(work.connection, self._now, _AT_ONCE):
            await self._renew_hold()
            gone, left = list[str](), list[str]()
            for far_id in far_ids:
                try:
                    await self._sender.delete(far_id, self._names)
                except (FarRefused, FarOtherId):
                    left.append(far_id)
                else:
                    gone.append(far_id)
                    keeping.metrics.person_sent_there("deleted")
            async with keeping.unit_of_work() as uow:
                await self._hold_connection(uow)
                await uow.provisioned_people.gone(work.connection, gone)
                await uow.provisioned_people.delay(work.connection, left, self._now + WHOLE_EVERY)
                await uow.provisioning_runs.note_exchanges(work.connection, self._notes.take())
                await uow.commit()

    async def _end_everybody(self) -> None:
        """The owner has deleted the connection and wants everybody ended there."""
        keeping, progress = self._keeping, self._progress
        while page := await keeping.people.page(self._work, progress.after, PEOPLE_AT_ONCE):
            active = [one for one in page if one.sent is not None and one.sent.is_active and one.user not in progress.done]
            await self._send_ends(active)
            progress.after = page[-1].user
            progress.done.clear()
            await keeping.pace.breathe()
            self._require_turn()
        left = (await keeping.people.ended_lately(self._work.connection, self._now)).there
        if left:
            raise FarFailed(FarFault.NOT_ENDED)
        async with keeping.unit_of_work() as uow:
            await self._hold_connection(uow)
            await uow.provisioning_runs.finish_ending(self._work)
            await uow.record(provisioning_event("service.provisioning.ended", self._work, {}))
            await uow.commit()

    async def _settle_turn(self) -> None:
        async with self._keeping.unit_of_work() as uow:
            await self._hold_connection(uow)
            await uow.provisioning_runs.note_exchanges(self._work.connection, self._notes.take())
            await uow.provisioning_runs.settle(self._claimed, replace(self._work, failing_since=None), None)
            await uow.commit()
        self._note_reach(received=True)

    async def _end_turn(self, over: TurnOver) -> None:
        """Others have their turn. The next one of this connection goes on from here."""
        keeping, work, now, progress = self._keeping, self._work, self._now, self._progress
        progress.worked += now - self._began
        if progress.worked > LONGEST_RUN:
            await self._settle_failure(FarFailed(FarFault.TOO_SLOW))
            return
        again_at = None if over.again_after is None else now + over.again_after
        async with keeping.unit_of_work() as uow:
            await self._hold_connection(uow)
            if self._run is not None:
                place, names = self._tally.take_names()
                await uow.provisioning_runs.name(self._run, names, place)
                await uow.provisioning_runs.save(self._tally.counted(self._run))
            elif self._changing is not None and (names := self._tally.take_names()[1]):
                # Marks that are not finished stay taken.
                ended = self._tally.counted(replace(self._changing, state=ProvisioningRunState.DONE, ended_at=now))
                await uow.provisioning_runs.begin(ended)
                await uow.provisioning_runs.name(ended, names, 0)
            await uow.provisioning_runs.note_exchanges(work.connection, self._notes.take())
            await uow.provisioning_runs.keep_progress(work.connection, progress.parts())
            await uow.provisioning_runs.end_turn(work, now, again_at)
            await uow.commit()
        kind = ProvisioningRunKind.CHANGES if self._run is None else self._run.kind
        keeping.metrics.provisioning_run_ended(kind.value, "turn_over")
        log.info("provisioning_turn_over", connection=str(work.connection), kind=kind.value, seconds=progress.worked.total_seconds())

    async def _settle_failure(self, failed: FarFailed) -> None:
        """The other system is away, or wants no more for a while, or nobody knows. The next run does what is left."""
        keeping, work, now = self._keeping, self._work, self._now
        is_throttled = failed.fault == FarFault.THROTTLED
        since = work.failing_since if is_throttled else work.failing_since or now
        rest = min(failed.retry_after or AGAIN_AFTER_FAULT, LONGEST_REST)
        stops = since is not None and now - since > FAILING_FOR
        run = self._run or self._changing
        log.warning("provisioning_failed", connection=str(work.connection), fault=str(failed.fault))
        if failed.fault in _NOTED_BY_US:
            self._notes.add(FarExchange(at=now, method="-", path="-", status=None, scim_type=None, said=str(failed.fault), has_failed=True))
        async with keeping.unit_of_work() as uow:
            await self._hold_connection(uow)
            if run is not None:
                ended = self._tally.counted(replace(run, state=ProvisioningRunState.FAILED, ended_at=now, why=str(failed.fault)))
                place, names = self._tally.take_names()
                if self._run is None:
                    await uow.provisioning_runs.begin(ended)
                await uow.provisioning_runs.name(ended, names, place)
                await uow.provisioning_runs.save(ended)
            await uow.provisioning_runs.note_exchanges(work.connection, self._notes.take())
            await uow.provisioning_runs.settle(self._claimed, replace(work, failing_since=since), now + rest)
            if stops:
                await uow.provisioning_runs.stop(work, "failing", now)
                await uow.record(provisioning_event("service.provisioning.stopped", work, {"why": "failing", "fault": str(failed.fault)}))
                await keeping.tell_owners(uow, work, "failing")
            elif work.failing_since is None and not is_throttled:
                # A system that is away is news once.
                await uow.record(provisioning_event("service.provisioning.failing", work, {"fault": str(failed.fault)}))
            await uow.commit()
        if not is_throttled and failed.fault != FarFault.BROKEN:
            self._note_reach(received=False)
        kind = ProvisioningRunKind.CHANGES if run is None else run.kind
        keeping.metrics.provisioning_run_ended(kind.value, "throttled" if is_throttled else "failed")

    @property
    def _is_plan(self) -> bool:
        return self._run is not None and self._run.kind is ProvisioningRunKind.PLAN

    async def _hold_connection(self, uow: UnitOfWork) -> None:
        """Raises `WorkTakenOver`."""
        now = self._now
        if not await uow.provisioning_runs.hold(self._work, now + PROVISIONING_LEASE):
            raise WorkTakenOver
        self._renewed_at = now

    async def _renew_hold(self) -> None:
        """Before what is sent: whoever has lost the connection sends nothing any more."""
        if self._now - self._renewed_at < _RENEWED_EVERY:
            return
        async with self._keeping.unit_of_work() as uow:
            await self._hold_connection(uow)
            await uow.commit()

    def _note_reach(self, *, received: bool) -> None:
        self._keeping.reach.attempted(ReceiverKind.PROVISIONING, self._work.connection, self._work.organization, received=received)

    def _report_run(self, run: ProvisioningRun) -> None:
        self._keeping.metrics.provisioning_run_ended(run.kind.value, run.state.value)
        counts = {"made": run.made, "matched": run.matched, "changed": run.changed, "ended": run.ended, "left_out": run.left_out}
        log.info("provisioning_run", connection=str(self._work.connection), kind=run.kind.value, state=run.state.value, **counts)
