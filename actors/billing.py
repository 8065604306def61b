"""Applies events of the payment provider: in the request that brings them, or later in the reconciler."""

from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Final

import structlog
import trio

from actors.foundation import Mailbox, Mishaps, Outage, turned
from core.domain.errors import Overloaded, Unavailable
from core.domain.services.billing_news import News
from core.usecases.services.billing import Billing
from core.usecases.services.billing_reconciliation import BillingReconciliation
from ports.metrics import Metrics
from ports.services.billing import BillingInbox, PaymentUnavailable
from ports.system import Clock

log = structlog.get_logger()


AT_ONCE: Final = 4
# The most seconds that a request waits for a turn.
TURN_PATIENCE: Final = 0.02


class BillingTurns:
    """Events that a request has just stored are applied before the provider gets its response, if that is quick. When many events come at
    once, the provider gets its response at once, and the reconciler applies the rest.

    `mailbox` is the reconciler's. The mailbox gets a message when news are left for the reconciler.
    """

    def __init__(self, billing: Billing, mailbox: Mailbox, *, at_once: int = AT_ONCE, patience: float = TURN_PATIENCE) -> None:
        self._billing = billing
        self._mailbox = mailbox
        self._turns = trio.CapacityLimiter(at_once)
        self._patience = patience

    async def apply(self, news: News) -> None:
        """Never raises for an outage: the news are stored, and the reconciler applies them later."""
        if self._mailbox.is_full():
            # News come faster than turns can apply them. The reconciler applies all news of a subscription together.
            return
        applied = False
        try:
            with trio.move_on_after(self._patience):
                await self._turns.acquire()
                try:
                    # News whose application has begun are applied to the end.
                    with trio.CancelScope(shield=True):
                        applied = await self._billing.apply(news.subject or "", is_customer=news.is_about_customer)
                except (Unavailable, Overloaded) as error:
                    log.warning("billing_event_left", event_id=news.id, detail=error.detail)
                finally:
                    self._turns.release()
        finally:
            if not applied:
                self.leave()

    def leave(self) -> None:
        """There may be news that nobody has applied."""
        self._mailbox.post()


# A claim of a moment ago that failed is tried again after this time.
_POLL: Final = 2.0
_BATCH: Final = 400
_HANDS: Final = 6
# News younger than this are left to the request that stored them.
_YOUNG: Final = timedelta(seconds=1)
# The pause between two questions to the provider. The provider allows a hundred a second, and checkouts come first.
_BREATH: Final = 0.1
_REST: Final = 30.0
# The reconciler polls because no message announces that a question is due.
_ASK: Final = 30.0


class BillingReconciler:
    """Applies events that no request has applied, asks the payment provider about subscriptions whose events are overdue, and cancels
    subscriptions at the provider whose user, application or record is gone here. The reconciler asks slowly, and pauses when the provider
    asks for it.
    """

    name = "billing_reconciler"

    def __init__(
        self,
        billing: Billing,
        reconciliation: BillingReconciliation,
        inbox: BillingInbox,
        mailbox: Mailbox,
        *,
        metrics: Metrics,
        clock: Clock,
        spread: Callable[[], float],
        poll: float = _POLL,
        ask: float = _ASK,
        breath: float = _BREATH,
        rest: float = _REST,
        young: timedelta = _YOUNG,
    ) -> None:
        self._billing = billing
        self._reconciliation = reconciliation
        self._inbox = inbox
        self._mailbox = mailbox
        self._clock = clock
        self._spread = spread
        self._poll = poll
        self._ask = ask
        self._breath = breath
        self._rest = rest
        self._young = young
        self._mishaps = Mishaps(self.name, metrics)
        self._outages = (Outage(self.name, spread), Outage(self.name, spread))

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        async with trio.open_nursery() as nursery:
            task_status.started()
            nursery.start_soon(self._apply_forever)
            if self._reconciliation.is_set_up:
                nursery.start_soon(self._ask_forever)

    async def _apply_forever(self) -> None:
        while True:
            turned(pause=self._poll * 1.2)
            self._mailbox.empty()
            applied = await self._outages[0].wait_out(self.apply_due)
            if not applied and await self._outages[0].until_due(self._mailbox, self._due_in, shortest=self._poll):
                await trio.sleep(self._young.total_seconds())

    async def _due_in(self) -> float | None:
        due = await self._inbox.next_due()
        return None if due is None else (due + self._young - self._clock.now()).total_seconds()

    async def apply_due(self) -> int:
        """Applies one batch of waiting news. Returns how many subjects the batch was about."""
        due = await self._inbox.due(self._clock.now() - self._young, _BATCH)
        hands = trio.CapacityLimiter(_HANDS)

        failures: list[Exception] = []

        async def apply(one: tuple[str, bool]) -> None:
            subject, is_customer = one
            try:
                async with hands:
                    await self._billing.apply(subject, is_customer=is_customer)
            except (Unavailable, Overloaded) as error:
                failures.append(error)

        async with trio.open_nursery() as nursery:
            for one in due:
                nursery.start_soon(apply, one)
        if failures:
            raise failures[0]
        return len(due)

    async def _ask_forever(self) -> None:
        # Processes that start together should not ask together.
        turned(pause=self._breath, part="asking")
        await trio.sleep(self._breath * self._spread())
        while True:
            try:
                await self._outages[1].wait_out(self.ask_all)
            except PaymentUnavailable as away:
                pause = self._rest if away.after is None else max(self._rest, away.after.total_seconds())
                log.warning("billing_provider_away", reason=away.reason, again_in=round(pause, 1))
                turned(pause=pause * 1.2, part="asking")
                await trio.sleep(pause * (1 + self._spread() / 5))
            else:
                turned(pause=self._ask * 1.2, part="asking")
                await trio.sleep(self._ask * (1 + self._spread() / 5))

    async def ask_all(self) -> None:
        """Asks about everything that is due, slowly, the most urgent first. Raises `PaymentUnavailable`."""
        steps: tuple[Callable[[], Awaitable[bool]], ...] = (
            self._reconciliation.cancel_one,
            self._reconciliation.check_one,
            self._reconciliation.sweep_page,
        )
        while True:
            for step in steps:
                if await self._done(step):
                    break
            else:
                return
            turned(pause=self._ask * 1.2, part="asking")
            await trio.sleep(self._breath)

    async def _done(self, step: Callable[[], Awaitable[bool]]) -> bool:
        """Runs one step. After a mishap, the subscription that the step had claimed comes up again when the claim has run out."""
        try:
            return await step()
        except (PaymentUnavailable, Unavailable, Overloaded):
            raise
        except Exception as error:  # noqa: BLE001 - a mishap with one subscription must not stop the others
            self._mishaps.tell(error)
            return False
