"""The subscription expirer: writes down that the periods of active subscriptions have ended."""

from collections.abc import Callable
from typing import Final

import structlog

from actors.due_sweeper import DueSweeper
from core.usecases.services.subscriptions import Subscriptions

log = structlog.get_logger()

# Tokens and answers notice at once that a period has ended. Lists, counts and subscribers of events notice after this time at most.
_INTERVAL: Final = 15.0
# A request that changes one of these subscriptions or their plans may have to wait for the whole batch, so it is small.
_BATCH: Final = 100


class SubscriptionExpirer(DueSweeper):
    name = "subscription_expirer"

    def __init__(
        self, subscriptions: Subscriptions, *, spread: Callable[[], float], interval: float = _INTERVAL, batch: int = _BATCH
    ) -> None:
        super().__init__(subscriptions.expire_due, spread=spread, interval=interval, batch=batch)

    def _tell(self, total: int) -> None:
        log.info("subscriptions_expired", subscriptions=total)
