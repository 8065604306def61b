"""Turns for news of the payment provider. What has just been taken is applied before the provider has its answer, if that is quick; when
much comes at once, the rest is left to the reconciler, and the provider is answered at once.
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
# In seconds, until a turn.
PATIENCE: Final = 0.02


class BillingTurns:
    """`mailbox` is the reconciler's. It gets a message when something is left."""

    def __init__(self, billing: Billing, mailbox: Mailbox, *, at_once: int = AT_ONCE, patience: float = PATIENCE) -> None:
        self._billing = billing
        self._mailbox = mailbox
        self._turns = trio.CapacityLimiter(at_once)
        self._patience = patience

    async def apply(self, news: News) -> None:
        """Never fails: the news are kept, and come up again."""
        if self._mailbox.is_full():
            # There is more than we can do at once. The reconciler takes all news of a subscription together.
            return
        with trio.move_on_after(self._patience):
            await self._turns.acquire()
            try:
                # Once begun, it is brought to its end.
                with trio.CancelScope(shield=True):
                    await self._billing.apply(news.subject or "", is_customer=news.is_about_customer)
            except (Unavailable, Overloaded) as error:
                log.warning("billing_event_left", event_id=news.id, detail=error.detail)
                self._mailbox.post()
            finally:
                self._turns.release()
            return
        self._mailbox.post()
