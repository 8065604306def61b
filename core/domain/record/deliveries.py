"""Deliveries: what happened, on its way to a receiver that an organization has named: an event to a webhook, an ended session to a service.
How an attempt counts, and when the next one is due.
"""

from collections.abc import Collection, Sequence
from datetime import datetime, timedelta
from typing import Final
from uuid import UUID

from core.domain.http_dates import http_date
from core.frozen import Frozen

# Deliveries that one process takes at once for a receiver, and for how long the receiver is its own: longer than all of them take when each
# attempt takes as long as it may.
BATCH: Final = 16
LEASE: Final = timedelta(seconds=60)
ATTEMPT_TIMEOUT: Final = timedelta(seconds=10)
# For a receiver whose secret cannot be opened: the key may come back. Or whose URL is none by the rules of today.
UNREADABLE: Final = timedelta(minutes=5)
# A receiver may ask for more time, but not for ever.
LONGEST_REST: Final = timedelta(hours=6)
# Why an attempt failed that raised what nobody has foreseen.
BROKEN: Final = "internal_error"


class DueDelivery(Frozen):
    """`attempts` counts those that have ended."""

    id: UUID
    attempts: int


class DeliveryOutcome(Frozen):
    """How an attempt ended. `attempts` is how many there were before it. `pause` is the time to the next one: None when there is none.
    `rest` is what the receiver asked for.
    """

    delivery: UUID
    attempts: int
    delivered: bool
    status_code: int | None = None
    response_body: str | None = None
    error: str | None = None
    pause: timedelta | None = None
    rest: timedelta | None = None

    @property
    def word(self) -> str:
        """For the metrics."""
        if self.delivered:
            return "delivered"
        return "given_up" if self.pause is None else "failed"


class DeliveryRules(Frozen):
    """`pauses`: after each failure but the last. `received` are the statuses that say so. After a status that is `final`, nothing is tried
    again. Of an answer's body, `longest_kept_answer` bytes are kept.
    """

    pauses: Sequence[timedelta]
    received: Collection[int]
    final: Collection[int] = ()
    longest_kept_answer: int = 0

    @property
    def most_attempts(self) -> int:
        return len(self.pauses) + 1

    def answered(
        self, due: DueDelivery, status: int, body: bytes, *, retry_after: str | None, now: datetime, spread: float
    ) -> DeliveryOutcome:
        text = body[: self.longest_kept_answer].decode("utf-8", "replace")
        if status in self.received:
            return DeliveryOutcome(due.id, due.attempts, delivered=True, status_code=status, response_body=text)
        rest = rest_asked(retry_after, now)
        return DeliveryOutcome(
            due.id,
            due.attempts,
            delivered=False,
            status_code=status,
            response_body=text,
            error=f"answered {status}",
            pause=None if status in self.final else self._pause_after(due.attempts, spread, rest),
            rest=rest,
        )

    def unanswered(self, due: DueDelivery, reason: str, spread: float) -> DeliveryOutcome:
        return DeliveryOutcome(due.id, due.attempts, delivered=False, error=reason, pause=self._pause_after(due.attempts, spread, None))

    def _pause_after(self, attempts: int, spread: float, rest: timedelta | None) -> timedelta | None:
        """`attempts` there were before the one that has failed. None: it was the last."""
        if attempts >= len(self.pauses):
            return None
        # Up to a tenth more, so that what failed together does not return together.
        pause = self.pauses[attempts] * (1 + spread / 10)
        return pause if rest is None else max(pause, rest)


def rest_asked(retry_after: str | None, now: datetime) -> timedelta | None:
    """RFC 9110 section 10.2.3: seconds, or a date. None for anything else."""
    if retry_after is None:
        return None
    text = retry_after.strip()
    if text.isascii() and text.isdigit() and len(text) < 10:
        asked = timedelta(seconds=int(text))
    else:
        at = http_date(text, now)
        if at is None:
            return None
        asked = at - now
    return min(max(asked, timedelta(0)), LONGEST_REST)
