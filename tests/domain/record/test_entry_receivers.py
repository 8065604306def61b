"""What the facts about a receiver mean."""

from datetime import UTC, datetime, timedelta
from typing import Any, Final
from uuid import UUID

import pytest

from core.domain.identifiers import AuditEntryId
from core.domain.record.entry_receivers import LoggedAct, ReceiverFacts, ReceiverState, receiver_of
from core.frozen import names_of

NOW: Final = datetime(2026, 11, 30, 12, tzinfo=UTC)
AT: Final = NOW - timedelta(days=1)
BEFORE, SINCE, LATER = AT - timedelta(hours=1), AT + timedelta(minutes=1), AT + timedelta(minutes=2)
KEPT: Final = timedelta(days=30)
LONG_AGO: Final = NOW - timedelta(days=100)


def act(at: datetime = AT) -> LoggedAct:
    return LoggedAct(id=AuditEntryId(UUID(int=1)), action="user.removed", target_type="user", target_id="1", created_at=at)


def facts(kind: str = "webhook", **changed: Any) -> ReceiverFacts:
    nothing: dict[str, Any] = dict.fromkeys(names_of(ReceiverFacts))
    known = {
        "kind": kind,
        "receiver": UUID(int=2),
        "name": "CRM",
        "is_on": True,
        "made_at": LONG_AGO,
        "of_that_time": False,
        "is_addressed": True,
    }
    return ReceiverFacts(**{**nothing, **known, "sent": 0, "waiting": 0, "given_up": 0, "attempts": 0, **changed})


def there(**changed: Any) -> ReceiverFacts:
    known = {"place": "sent", "is_active_there": False, "is_tied": False, "is_held": False, "is_due": False}
    return facts("provisioning", **{**known, "changed_at": BEFORE, **changed})


@pytest.mark.parametrize(
    ("told", "state"),
    [
        (facts(sent=1, waiting=1), ReceiverState.WAITING),
        (facts(sent=2, waiting=1, given_up=1), ReceiverState.WAITING),
        (facts(sent=2, given_up=1, received_at=SINCE), ReceiverState.GIVEN_UP),
        (facts(sent=1, received_at=SINCE), ReceiverState.RECEIVED),
        (facts(), ReceiverState.NOT_SENT),
        (facts(made_at=SINCE), ReceiverState.ADDED_LATER),
        # A replay to a receiver that came later is a delivery like any other.
        (facts(made_at=SINCE, sent=1, received_at=LATER), ReceiverState.RECEIVED),
        (facts(gone_at=SINCE, sent=1, received_at=SINCE), ReceiverState.NOT_KEPT),
        (facts("front_channel"), ReceiverState.NOT_RECORDED),
        (facts("front_channel", made_at=SINCE), ReceiverState.ADDED_LATER),
        (facts("siem", made_at=SINCE, entry_number=3, exported_to=3), ReceiverState.RECEIVED),
        (facts("siem", entry_number=4, exported_to=3), ReceiverState.WAITING),
        (facts("siem", exported_to=3), ReceiverState.WAITING),
        (there(done="ended", done_at=SINCE), ReceiverState.RECEIVED),
        # A mark of before the run: it may have read an older state. One of after it is of a later change.
        (there(done="ended", done_at=SINCE, marked_at=SINCE), ReceiverState.WAITING),
        (there(done="ended", done_at=SINCE, marked_at=LATER), ReceiverState.RECEIVED),
        (there(marked_at=LATER), ReceiverState.WAITING),
        (there(marked_at=LATER, is_on=False), ReceiverState.GIVEN_UP),
        (there(is_held=True, done_at=SINCE), ReceiverState.WAITING),
        (there(is_active_there=True), ReceiverState.WAITING),
        (there(is_active_there=True, is_on=False), ReceiverState.GIVEN_UP),
        (there(is_active_there=True, is_tied=True), ReceiverState.NOT_SENT),
        (there(is_active_there=True, is_tied=True, place="refused"), ReceiverState.WAITING),
        (there(changed_at=SINCE), ReceiverState.RECEIVED),
        (there(changed_at=SINCE, place="refused"), ReceiverState.NOT_SENT),
        (there(is_due=True), ReceiverState.WAITING),
        (there(is_due=True, is_on=False), ReceiverState.NOT_SENT),
        (there(is_due=True, changed_at=SINCE), ReceiverState.RECEIVED),
        # Somebody who has left and was never sent there, or whose account is gone: the same answer.
        (there(place=None, is_active_there=None, changed_at=None), ReceiverState.NOT_KEPT),
        (there(place=None, is_active_there=None, changed_at=None, is_due=True), ReceiverState.NOT_KEPT),
        (there(made_at=SINCE, place=None), ReceiverState.ADDED_LATER),
        (there(place=None, is_active_there=None, changed_at=None, is_tied=True), ReceiverState.NOT_SENT),
        (there(place=None, is_active_there=None, changed_at=None, is_tied=True, is_due=True), ReceiverState.WAITING),
    ],
)
def test_a_receipt_follows_from_the_facts(told: ReceiverFacts, state: ReceiverState) -> None:
    made = receiver_of(told, act(), KEPT, NOW)
    assert made.state is state
    # Nothing that was not accepted has a time at which it was, and nothing that is over has a next attempt.
    assert made.received_at is None or state is ReceiverState.RECEIVED
    assert made.next_at is None or state is ReceiverState.WAITING
    assert (made.not_kept_since is not None) == (state is ReceiverState.NOT_KEPT)


@pytest.mark.parametrize(
    ("told", "state"),
    [
        (facts(), ReceiverState.NOT_KEPT),
        (facts(is_addressed=False), ReceiverState.NOT_SENT),
        # A month goes as a whole, so a row may be older than the retention.
        (facts(sent=1, received_at=SINCE), ReceiverState.RECEIVED),
        (facts(made_at=NOW), ReceiverState.ADDED_LATER),
        (there(changed_at=LONG_AGO), ReceiverState.NOT_KEPT),
        # Whatever was written there since was written with what the entry had changed.
        (there(), ReceiverState.RECEIVED),
        (there(place=None, is_active_there=None, is_tied=True), ReceiverState.NOT_SENT),
    ],
)
def test_what_is_older_than_the_records_is_said_and_never_nobody(told: ReceiverFacts, state: ReceiverState) -> None:
    made = receiver_of(told, act(NOW - KEPT - timedelta(days=1)), KEPT, NOW)
    assert made.state is state
    assert made.not_kept_since == (NOW - KEPT if state is ReceiverState.NOT_KEPT else None)


def test_an_attempt_has_a_time_only_if_there_was_one() -> None:
    assert receiver_of(facts(sent=1, waiting=1, attempted_at=AT), act(), KEPT, NOW).attempted_at is None
    assert receiver_of(facts(sent=1, waiting=1, attempted_at=AT, attempts=1), act(), KEPT, NOW).attempted_at == AT
    received = receiver_of(facts(sent=1, error="timeout", received_at=SINCE), act(), KEPT, NOW)
    assert received.error is None
