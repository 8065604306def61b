"""The subscription expirer: writes down that the periods of active subscriptions have ended."""

from collections.abc import Callable
from typing import Final

import structlog

from actors.due_sweeper import DueSweeper
from core.usecases.subscriptions import Subscriptions

log = structlog.get_logger()

# Tokens and answers know at once that a period has ended; lists, counts and whoever listens to events, after so long at most.
_INTERVAL: Final = 15.0
# What a batch holds, whoever changes one of these subscriptions or their plans may have to wait for: some milliseconds.
_BATCH: Final = 100


class SubscriptionExpirer(DueSweeper):
    name = "subscription_expirer"

    def __init__(
        self, subscriptions: Subscriptions, *, spread: Callable[[], float], interval: float = _INTERVAL, batch: int = _BATCH
    ) -> None:
        super().__init__(subscriptions.expire_due, spread=spread, interval=interval, batch=batch)

    def _tell(self, total: int) -> None:
        log.info("subscriptions_expired", subscriptions=total)
