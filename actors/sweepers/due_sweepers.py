"""Due sweepers: actors that look in rounds for rows that have become due, and handle those rows. A sweeper works in small batches with
pauses, so that no request waits for a sweeper.
"""

from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import Final

import structlog
import trio

from actors.heartbeats import turned
from actors.outages import Outage
from core.domain.platform.analytics import COUNTED_AT_ONCE
from core.usecases.federation.saml.configurations import Saml
from core.usecases.identity.account_endings import UnverifiedAccounts
from core.usecases.services.plans import Subscriptions
from core.usecases.tenancy.invitations import Invitations
from core.usecases.tenancy.texts import OwnTextChanges
from ports.platform import LoginCounter

log = structlog.get_logger()

# Takes the position where the last batch ended, and the most rows to handle. Returns how many rows were handled, and where the next batch
# begins.
SweepDue = Callable[[datetime | None, int], Awaitable[tuple[int, datetime | None]]]
# The reason, or None while the clock can be believed.
Doubt = Callable[[], Awaitable[str | None]]

_SHORTEST_BREATH: Final = 0.005


class DueSweeper:
    """`tell` logs how many rows a round handled, if there were any. `doubt` says why the clock cannot be believed: nothing is handled then.
    Sweepers that end something for good need it, since a wrong clock must end nothing.
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
        doubt: Doubt | None = None,
    ) -> None:
        self.name = name
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
            await self.sweep()
            await trio.sleep(self._interval * (1 + self._spread() / 5))

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

    return DueSweeper("invitation_sweeper", invitations.expire_due, tell, spread=spread, interval=interval, batch=batch, doubt=doubt)


# Tokens and answers notice at once that a period has ended. Lists, counts and subscribers of events notice after the interval at most.
# A request that changes one of these subscriptions or their plans may have to wait for the whole batch, so the batch is small.
def subscription_expirer(
    subscriptions: Subscriptions, *, doubt: Doubt, spread: Callable[[], float], interval: float = 15.0, batch: int = 100
) -> DueSweeper:
    """Sets active subscriptions whose period has ended to expired."""

    def tell(total: int) -> None:
        log.info("subscriptions_expired", subscriptions=total)

    return DueSweeper("subscription_expirer", subscriptions.expire_due, tell, spread=spread, interval=interval, batch=batch, doubt=doubt)


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


def login_counter(counter: LoginCounter, *, spread: Callable[[], float], interval: float = 10.0) -> DueSweeper:
    """Adds sign-ins to the counts of their hours. A lock in the database lets one process count at a time. A reader of the counts adds the
    sign-ins that are not counted yet, so a slow counter makes no figure wrong.
    """

    async def count(_since: datetime | None, limit: int) -> tuple[int, None]:
        return await counter.count(limit), None

    def tell(total: int) -> None:
        log.debug("logins_counted", logins=total)

    return DueSweeper("login_counter", count, tell, spread=spread, interval=interval, batch=COUNTED_AT_ONCE)
