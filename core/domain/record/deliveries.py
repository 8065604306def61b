"""Deliveries to receivers of an organization: the outcome of an attempt, and the time of the next one."""

from collections.abc import Collection, Sequence
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final
from uuid import UUID

from core.domain.formats import http_date
from core.frozen import Frozen

# The number of deliveries that one process takes at once for a receiver, and the time for which the process has the receiver for itself.
# The time is longer than all of these deliveries take, even if each attempt takes as long as it may.
BATCH: Final = 16
LEASE: Final = timedelta(seconds=60)
ATTEMPT_TIMEOUT: Final = timedelta(seconds=10)
# The pause for a receiver whose secret cannot be opened, because the key may come back. Also for a receiver whose URL today's rules do not
# accept.
UNREADABLE: Final = timedelta(minutes=5)
# A receiver may ask for more time, but not for ever.
LONGEST_REST: Final = timedelta(hours=6)
# The error of an attempt that raised an unforeseen exception.
BROKEN: Final = "internal_error"


class ReceiverKind(StrEnum):
    """What an organization has named to receive something."""

    WEBHOOK = "webhook"
    SIGNAL = "signal"
    LOGOUT_NOTICE = "logout_notice"
    SIEM = "siem"
    PROVISIONING = "provisioning"


class DueDelivery(Frozen, kw_only=True):
    """A delivery that is due. `attempts` counts the attempts that have ended. The delivery follows from the `request`, if any."""

    id: UUID
    attempts: int
    request: UUID | None = None


class DeliveryOutcome(Frozen):
    """The outcome of an attempt. `attempts` counts the attempts before it. `pause` is the time until the next one. It is None when there is
    no next one. `rest` is the pause that the receiver asked for.
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
        """The label for metrics."""
        if self.delivered:
            return "delivered"
        return "given_up" if self.pause is None else "failed"


class DeliveryRules(Frozen):
    """The rules of a kind of delivery. `pauses` are the pauses after each failed attempt but the last. `received` are the statuses of
    success. After a status in `final` there is no further attempt. Of an answer's body, `longest_kept_answer` bytes are stored.
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
        """`attempts` counts the attempts before the failed one. None when the failed one was the last."""
        if attempts >= len(self.pauses):
            return None
        # Up to a tenth longer, so that deliveries that failed together do not return together.
        pause = self.pauses[attempts] * (1 + spread / 10)
        return pause if rest is None else max(pause, rest)


def rest_asked(retry_after: str | None, now: datetime) -> timedelta | None:
    """Reads `Retry-After` (RFC 9110 section 10.2.3): seconds, or a date. None for any other text."""
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
