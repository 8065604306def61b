"""Deliveries: how an attempt counts, by the rules of its kind."""

from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest

from core.domain.record.deliveries import DeliveryOutcome, DeliveryRules, DueDelivery

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
RULES = DeliveryRules(pauses=(MINUTE, 5 * MINUTE), received=(200, 204), final=(400,), longest_kept_answer=3)


def answered(status: int, *, attempts: int = 0, retry_after: str | None = None) -> DeliveryOutcome:
    due = DueDelivery(id=UUID(int=1), attempts=attempts)
    return RULES.answered(due, status, b"an answer", retry_after=retry_after, now=NOW, spread=0)


@pytest.mark.parametrize(
    ("status", "word"), [(200, "delivered"), (204, "delivered"), (201, "failed"), (400, "given_up"), (401, "failed"), (500, "failed")]
)
def test_a_status_counts_as_the_rules_say(status: int, word: str) -> None:
    outcome = answered(status)
    assert (outcome.word, outcome.status_code, outcome.response_body) == (word, status, "an ")
    assert outcome.error == (None if word == "delivered" else f"answered {status}")


def test_after_the_last_pause_nothing_is_tried_again() -> None:
    assert RULES.most_attempts == 3
    assert [answered(500, attempts=attempts).pause for attempts in range(3)] == [MINUTE, 5 * MINUTE, None]
    assert [RULES.unanswered(DueDelivery(id=UUID(int=1), attempts=attempts), "timeout", 1).pause for attempts in range(3)] == [
        1.1 * MINUTE,
        5.5 * MINUTE,
        None,
    ]


def test_a_receiver_that_asks_for_time_has_it_for_every_delivery() -> None:
    outcome = answered(503, retry_after="600")
    assert (outcome.pause, outcome.rest) == (10 * MINUTE, 10 * MINUTE)
    assert answered(400, retry_after="600").rest == 10 * MINUTE
    assert answered(200, retry_after="600").rest is None
