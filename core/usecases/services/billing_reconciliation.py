"""Reconciles subscriptions with the payment provider, for events that did not arrive."""

from datetime import timedelta
from typing import Final

import structlog

from core.domain.errors import Overloaded, Unavailable
from core.domain.services.billing import AGAIN, SWEEP
from core.domain.services.billing_news import Snapshot
from core.frozen import Frozen
from core.usecases.services.billing import Billing
from ports.metrics import Metrics
from ports.services.billing import BillingInbox, PaymentProvider, PaymentRefused, ProviderSubscriptions
from ports.system import Clock

log = structlog.get_logger()

# Longer than one page of the daily look, or one request to the provider, takes.
LEASE: Final = timedelta(minutes=5)


class Reconciled(Frozen):
    """The result of a look at all subscriptions."""

    looked_at: int = 0
    changed: int = 0


class BillingReconciliation(Frozen):
    """Only the provider ends a subscription that it manages. So a subscription that the provider does not mention, or does not know, stays
    as it is.
    """

    billing: Billing
    inbox: BillingInbox
    provider: PaymentProvider | None
    clock: Clock
    metrics: Metrics

    @property
    def is_set_up(self) -> bool:
        return self.provider is not None

    async def check_one(self) -> bool:
        """Asks the provider about one subscription whose check is due. False when no check is due. Raises `PaymentUnavailable`."""
        if self.provider is None:
            return False
        claimed = await self.inbox.claim_checks(1, self.clock.now() + LEASE)
        for subject in claimed:
            try:
                look = await self.provider.subscription(subject)
            except PaymentRefused as refused:
                # If the API key belongs to another account at the provider, the provider knows none of our subscriptions. So a refusal ends
                # no subscription.
                log.warning("billing_subscription_unknown", subject=subject, code=refused.code)
                self.metrics.billing_check("refused")
                await self.inbox.checked(subject, self.clock.now() + AGAIN)
            else:
                # Postern stores the provider's description even if nothing has changed: this settles doubts about the subscription and sets
                # the time of the next check.
                for found, snapshot in look.subscriptions.items():
                    await self._observe(found, snapshot, look)
        return bool(claimed)

    async def cancel_one(self) -> bool:
        """Ends one subscription whose person, service or record is gone. False when no such subscription is left. Raises
        `PaymentUnavailable`.
        """
        if self.provider is None:
            return False
        claimed = await self.inbox.claim_cancellations(1, self.clock.now() + LEASE)
        for subject in claimed:
            try:
                await self.provider.cancel(subject)
            except PaymentRefused as refused:
                # The inbox hands out this subscription again later, and waits longer after each refusal.
                log.warning("billing_cancellation_refused", subject=subject, code=refused.code)
            else:
                await self.inbox.cancelled(subject)
                log.info("billing_subscription_cancelled", subject=subject)
        return bool(claimed)

    async def sweep_page(self) -> bool:
        """Checks one page of the daily check of all subscriptions. False when no page is due. Raises `PaymentUnavailable`."""
        if self.provider is None:
            return False
        claimed = await self.inbox.claim_sweep(LEASE)
        if claimed is None:
            return False
        (cursor,) = claimed
        try:
            look = await self.provider.subscriptions(cursor)
        except PaymentRefused as refused:
            # The cursor is the last subscription of the page before, which may be gone: begin again at the first page.
            log.warning("billing_sweep_refused", code=refused.code)
            await self.inbox.swept(None, self.clock.now() + AGAIN)
            return False
        await self._take_in(look)
        now = self.clock.now()
        await self.inbox.swept(look.cursor, now if look.cursor is not None else now + SWEEP)
        return True

    async def reconcile(self) -> Reconciled:
        """Look at all subscriptions now. Raises `PaymentRefused` and `PaymentUnavailable`."""
        if self.provider is None:
            return Reconciled()
        looked_at = changed = 0
        cursor: str | None = None
        while True:
            look = await self.provider.subscriptions(cursor)
            looked_at += len(look.subscriptions)
            changed += await self._take_in(look)
            cursor = look.cursor
            if cursor is None:
                return Reconciled(looked_at, changed)

    async def _take_in(self, look: ProviderSubscriptions) -> int:
        """Apply a page. Returns how many of our records changed."""
        changed = 0
        again = await self.inbox.cancel_again([subject for subject, snapshot in look.subscriptions.items() if not snapshot.is_over])
        if again:
            log.warning("billing_cancellation_lost", subscriptions=again)
        differing = set(await self.inbox.differs(look.subscriptions))
        for subject, snapshot in look.subscriptions.items():
            if subject not in differing:
                self.metrics.billing_check("same")
                continue
            changed += await self._observe(subject, snapshot, look)
        return changed

    async def _observe(self, subject: str, snapshot: Snapshot, look: ProviderSubscriptions) -> bool:
        """Returns True when a record of ours changed. An unexpected error with one subscription is logged, so the look goes on with the
        others.
        """
        try:
            changed = await self.billing.observe(subject, snapshot, int(look.at.timestamp()))
        except (Unavailable, Overloaded):
            raise
        except Exception:
            log.exception("billing_look_failed", subject=subject)
            self.metrics.billing_check("failed")
            return False
        if not changed:
            self.metrics.billing_check("same")
            return False
        self.metrics.billing_check("drifted")
        log.warning("billing_drift", subject=subject, status=snapshot.status)
        return True
