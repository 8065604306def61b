"""Watchers, which look at something at intervals, and report its state to this process or its metrics."""

from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from functools import partial
from typing import Final

import structlog
import trio

from actors.foundation import LONGEST_SILENCE, Mailbox, Mishaps, Outage, turned
from core.domain.errors import Overloaded, Unavailable
from core.domain.identifiers import OrganizationId
from core.domain.tokens import clocks_differ
from core.usecases.identity.account_passwords import ForeignHashes
from core.usecases.installation_words import KeptInstallationWords
from core.usecases.outbound_reach import OutboundReach
from core.usecases.tenancy.hook_asking import MOST_NAMED, HookWaits
from core.usecases.tenancy.receivers.offboarding import LateReceivers
from ports.crypto import WatchedFile
from ports.database import Database
from ports.federation.signals import SignalPolls
from ports.metrics import Metrics
from ports.platform import GaugeReader, StorageSamples
from ports.system import Clock

log = structlog.get_logger()


_INTERVAL: Final = 1.0


class DatabaseWatcher:
    """Measures the pool, ends the waits for a server that hangs, finds among several hosts the one that takes writes, and reports whether
    one does. It needs no response of the database, so it continues while every other actor waits.
    """

    name = "database_watcher"

    def __init__(self, metrics: Metrics, database: Database) -> None:
        self._metrics = metrics
        self._database = database

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        task_status.started()
        while True:
            turned(pause=_INTERVAL)
            self._metrics.pool(self._database.pool_state())
            self._metrics.connections_given_up(await self._database.give_up_hung())
            self._metrics.database_hosts(await self._database.look_at_hosts())
            self._metrics.writes_failing(await self._database.write_failure())
            await trio.sleep(_INTERVAL)


class InstallationWordsReader:
    """Reads the installation's custom texts and the rules for approvals: each process reads them at its start, and again whenever somebody
    has changed them, in whichever process.
    """

    name = "installation_words_reader"

    def __init__(
        self,
        words: KeptInstallationWords,
        mailbox: Mailbox,
        *,
        spread: Callable[[], float],
        interval: float = LONGEST_SILENCE,
    ) -> None:
        self._words = words
        self._mailbox = mailbox
        self._interval = interval
        self._outage = Outage(self.name, spread)

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        task_status.started()
        while True:
            turned(pause=self._interval)
            self._mailbox.empty()
            await self._outage.wait_out(self._words.read)
            await self._mailbox.wait(self._interval)


# The pause between two looks, so that a rush of signals costs few of them.
_LOOKS_APART: Final = 0.05


class SignalPollWaker:
    """Wakes polls that wait in this process. One look is for all of them. With the actor, the waits end, too."""

    name = "signal_poll_waker"

    def __init__(self, polls: SignalPolls, mailbox: Mailbox, *, spread: Callable[[], float]) -> None:
        self._polls = polls
        self._mailbox = mailbox
        self._outage = Outage(self.name, spread)

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        self._polls.open()
        task_status.started()
        try:
            while True:
                turned(pause=LONGEST_SILENCE)
                self._mailbox.empty()
                await self._outage.wait_out(self._polls.look)
                await trio.sleep(_LOOKS_APART)
                await self._mailbox.wait(LONGEST_SILENCE)
        finally:
            self._polls.close()


_FOREIGN_HASH_INTERVAL: Final = 60.0
# Counting reads as many entries of an index as there are such hashes, so it is done in every fifteenth round.
_ROUNDS_BETWEEN_COUNTS: Final = 15


class ForeignHashWatcher:
    name = "foreign_hash_watcher"

    def __init__(self, foreign_hashes: ForeignHashes, *, spread: Callable[[], float]) -> None:
        self._foreign_hashes = foreign_hashes
        self._outage = Outage(self.name, spread)

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        task_status.started()
        rounds = 0
        while True:
            turned(pause=_FOREIGN_HASH_INTERVAL)
            remain = await self._outage.wait_out(self._foreign_hashes.look)
            if not remain or not rounds % _ROUNDS_BETWEEN_COUNTS:
                await self._outage.wait_out(partial(self._foreign_hashes.count, remain=remain))
            rounds = rounds + 1 if remain else 0
            await trio.sleep(_FOREIGN_HASH_INTERVAL)


# The documentation of the metrics promises this interval.
_METRICS_REFRESHER_INTERVAL: Final = 30.0


class MetricsRefresher:
    name = "metrics_refresher"

    def __init__(
        self,
        metrics: Metrics,
        *,
        database: Database,
        gauges: GaugeReader,
        key_ages: Callable[[Mapping[str, datetime]], Mapping[str, timedelta]],
        clock: Clock,
        spread: Callable[[], float],
    ) -> None:
        """`key_ages` takes since when each current signing key has been in force, by purpose, and returns the age of every key in force."""
        self._metrics = metrics
        self._database = database
        self._gauges = gauges
        self._key_ages = key_ages
        self._clock = clock
        self._outage = Outage(self.name, spread)
        self._clocks_differ = False

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        task_status.started()
        while True:
            turned(pause=_METRICS_REFRESHER_INTERVAL)
            pause = _METRICS_REFRESHER_INTERVAL
            try:
                await self._ask_database()
            except (Unavailable, Overloaded) as error:
                pause = min(pause, self._outage.began(error))
            else:
                self._outage.over()
            await trio.sleep(pause)

    async def _ask_database(self) -> None:
        await self._compare_clocks()
        found = await self._gauges.read()
        self._metrics.population(found.population)
        waited = {state.kind: self._since(state.oldest_due) for state in found.queue if state.oldest_due is not None}
        self._metrics.queue(found.queue, waited)
        self._metrics.audit_backlog(found.audit.pending, self._waited(found.audit.oldest))
        self._metrics.billing_waiting(found.billing.events, self._waited(found.billing.oldest))
        self._metrics.backup_checked(found.backup_checked)
        self._metrics.directory_runs(found.directories.waiting, found.directories.failing)
        for purpose, age in self._key_ages(found.keys_since).items():
            self._metrics.key_age(purpose, age)

    async def _compare_clocks(self) -> None:
        # During an outage, the next statement says so.
        if not await self._database.ping():
            return
        ahead = self._database.clock_ahead
        self._metrics.clock_ahead(ahead)
        differ = clocks_differ(ahead)
        if differ:
            log.warning("clocks_differ", ahead_of_database=round(ahead.total_seconds(), 3))
        elif self._clocks_differ:
            log.info("clocks_agree")
        self._clocks_differ = differ

    def _waited(self, since: datetime | None) -> timedelta | None:
        return None if since is None else self._since(since)

    def _since(self, moment: datetime) -> timedelta:
        return max(self._clock.now() - moment, timedelta(0))


_OUTBOUND_WATCHER_INTERVAL: Final = 60.0


class OutboundWatcher:
    """However many deliveries fail, and however many hooks are slow: one line a minute of each.

    Reports once a minute whom this process reaches of all that it sends to receivers of organizations, and which hooks delay sign-ins.
    """

    name = "outbound_watcher"

    def __init__(self, reach: OutboundReach, waits: HookWaits, metrics: Metrics, *, interval: float = _OUTBOUND_WATCHER_INTERVAL) -> None:
        self._reach = reach
        self._waits = waits
        self._metrics = metrics
        self._interval = interval

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        task_status.started()
        while True:
            turned(pause=self._interval)
            self.look()
            self.look_at_hooks()
            await trio.sleep(self._interval)

    def look_at_hooks(self) -> None:
        """The log names organizations. The metrics do not: anybody may read those of an installation without a token for them."""
        slow = self._waits.slow()
        self._metrics.hooks_slow(len(slow))
        if slow:
            named = [{"hook": str(one.hook), "organization": _named(one.organization), "seconds": one.seconds} for one in slow[:MOST_NAMED]]
            log.warning("hooks_slow", hooks=len(slow), slowest=named)

    def look(self) -> None:
        reached, attempts = self._reach.look()
        for kind, receivers in reached.receivers.items():
            self._metrics.receivers_reached(kind.value, receivers.reached, receivers.failed)
        self._metrics.organizations_reached(reached.organizations.reached, reached.organizations.failed)
        failing = {
            kind.value: {"failed": one.failed, "received": one.received, "failing_receivers": one.failing_receivers}
            for kind, one in attempts.items()
            if one.failed
        }
        if failing:
            log.warning("deliveries_failing", **failing)


def _named(organization: OrganizationId | None) -> str | None:
    return None if organization is None else str(organization)


_OFFBOARDING_WATCHER_INTERVAL: Final = 60.0
_LONGEST_LOOK: Final = 300.0


class OffboardingWatcher:
    """Looks once a minute for receivers that miss the deadline of their organization."""

    name = "offboarding_watcher"

    def __init__(
        self,
        receivers: LateReceivers,
        *,
        metrics: Metrics,
        spread: Callable[[], float],
        interval: float = _OFFBOARDING_WATCHER_INTERVAL,
    ) -> None:
        self._receivers = receivers
        self._interval = interval
        self._outage = Outage(self.name, spread)
        self._mishaps = Mishaps(self.name, metrics)

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        task_status.started()
        while True:
            # However many acts of a mass removal there are, a look takes some minutes at most.
            turned(pause=self._interval + _LONGEST_LOOK)
            try:
                await self._outage.wait_out(self._receivers.look)
            except Exception as error:  # noqa: BLE001 - no act waits for it, so a mishap must not stop the process
                self._mishaps.tell(error)
            await trio.sleep(self._interval)


_PASSWORD_FILTER_WATCHER_INTERVAL: Final = 10.0


class PasswordFilterWatcher:
    """Opens the filter of breached passwords, looks every ten seconds for another, and reports what is in force."""

    name = "password_filter_watcher"

    def __init__(self, file: WatchedFile, metrics: Metrics) -> None:
        self._file = file
        self._metrics = metrics

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        task_status.started()
        while True:
            turned(pause=_PASSWORD_FILTER_WATCHER_INTERVAL)
            self._metrics.password_filter(await self._file.look())
            await trio.sleep(_PASSWORD_FILTER_WATCHER_INTERVAL)


_STORAGE_WATCHER_INTERVAL: Final = 3600.0


class StorageWatcher:
    name = "storage_watcher"

    def __init__(
        self, samples: StorageSamples, *, metrics: Metrics, spread: Callable[[], float], interval: float = _STORAGE_WATCHER_INTERVAL
    ) -> None:
        self._samples = samples
        self._metrics = metrics
        self._spread = spread
        self._interval = interval
        self._outage = Outage(self.name, spread)
        self._mishaps = Mishaps(self.name, metrics)

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        task_status.started()
        while True:
            for work in (self._keep, self._look):
                try:
                    await work()
                except Exception as error:  # noqa: BLE001 - no sign-in needs a sample, so a mishap must not stop the process
                    self._mishaps.tell(error)
            turned(pause=self._interval * 1.2)
            await trio.sleep(self._interval * (1 + self._spread() / 5))

    async def _keep(self) -> None:
        if await self._outage.wait_out(self._samples.keep):
            log.info("storage_sampled")

    async def _look(self) -> None:
        storage = await self._outage.wait_out(self._samples.look)
        self._metrics.stored(storage.bytes, {one.name: one.bytes for one in storage.tables})
