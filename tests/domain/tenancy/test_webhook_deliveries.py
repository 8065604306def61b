"""Deliveries: signatures, and when to try again."""

import hmac
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from uuid import UUID

import pytest
from standardwebhooks import Webhook

from core.domain.identifiers import EventId, OrganizationId
from core.domain.record.deliveries import LONGEST_REST
from core.domain.tenancy.webhooks import WEBHOOK_DELIVERY_RULES, DueEvent, Happened, body_of, headers_of, secret_of

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
HAPPENED = Happened(
    id=EventId(UUID(int=1)),
    name="user.joined",
    organization=OrganizationId(UUID(int=2)),
    actor=None,
    actor_email=None,
    target_type="user",
    target_id=str(UUID(int=4)),
    data={"name": "Zoë"},
    occurred_at=NOW,
)


def due(attempts: int = 0) -> DueEvent:
    return DueEvent(HAPPENED, timedelta(0), id=UUID(int=3), attempts=attempts)


def test_both_forms_of_the_signature_verify() -> None:
    now = datetime.now(UTC)
    new, old = secret_of(b"n" * 32), secret_of(b"o" * 32)
    body = body_of(HAPPENED)
    headers = headers_of(due().id, HAPPENED, body, [new, old], now)
    for secret in (new, old):
        assert Webhook(secret.reveal()).verify(body, dict(headers))["data"] == {"name": "Zoë"}
    assert headers["X-Webhook-Signature"] == "sha256=" + hmac.new(new.reveal().encode(), body, sha256).hexdigest()
    assert headers["X-Webhook-Timestamp"] == headers["webhook-timestamp"] == str(int(now.timestamp()))
    with pytest.raises(Exception, match="No matching signature"):
        Webhook(new.reveal()).verify(body + b" ", dict(headers))


@pytest.mark.parametrize(("status", "delivered"), [(200, True), (299, True), (300, False), (302, False), (410, False), (500, False)])
def test_any_2xx_is_success(status: int, delivered: bool) -> None:
    outcome = WEBHOOK_DELIVERY_RULES.answered(due(), status, b"\xff" * 5000, retry_after=None, now=NOW, spread=0)
    assert (outcome.delivered, outcome.status_code) == (delivered, status)
    assert outcome.response_body == "\ufffd" * 2_000
    assert outcome.word == ("delivered" if delivered else "failed")


def test_pauses_double_and_end() -> None:
    pauses = [WEBHOOK_DELIVERY_RULES.unanswered(due(attempts), "timeout", 0).pause for attempts in range(5)]
    assert pauses == [*(timedelta(minutes=minutes) for minutes in (1, 2, 4, 8)), None]
    assert WEBHOOK_DELIVERY_RULES.unanswered(due(4), "timeout", 0).word == "given_up"
    assert WEBHOOK_DELIVERY_RULES.unanswered(due(), "timeout", 1).pause == timedelta(minutes=1.1)


@pytest.mark.parametrize(
    ("header", "rest"),
    [
        ("120", timedelta(minutes=2)),
        (" 5 ", timedelta(seconds=5)),
        ("99999999", LONGEST_REST),
        ("Sun, 01 Mar 2026 12:30:00 GMT", timedelta(minutes=30)),
        ("Sunday, 01-Mar-26 12:30:00 GMT", timedelta(minutes=30)),
        ("Sun, 01 Mar 2026 12:30:00 -0000", None),
        ("Sun, 01 Mar 2026 11:00:00 GMT", timedelta(0)),
        ("soon", None),
        ("9" * 400, None),
        ("²", None),
        (None, None),
    ],
)
def test_a_receiver_may_ask_for_time(header: str | None, rest: timedelta | None) -> None:
    outcome = WEBHOOK_DELIVERY_RULES.answered(due(), 503, b"", retry_after=header, now=NOW, spread=0)
    assert outcome.rest == rest
    assert outcome.pause == max(rest or timedelta(0), timedelta(minutes=1))
