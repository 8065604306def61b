"""Which receivers of an act are late, and when it is looked at next."""

from datetime import UTC, datetime, timedelta
from typing import Any, Final
from uuid import UUID

import pytest

from core.domain.errors import BadRequest
from core.domain.identifiers import AuditEntryId, OffboardingDeadlineId, OrganizationId
from core.domain.record.entry_receivers import EntryReceipts, EntryReceiver, EntryReceiverKind, LoggedAct, ReceiverState
from core.domain.tenancy.offboarding import (
    ACTS,
    LONGEST_MINUTES,
    OVERLAP,
    WATCHED_FOR,
    OffboardingAct,
    OffboardingMinutes,
    WatchedAct,
    deadline_minutes,
    judged,
    offboarding_late,
)
from core.frozen import names_of

AT: Final = datetime(2026, 11, 30, 12, tzinfo=UTC)
HOUR: Final = timedelta(hours=1)
EARLY, DUE = AT + HOUR / 2, AT + HOUR


def watched(**changed: Any) -> WatchedAct:
    known = {
        "entry": AuditEntryId(UUID(int=1)),
        "deadline": OffboardingDeadlineId(UUID(int=2)),
        "organization": OrganizationId(UUID(int=3)),
        "act_at": AT,
        "minutes": 60,
        "reported": (),
    }
    return WatchedAct(**{**known, **changed})


def receiver(
    state: ReceiverState = ReceiverState.WAITING, kind: EntryReceiverKind = EntryReceiverKind.WEBHOOK, **changed: Any
) -> EntryReceiver:
    nothing: dict[str, Any] = dict.fromkeys(names_of(EntryReceiver))
    known = {"receiver": UUID(int=4), "name": "CRM", "is_on": True, "address": "https://crm.example/", "of_that_time": False}
    return EntryReceiver(**{**nothing, **known, "sent": 1, "attempts": 1, "kind": kind, "state": state, **changed})


def receipts(*receivers: EntryReceiver) -> EntryReceipts:
    act = LoggedAct(id=AuditEntryId(UUID(int=1)), action="user.removed", target_type="user", target_id="ada", created_at=AT)
    return EntryReceipts(act, receivers, is_whole=True)


@pytest.mark.parametrize(
    ("one", "now", "is_late"),
    [
        (receiver(), EARLY, False),
        (receiver(), DUE, True),
        (receiver(ReceiverState.GIVEN_UP), EARLY, True),
        # Turned off, with something that waits.
        (receiver(is_on=False), EARLY, True),
        (receiver(ReceiverState.RECEIVED), DUE, False),
        (receiver(ReceiverState.NOT_SENT), DUE, False),
        (receiver(ReceiverState.ADDED_LATER), DUE, False),
        (receiver(ReceiverState.NOT_KEPT), DUE, False),
        (receiver(kind=EntryReceiverKind.LOGOUT_NOTICE), DUE, True),
        (receiver(kind=EntryReceiverKind.PROVISIONING), DUE, True),
        (receiver(kind=EntryReceiverKind.SIGNAL), DUE, True),
        # It is polled.
        (receiver(kind=EntryReceiverKind.SIGNAL, address=None), DUE, False),
        (receiver(kind=EntryReceiverKind.SIEM), DUE, False),
        (receiver(kind=EntryReceiverKind.FRONT_CHANNEL), DUE, False),
        (receiver(kind=EntryReceiverKind.APPLICATION), DUE, False),
    ],
)
def test_who_is_late(one: EntryReceiver, now: datetime, is_late: bool) -> None:
    judgment = judged(watched(), receipts(one), now)
    assert (len(judgment.late), judgment.missing) == (is_late, is_late)


def test_a_receiver_is_late_once_for_an_act_whatever_it_was_sent() -> None:
    both = receipts(receiver(what="account-disabled"), receiver(what="session-revoked"))
    first = judged(watched(), both, DUE)
    assert (len(first.late), first.reported, first.missing) == (1, [f"webhook:{UUID(int=4)}"], 1)
    again = judged(watched(reported=first.reported), both, DUE + HOUR)
    assert (again.late, again.reported, again.missing) == ([], first.reported, 1)
    event = offboarding_late(watched(), both, first.late[0])
    assert (event.name, event.target.id, event.details["receiver"]) == ("offboarding.late", "ada", "CRM")
    assert event.name not in ACTS


def test_what_was_late_and_has_been_accepted_is_missing_no_more() -> None:
    judgment = judged(watched(reported=[f"webhook:{UUID(int=4)}"]), receipts(receiver(ReceiverState.RECEIVED)), DUE)
    assert (judgment.missing, judgment.look_at) == (0, None)


def test_an_act_is_looked_at_the_later_the_longer_it_waits_and_at_its_deadline() -> None:
    def after(waited: timedelta) -> timedelta:
        at = judged(watched(), receipts(receiver()), AT + waited).look_at
        assert at is not None
        return at - AT

    assert after(timedelta(0)) == timedelta(minutes=1)
    assert after(timedelta(minutes=30)) == timedelta(minutes=33)
    assert after(timedelta(minutes=58)) == HOUR
    assert after(20 * HOUR) == 21 * HOUR
    assert judged(watched(), receipts(receiver()), DUE + WATCHED_FOR).look_at is None


def test_an_act_that_all_have_accepted_is_looked_at_once_more() -> None:
    """Its entry is read again for a while, and notices of its sessions can still be made."""
    accepted = receipts(receiver(ReceiverState.RECEIVED))
    assert judged(watched(), accepted, AT).look_at == AT + 2 * OVERLAP
    assert judged(watched(), accepted, AT + 2 * OVERLAP).look_at is None


def test_without_a_deadline_or_an_entry_nothing_is_watched() -> None:
    for judgment in (judged(watched(minutes=None), receipts(receiver()), DUE), judged(watched(), None, DUE)):
        assert (judgment.late, judgment.missing, judgment.look_at) == ((), 0, None)


def test_each_kind_of_act_has_its_minutes() -> None:
    minutes = OffboardingMinutes(removal_minutes=1, access_minutes=2, security_minutes=3)
    assert [minutes.of(act) for act in OffboardingAct] == [1, 2, 3]
    minutes.require_any()
    with pytest.raises(BadRequest):
        OffboardingMinutes().require_any()


@pytest.mark.parametrize("minutes", [0, -1, LONGEST_MINUTES + 1])
def test_a_deadline_is_from_a_minute_to_seven_days(minutes: int) -> None:
    assert [deadline_minutes(one) for one in (None, 1, LONGEST_MINUTES)] == [None, 1, LONGEST_MINUTES]
    with pytest.raises(BadRequest):
        deadline_minutes(minutes)
