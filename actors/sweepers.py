"""Sweepers look in rounds for what has become due, and do it in small batches with pauses, so that no request waits."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import datetime
from typing import Final, Protocol, TypeVar

import structlog
import trio

from actors.foundation import LONGEST_SILENCE, Mailbox, Mishaps, Outage, turned
from core.domain.errors import Overloaded, Unavailable
from core.domain.federation.directory_runs.runs import DirectoryStep
from core.domain.identifiers import UpstreamProviderId
from core.domain.platform.analytics import COUNTED_AT_ONCE
from core.domain.tenancy.domains import Domain
from core.frozen import Frozen
from core.usecases.federation.saml.configurations import Saml
from core.usecases.identity.account_endings import UnverifiedAccounts
from core.usecases.services.plans import Subscriptions
from core.usecases.tenancy.invitations import Invitations
from core.usecases.tenancy.texts import OwnTextChanges
from ports.metrics import Metrics
from ports.platform import LoginCounter
from ports.tenancy.connections import DueConnection

log = structlog.get_logger()
Due = TypeVar("Due")


# Takes the position where the last batch ended, and the most rows to handle. Returns how many rows were handled, and where the next batch
# begins.
SweepDue = Callable[[datetime | None, int], Awaitable[tuple[int, datetime | None]]]
# The reason, or None while the clock can be believed.
Doubt = Callable[[], Awaitable[str | None]]

_SHORTEST_BREATH: Final = 0.005
# A ring is often the first of many, so a sweep that it wakes waits for others, in seconds.
_GATHERING: Final = 1.0


class DueClock(Frozen):
    """`due_in` tells the seconds until something is due, and None when nothing waits. `mailbox` gets a message when that changes."""

    mailbox: Mailbox
    due_in: Callable[[], Awaitable[float | None]]


class DueSweeper:
    """Looks for due rows of the database.

    `tell` logs how many rows a round handled, if there were any. `doubt` says why the clock cannot be believed: nothing is handled then.
    Sweepers that end something for good need it, since a wrong clock must end nothing. `quiet` is the interval after a round that found
    nothing, where that may be longer. A sweeper with a `clock` looks when something is due, and not at intervals.
    """

    def __init__(
        self,
        name: str,
        sweep_due: SweepDue,
        tell: Callable[[int], None],
        *,
        spread: Callable[[], float],
        interval: float,
        batch: int,
        quiet: float | None = None,
        doubt: Doubt | None = None,
        clock: DueClock | None = None,
    ) -> None:
        self.name = name
        self._quiet = interval if quiet is None else quiet
        self._clock = clock
        self._doubt = doubt
        self._sweep_due = sweep_due
        self._tell = tell
        self._spread = spread
        self._interval = interval
        self._batch = batch
        self._outage = Outage(name, spread)

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        task_status.started()
        turned(pause=self._interval)
        # Processes that start together should not sweep together. If they do, each process skips the rows that another has locked.
        await trio.sleep(self._interval * self._spread())
        while True:
            swept = await self.sweep()
            if self._clock is not None:
                if await self._outage.until_due(self._clock.mailbox, self._clock.due_in, shortest=self._interval):
                    await trio.sleep(_GATHERING)
                continue
            interval = self._interval if swept else self._quiet
            turned(pause=interval * 1.2)
            await trio.sleep(interval * (1 + self._spread() / 5))

    async def sweep(self) -> int:
        """Handles every row that is due now. Returns how many there were."""
        total = 0
        # Each batch begins where the last one ended. Walking again over dead index entries would make a long sweep slower and slower.
        since: datetime | None = None
        while True:
            began = trio.current_time()
            swept, since = await self._sweep_batch(since)
            total += swept
            turned(pause=self._interval * 1.2)
            if swept < self._batch:
                break
            # As long as the batch took, so that the sweep never uses more than half of a connection's time.
            await trio.sleep(max(_SHORTEST_BREATH, trio.current_time() - began))
        if total:
            self._tell(total)
        return total

    async def _sweep_batch(self, since: datetime | None) -> tuple[int, datetime | None]:
        if self._doubt is not None and await self._outage.wait_out(self._doubt) is not None:
            return 0, since
        return await self._outage.wait_out(lambda: self._sweep_due(since, self._batch))


# A person who answers one of these invitations may have to wait for the whole batch, so the batch is small.
def invitation_sweeper(
    invitations: Invitations, *, doubt: Doubt, spread: Callable[[], float], interval: float = 60.0, batch: int = 50
) -> DueSweeper:
    """Closes overdue invitations."""

    def tell(total: int) -> None:
        log.info("invitations_expired", invitations=total)

    return DueSweeper(
        "invitation_sweeper",
        invitations.expire_due,
        tell,
        spread=spread,
        interval=interval,
        batch=batch,
        doubt=doubt,
        # Nobody rings: an invitation lasts for days, and the sweeper asks for the next time every two minutes.
        clock=DueClock(Mailbox(), invitations.due_in),
    )


# Tokens and answers notice at once that a period has ended. Lists, counts and subscribers of events notice when it is marked. The interval
# is the wait for a row that somebody holds, or for a clock that can be believed.
# A request that changes one of these subscriptions or their plans may have to wait for the whole batch, so the batch is small.
def subscription_expirer(
    subscriptions: Subscriptions, mailbox: Mailbox, *, doubt: Doubt, spread: Callable[[], float], interval: float = 15.0, batch: int = 100
) -> DueSweeper:
    """Sets active subscriptions whose period has ended to expired."""

    def tell(total: int) -> None:
        log.info("subscriptions_expired", subscriptions=total)

    return DueSweeper(
        "subscription_expirer",
        subscriptions.expire_due,
        tell,
        spread=spread,
        interval=interval,
        batch=batch,
        doubt=doubt,
        clock=DueClock(mailbox, subscriptions.due_in),
    )


# Deleting an account takes a dozen statements, and somebody who proves its address waits for the whole batch, so the batch is small.
def registration_sweeper(
    accounts: UnverifiedAccounts, *, doubt: Doubt, spread: Callable[[], float], interval: float = 3600.0, batch: int = 20
) -> DueSweeper:
    """Ends accounts that nobody ever used, and whose address nobody has proved in time."""
    ended = 0

    async def end(since: datetime | None, limit: int) -> tuple[int, datetime | None]:
        nonlocal ended
        look = await accounts.end_due(since, limit)
        ended += look.ended
        return look.looked_at, look.last

    def tell(_looked_at: int) -> None:
        nonlocal ended
        if ended:
            log.info("registrations_lapsed", accounts=ended)
        ended = 0

    return DueSweeper("registration_sweeper", end, tell, spread=spread, interval=interval, batch=batch, doubt=doubt)


def saml_certificate_watcher(saml: Saml, *, spread: Callable[[], float], interval: float = 3600.0) -> DueSweeper:
    """Tells owners before a certificate ends. If two processes look together, one of them writes each mail."""

    async def warn(_since: datetime | None, limit: int) -> tuple[int, None]:
        return await saml.warn_of_ends(limit), None

    def tell(total: int) -> None:
        log.info("saml_certificates_end", certificates=total)

    return DueSweeper("saml_certificate_watcher", warn, tell, spread=spread, interval=interval, batch=1000)


def own_text_comparer(texts: OwnTextChanges, *, spread: Callable[[], float], interval: float = 3600.0, batch: int = 500) -> DueSweeper:
    """Finds own texts beneath which a release has changed ours. After each of them was compared once, it finds none."""

    async def compare(_since: datetime | None, limit: int) -> tuple[int, None]:
        return await texts.compare_with_ours(limit), None

    def tell(total: int) -> None:
        log.info("own_texts_compared", texts=total)

    return DueSweeper("own_text_comparer", compare, tell, spread=spread, interval=interval, batch=batch)


def login_counter(
    counter: LoginCounter, *, spread: Callable[[], float], interval: float = 10.0, quiet: float = LONGEST_SILENCE
) -> DueSweeper:
    """Adds sign-ins to the counts of their hours. A lock in the database lets one process count at a time. A reader of the counts adds the
    sign-ins that are not counted yet, so a slow counter makes no figure wrong.
    """

    async def count(_since: datetime | None, limit: int) -> tuple[int, None]:
        return await counter.count(limit), None

    def tell(total: int) -> None:
        log.debug("logins_counted", logins=total)

    return DueSweeper("login_counter", count, tell, spread=spread, interval=interval, quiet=quiet, batch=COUNTED_AT_ONCE)


CLAIMING_INTERVAL: Final = 600.0
# All things of a batch have their turn at the same time, each for seconds at most, because others run the servers that are asked, which may
# be slow.
CLAIMING_BATCH: Final = 8


def claiming_sweeper(
    name: str,
    claim_due: Callable[[int], Awaitable[Sequence[Due]]],
    handle: Callable[[Due], Awaitable[None]],
    *,
    about: Callable[[Due], Mapping[str, str]],
    left: str,
    tell: Callable[[int], None],
    metrics: Metrics,
    spread: Callable[[], float],
    interval: float,
    batch: int,
) -> DueSweeper:
    """Returns a sweeper of objects that are elsewhere: each object has its turn, and no other process has it for as long as its turn takes.

    `about` names a thing in the log. `left` is the log's event for a turn that an outage has ended.
    """
    mishaps = Mishaps(name, metrics)

    async def turn(due: Due) -> None:
        """One turn. A failure does not stop the turns of the others. The thing has its next turn when its lease ends."""
        try:
            await handle(due)
        except (Unavailable, Overloaded) as error:
            log.warning(left, actor=name, detail=error.detail, **about(due))
        except Exception as error:  # noqa: BLE001 - a mishap of this thing must not stop the others
            mishaps.tell(error, **about(due))

    async def handle_due(_since: datetime | None, limit: int) -> tuple[int, None]:
        """One batch. What is claimed is no longer due, whether its turn succeeds or fails. So a batch needs no position where the last
        batch ended.
        """
        claimed = await claim_due(limit)
        async with trio.open_nursery() as nursery:
            for due in claimed:
                nursery.start_soon(turn, due)
        return len(claimed), None

    return DueSweeper(name, handle_due, tell, spread=spread, interval=interval, batch=batch)


class RefreshedConnections(Protocol):
    """The use case that owns the connections' turns."""

    async def claim_due(self, limit: int) -> Sequence[DueConnection]: ...

    async def refresh(self, due: DueConnection, /) -> None: ...


def connection_refresher(
    connections: RefreshedConnections,
    *,
    metrics: Metrics,
    spread: Callable[[], float],
    interval: float = CLAIMING_INTERVAL,
    batch: int = CLAIMING_BATCH,
) -> DueSweeper:
    """Each connection of an organization has its turn every day. Its metadata are read again, and owners are warned of certificates that
    expire.
    """

    def tell(total: int) -> None:
        log.info("connections_refreshed", actor="connection_refresher", connections=total)

    return claiming_sweeper(
        "connection_refresher",
        connections.claim_due,
        connections.refresh,
        about=lambda due: {"connection": str(due.provider.id)},
        left="connection_refresh_left",
        tell=tell,
        metrics=metrics,
        spread=spread,
        interval=interval,
        batch=batch,
    )


_EVERY: Final = 60.0
# Runs are long, and each holds identities.
_AT_ONCE: Final = 2
# Reading has its own bounds. This is one for all of it, so that no run is under way for good.
_LONGEST: Final = 3600.0


class KeptDirectories(Protocol):
    """The use case that owns the runs."""

    async def claim_due(self, limit: int) -> Sequence[DirectoryStep]: ...

    async def run(self, step: DirectoryStep, /) -> None: ...


def directory_keeper(
    directories: KeptDirectories,
    *,
    metrics: Metrics,
    spread: Callable[[], float],
    interval: float = _EVERY,
    batch: int = _AT_ONCE,
) -> DueSweeper:
    """Each LDAP connection that syncs has a run when its interval is over. An owner who continues a run waits for it, so the sweeper looks
    every minute. A run takes as long as its directory does, which may be slow on purpose: it takes one place, and the other places continue
    with the runs of others.
    """

    def tell(total: int) -> None:
        log.info("directories_kept_in_step", actor="directory_keeper", connections=total)

    under_way: dict[UpstreamProviderId, UpstreamProviderId] = {}

    async def beat() -> None:
        """A run is no turn that hangs."""
        while True:
            turned(pause=interval)
            await trio.sleep(interval)

    async def one(step: DirectoryStep) -> None:
        with trio.move_on_after(_LONGEST) as scope:
            await directories.run(step)
        if scope.cancelled_caught:
            log.warning("directory_run_too_long", connection=str(step.connection))

    async def in_place(claimed: DirectoryStep) -> None:
        """The run, and then what is due besides: who waits for a place does not wait for the run in the other one."""
        due: Sequence[DirectoryStep] = [claimed]
        async with trio.open_nursery() as nursery:
            nursery.start_soon(beat)
            while due:
                under_way[claimed.connection] = due[0].connection
                await one(due[0])
                due = await directories.claim_due(1)
            nursery.cancel_scope.cancel()

    return claiming_sweeper(
        "directory_keeper",
        directories.claim_due,
        in_place,
        about=lambda step: {"connection": str(under_way.pop(step.connection, step.connection))},
        left="directory_run_stopped",
        tell=tell,
        metrics=metrics,
        spread=spread,
        interval=interval,
        batch=batch,
    )


Proved = TypeVar("Proved", bound=Domain)


class ProvedDomains(Protocol[Proved]):
    """The use case that owns the proved domains."""

    async def claim_due(self, limit: int) -> Sequence[Proved]: ...

    async def recheck(self, domain: Proved, /) -> None: ...


def domain_checker(
    name: str,
    domains: ProvedDomains[Proved],
    *,
    metrics: Metrics,
    spread: Callable[[], float],
    interval: float = CLAIMING_INTERVAL,
    batch: int = CLAIMING_BATCH,
) -> DueSweeper:
    def tell(total: int) -> None:
        log.info("domains_checked", actor=name, domains=total)

    return claiming_sweeper(
        name,
        domains.claim_due,
        domains.recheck,
        about=lambda domain: {"domain": domain.name},
        left="domain_check_left",
        tell=tell,
        metrics=metrics,
        spread=spread,
        interval=interval,
        batch=batch,
    )
