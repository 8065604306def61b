"""Turns for news of the payment provider. News that a request has just stored are applied before the provider gets its response, if that is
quick. When many news come at once, the provider gets its response at once, and the reconciler applies the rest.
"""

from typing import Final

import structlog
import trio

from actors.mailbox import Mailbox
from core.domain.errors import Overloaded, Unavailable
from core.domain.services.billing_news import News
from core.usecases.services.billing import Billing

log = structlog.get_logger()

AT_ONCE: Final = 4
# The most seconds that a request waits for a turn.
PATIENCE: Final = 0.02


class BillingTurns:
    """`mailbox` is the reconciler's. The mailbox gets a message when news are left for the reconciler."""

    def __init__(self, billing: Billing, mailbox: Mailbox, *, at_once: int = AT_ONCE, patience: float = PATIENCE) -> None:
        self._billing = billing
        self._mailbox = mailbox
        self._turns = trio.CapacityLimiter(at_once)
        self._patience = patience

    async def apply(self, news: News) -> None:
        """Never raises for an outage: the news are stored, and the reconciler applies them later."""
        if self._mailbox.is_full():
            # News come faster than turns can apply them. The reconciler applies all news of a subscription together.
            return
        with trio.move_on_after(self._patience):
            await self._turns.acquire()
            try:
                # News whose application has begun are applied to the end.
                with trio.CancelScope(shield=True):
                    await self._billing.apply(news.subject or "", is_customer=news.is_about_customer)
            except (Unavailable, Overloaded) as error:
                log.warning("billing_event_left", event_id=news.id, detail=error.detail)
                self._mailbox.post()
            finally:
                self._turns.release()
            return
        self._mailbox.post()
