"""The audit log, changes of settings that a page may undo, and deliveries to receivers."""

from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import aclosing
from datetime import datetime, timedelta
from functools import partial
from typing import Final, Generic, Protocol, TypeVar
from uuid import UUID

import structlog

from core.domain.errors import NotFound, found
from core.domain.identifiers import AuditEntryId, OrganizationId, UserId
from core.domain.outbound import OutboundDestination
from core.domain.record.audit import (
    PLATFORM_CHAIN,
    AuditEntry,
    AuditFilter,
    ChainCheck,
    ChainFinding,
    ChainHead,
    Reached,
    StoredLink,
    opened_progress,
    require_reachable,
    sealed_progress,
)
from core.domain.record.changed_settings import KEPT_FOR, ChangedSetting
from core.domain.record.deliveries import (
    ATTEMPT_TIMEOUT,
    BATCH,
    BROKEN,
    LEASE,
    UNREADABLE,
    DeliveryOutcome,
    DeliveryRules,
    DueDelivery,
    ReceiverKind,
)
from core.domain.record.entry_receivers import MOST_RECEIVERS, EntryReceipts, receiver_of
from core.domain.record.event_types import AUDIT_ACTIONS, EventType
from core.domain.requests import Listed, Page
from core.domain.secrets import Secret
from core.frozen import Frozen
from core.usecases.outbound_reach import OutboundReach
from ports.crypto import ServerSecrets
from ports.jobs import ProgressDisplay, unseen
from ports.outbound import Outbound, OutboundFailed, OutboundRequest
from ports.record import ActFacts, AuditChains, AuditLog, Backlog, ChangedSettings, DeliveryQueue, Due, EntryReceiverLookup, To
from ports.system import Clock

PLATFORM: Final = "platform"
CHAIN_KEY: Final = "audit_chain"
# The largest number of faults that one chain reports.
MOST_UNCHAINED: Final = 1000
# The number of entries in one transaction of the linker, and in one part of the verification.
LINKED_AT_ONCE: Final = 1000
READ_AT_ONCE: Final = 4000
CHAINS_AT_ONCE: Final = 100


class CheckedChain(Frozen):
    """`name` is the organization's slug, or its id when the organization no longer exists."""

    chain: OrganizationId
    name: str
    head: ChainHead
    links: int
    forgotten: int
    """Entries whose address, user agent and names have been forgotten, which is allowed."""


class OwnCheck(Frozen):
    """The check of one organization's chain, for its people."""

    checked: CheckedChain
    findings: Sequence[ChainFinding]


class Audit(Frozen):
    log: AuditLog
    chains: AuditChains
    server_secrets: ServerSecrets

    async def list(self, organization: OrganizationId, wanted: AuditFilter, page: Page) -> Listed[AuditEntry]:
        if wanted.is_empty:
            return await self.log.newest(organization, page)
        require_reachable(page)
        return await self.log.matching(organization, wanted, page)

    async def get(self, organization: OrganizationId, entry: AuditEntryId) -> AuditEntry:
        """Raises `NotFound`, also for an entry of another organization."""
        return found(await self.log.find(organization, entry), "There is no such entry")

    @staticmethod
    def actions() -> Sequence[EventType]:
        """Returns all types of events that an organization's log can contain."""
        return AUDIT_ACTIONS

    async def link(self) -> int | None:
        """Links a batch of waiting entries into their chains. Returns how many, or None when another process is linking."""
        return await self.chains.link(await self.server_secrets.get(CHAIN_KEY), LINKED_AT_ONCE)

    async def backlog(self) -> Backlog:
        return await self.chains.backlog()

    async def chain_of(self, name: str, noted: ChainHead | None = None) -> OrganizationId:
        """Finds a chain by the organization's id, which is all that is left of a deleted organization, or by its slug. The id is tried
        first, because anyone may found an organization whose slug is another organization's id. `noted` says that there was a chain, even
        if nothing is left of it. Raises `NotFound`.
        """
        if name == PLATFORM:
            return PLATFORM_CHAIN
        chain = _id(name)
        if chain is not None and await self._is_known(chain):
            return chain
        found = await self.chains.find(name)
        if found is None and noted is not None:
            found = chain
        if found is None:
            raise NotFound(f"There is no organization {name}, and no entry of one")
        return found

    async def _is_known(self, chain: OrganizationId) -> bool:
        """Returns whether the organization exists, or any entry of its chain: linked, waiting or outside the chain."""
        listed = await self.log.newest(chain, Page(limit=1))
        return listed.total > 0 or bool(await self.chains.unchained(chain, 1)) or chain in await self.chains.slugs()

    async def last(self, action: str) -> datetime | None:
        """Returns when the action was last recorded in the platform's log."""
        return await self.log.last(action)

    async def verify(
        self,
        found: Callable[[str, ChainFinding], None],
        checked: Callable[[CheckedChain], None],
        *,
        only: OrganizationId | None = None,
        name: str | None = None,
        noted: ChainHead | None = None,
        heads: Mapping[OrganizationId, ChainHead] | None = None,
        readers: int = 1,
        begin: Reached | None = None,
        reached: Callable[[ChainCheck], None] = lambda _check: None,
        progress: ProgressDisplay = unseen,
    ) -> None:
        """Walks along all chains, or `only` the chain with this name. Reports every fault with the name of its chain, and the end of each
        chain. `noted` is the end of that one chain at an earlier time; `heads` are the ends of all chains at an earlier time. As many
        parts as there are `readers` are read at once, of one chain or of two, and checked in their order. `begin` is where a run before
        came to, and `reached` hears of each part that was checked. Raises `CannotOpen` when the key ring does not open the secret of the
        chains.
        """
        about = await self.chains.about(only) or None
        names = await self._names() if only is None else {only: name or str(only)}
        key = await self.server_secrets.get(CHAIN_KEY)

        def say(findings: Sequence[ChainFinding]) -> None:
            for finding in findings:
                found(_name(names, finding.chain), finding)

        ends = dict(heads or {})
        with progress("Verifying the chains", about, "entries") as advance:

            def take(check: ChainCheck, links: Sequence[StoredLink]) -> None:
                for link in links:
                    say(check.take(link))
                advance(len(links))
                reached(check)

            async with aclosing(self._chains_with_first_parts(only, begin, readers)) as chains:
                async for chain, parts in chains:
                    check = ChainCheck(key, chain, ends.pop(chain, noted))
                    if begin is not None:
                        check.go_on_after(begin.head, begin.links, begin.forgotten)
                        begin = None
                    await self._walk(chain, parts, readers, partial(take, check))
                    say(check.end())
                    checked(CheckedChain(chain, _name(names, chain), check.head, check.links, check.forgotten))
            for gone, end in ends.items():
                say(ChainCheck(key, gone, end).end())
        with progress("Looking for entries outside the chains", about, "entries") as advance:
            say(await self.chains.unchained(only, MOST_UNCHAINED, advance))

    async def _walk(
        self, chain: OrganizationId, parts: Sequence[Sequence[StoredLink]], readers: int, take: Callable[[Sequence[StoredLink]], None]
    ) -> None:
        """From these parts on to the end of the chain."""
        while parts[0]:
            adjoining = _adjoining(parts)
            for links in adjoining:
                take(links)
            left = parts[len(adjoining) :]
            if left and not any(left):
                break
            parts = await self.chains.parts(_places(chain, adjoining[-1][-1].sequence + 1, readers), READ_AT_ONCE)

    async def progress_of(self, reached: Reached) -> str:
        """What another run needs to go on there."""
        return sealed_progress(await self.server_secrets.get(CHAIN_KEY), reached)

    async def progress_in(self, text: str, only: OrganizationId | None, noted: ChainHead | None, now: datetime) -> Reached:
        """Raises `BadRequest`, and `CannotOpen`."""
        return opened_progress(await self.server_secrets.get(CHAIN_KEY), text, only, noted, now)

    async def _chains_with_first_parts(
        self, only: OrganizationId | None, begin: Reached | None, readers: int
    ) -> AsyncGenerator[tuple[OrganizationId, Sequence[Sequence[StoredLink]]]]:
        """The chains to walk along, in their order, each with its first parts. These are two where several readers read. Most chains are
        short: the second part is empty, which says that no further links follow. With `begin`, the first chain begins where it was left.
        """
        each = min(readers, 2)
        if begin is not None:
            yield begin.chain, await self.chains.parts(_places(begin.chain, begin.head.sequence, each), READ_AT_ONCE)
        elif only is not None:
            yield only, await self.chains.parts(_places(only, 0, each), READ_AT_ONCE)
        last = None if begin is None else begin.chain
        while only is None and (chains := await self.chains.next_chains(last, CHAINS_AT_ONCE)):
            for start in range(0, len(chains), at_once := max(1, readers // 2)):
                some = chains[start : start + at_once]
                parts = await self.chains.parts([place for chain in some for place in _places(chain, 0, each)], READ_AT_ONCE)
                for number, chain in enumerate(some):
                    yield chain, parts[number * each : (number + 1) * each]
            last = chains[-1]

    async def verify_own(self, organization: OrganizationId, most: int) -> OwnCheck | None:
        """Walks along the chain of one organization within a request. None when the log has more entries than `most`: `verify` has the
        time for those.
        """
        if (await self.log.newest(organization, Page(limit=1))).total > most:
            return None
        findings, ends = list[ChainFinding](), list[CheckedChain]()
        await self.verify(lambda _name, finding: findings.append(finding), ends.append, only=organization)
        return OwnCheck(ends[0], findings)

    async def _names(self) -> Mapping[OrganizationId, str]:
        return {**(await self.chains.slugs()), PLATFORM_CHAIN: PLATFORM}


def _places(chain: OrganizationId, since: int, count: int) -> Sequence[tuple[OrganizationId, int]]:
    """Of so many parts. The first link of a chain has the number 1; a link with a smaller one is a fault, and in the first part."""
    return [(chain, since), *((chain, max(since, 1) + READ_AT_ONCE * number) for number in range(1, count))]


def _adjoining(parts: Sequence[Sequence[StoredLink]]) -> Sequence[Sequence[StoredLink]]:
    """The first part, and those after it as long as each begins where the one before ended. Parts are read at different moments, and a
    part begins at the first link that is there. So what looks like a gap between two parts is read again.
    """
    adjoining = [parts[0]]
    for part in parts[1:]:
        if not part or part[0].sequence != adjoining[-1][-1].sequence + 1:
            break
        adjoining.append(part)
    return adjoining


def _id(name: str) -> OrganizationId | None:
    """Accepts only the printed form of an id. `UUID` accepts more forms, and thirty-two digits may be an organization's slug."""
    try:
        chain = UUID(name)
    except ValueError:
        return None
    return OrganizationId(chain) if str(chain) == name.lower() else None


def _name(names: Mapping[OrganizationId, str], chain: OrganizationId) -> str:
    return names.get(chain, str(chain))


class EntryReceivers(Frozen):
    """Which receivers of an organization have accepted what an entry of its audit log made Postern send. The caller may read the log."""

    lookup: EntryReceiverLookup
    clock: Clock
    deliveries_kept: timedelta

    async def of_entry(self, organization: OrganizationId, entry: AuditEntryId) -> EntryReceipts:
        """Raises `NotFound`, also for an entry of another organization."""
        return self._heard(found(await self.lookup.of_entry(organization, entry), "There is no such entry"))

    async def of_person(self, organization: OrganizationId, person: UserId) -> Sequence[EntryReceipts]:
        """The newest entries that end or weaken the person's access. Empty for somebody whom the log does not name."""
        return [self._heard(one) for one in await self.lookup.of_person(organization, person)]

    async def open_of_entries(self, organization: OrganizationId, entries: Sequence[AuditEntryId]) -> Mapping[AuditEntryId, EntryReceipts]:
        """Of each entry that the log has, the receivers that may not have accepted it."""
        return {one.act.id: self._heard(one) for one in await self.lookup.open_of_entries(organization, entries)}

    def _heard(self, facts: ActFacts) -> EntryReceipts:
        now = self.clock.now()
        receivers = [receiver_of(one, facts.act, self.deliveries_kept, now) for one in facts.receivers[:MOST_RECEIVERS]]
        return EntryReceipts(facts.act, receivers, is_whole=len(facts.receivers) <= MOST_RECEIVERS)


class RecentChanges(Frozen):
    changed_settings: ChangedSettings
    clock: Clock

    async def list(self, organization: OrganizationId | None, place: str, thing: str | None) -> Sequence[ChangedSetting]:
        """The changes of the last ten minutes on the page at this address, the newest first, of the thing that is there now. The caller may
        change the settings.
        """
        return await self.changed_settings.list(organization, place, thing, self.clock.now() - KEPT_FOR)


log = structlog.get_logger()

Due_contra = TypeVar("Due_contra", bound=DueDelivery, contravariant=True)


class OpenReceiver(Frozen, Generic[To]):
    """A claimed receiver that can be called. Deliveries are signed with the receiver's `secrets`, if it has any."""

    claimed: To
    destination: OutboundDestination
    secrets: Sequence[Secret] = ()

    @property
    def organization(self) -> OrganizationId:
        return self.claimed.organization

    @property
    def is_failing(self) -> bool:
        return self.claimed.is_failing


class Receivers(Protocol[To, Due_contra]):
    """The behavior that each kind of receiver (webhooks, logout notices) defines for itself. `attempted` is the name of the log event for
    an attempt. `unreadable` is the name of the log event for a receiver whose stored address or secret cannot be read.
    """

    kind: ReceiverKind
    rules: DeliveryRules
    attempted: str
    unreadable: str

    def opened(self, claimed: To) -> OpenReceiver[To] | None:
        """Returns None when the receiver cannot be called now; the log says why. Any error counts as unreadable."""

    async def request(self, receiver: OpenReceiver[To], due: Due_contra) -> OutboundRequest:
        """Makes the request of one attempt. Another attempt makes its own request."""

    def logged(self, claimed: To, due: Due_contra | None = None) -> Mapping[str, str]:
        """Returns the log fields of a receiver, or of a delivery to this receiver."""

    def count(self, due: Due_contra, outcome: DeliveryOutcome, seconds: float) -> None:
        """Counts the outcome in the metrics."""

    async def settled(self, claimed: To, failing_since: datetime | None) -> None:
        """Called after outcomes were stored, possibly twice. `failing_since` is the time since which the receiver has only failed, if it
        has.
        """


class Deliveries(Frozen, Generic[To, Due]):
    receivers: Receivers[To, Due]
    queue: DeliveryQueue[To, Due]
    outbound: Outbound
    clock: Clock
    spread: Callable[[], float]
    reach: OutboundReach

    async def claim(self, limit: int, *, failing: bool, busy: Sequence[OrganizationId] = ()) -> Sequence[OpenReceiver[To]]:
        """Claims receivers for the dispatcher, which releases each of them again."""
        return [
            receiver
            for claimed in await self.queue.claim(limit, LEASE, failing=failing, busy=busy)
            if (receiver := await self._opened(claimed)) is not None
        ]

    async def due_in(self) -> float | None:
        """The seconds until a receiver can be claimed. None when nothing waits."""
        return await self.queue.due_in()

    async def due(self, receiver: OpenReceiver[To]) -> Sequence[Due]:
        return await self.queue.due(receiver.claimed, BATCH)

    async def attempt(self, receiver: OpenReceiver[To], due: Due, elapsed: Callable[[], float]) -> DeliveryOutcome:
        """`elapsed` tells the seconds of the attempt so far."""
        rules = self.receivers.rules
        request = await self.receivers.request(receiver, due)
        try:
            answer = await self.outbound.post(request, ATTEMPT_TIMEOUT)
        except OutboundFailed as failed:
            outcome = rules.unanswered(due, failed.failure.value, self.spread())
        else:
            asked = answer.headers.get("retry-after")
            outcome = rules.answered(due, answer.status, answer.body, retry_after=asked, now=self.clock.now(), spread=self.spread())
        self.receivers.count(due, outcome, elapsed())
        self.reach.attempted(self.receivers.kind, receiver.claimed.id, receiver.organization, received=outcome.delivered)
        log.info(
            self.receivers.attempted,
            **self.receivers.logged(receiver.claimed, due),
            outcome=outcome.word,
            status=outcome.status_code,
            error=outcome.error,
            attempts=due.attempts + 1,
        )
        return outcome

    def broken(self, due: Due, elapsed: Callable[[], float]) -> DeliveryOutcome:
        """Returns the outcome of an attempt that raised an unexpected error."""
        outcome = self.receivers.rules.unanswered(due, BROKEN, self.spread())
        self.receivers.count(due, outcome, elapsed())
        return outcome

    async def settle(self, receiver: OpenReceiver[To], outcomes: Sequence[DeliveryOutcome]) -> None:
        """Stores the outcomes of attempts. May be repeated while the lease lasts."""
        await self.receivers.settled(receiver.claimed, await self.queue.settle(receiver.claimed, outcomes))

    async def release(self, receiver: OpenReceiver[To], rest: timedelta | None = None) -> None:
        await self.queue.release(receiver.claimed, rest)

    async def _opened(self, claimed: To) -> OpenReceiver[To] | None:
        receiver = None
        try:
            receiver = self.receivers.opened(claimed)
        except Exception:
            log.exception(self.receivers.unreadable, **self.receivers.logged(claimed))
        if receiver is None:
            await self.queue.release(claimed, UNREADABLE)
        return receiver
