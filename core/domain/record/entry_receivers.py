"""What each receiver of an organization was sent because of an entry of its audit log, and whether the receiver accepted it."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final
from uuid import UUID

from core.domain.identifiers import AuditEntryId
from core.frozen import Frozen, shared

OFFBOARDING_ACTIONS: Final = (
    "user.removed",
    "user.anonymized",
    "user.role_updated",
    "user.consent.revoked",
    "team.member.removed",
    "service.assignment.removed",
    "security.sessions.revoked",
    "security.account.locked",
    "security.password.changed",
    "security.passkeys.changed",
    "security.mfa.disabled",
)
"""The actions about a person that end or weaken the person's access."""

ENDS_SESSIONS: Final = (*OFFBOARDING_ACTIONS, "user.logout", "security.refresh_token.reused", "security.authorization_code.reused")
"""The actions after which sessions of the person can end. Logout notices name no request, so they are found by person and time."""

# A notice has the time at which its transaction began, which is before that of the entry. No statement of a request waits for this long.
NOTICED_BEFORE: Final = timedelta(seconds=10)
# What ends sessions later, such as a job, follows within this time.
NOTICED_AFTER: Final = timedelta(minutes=2)
RUNS_KEPT: Final = timedelta(days=30)
"""How long the runs of a provisioning connection are stored."""

SKIPPED: Final = ("no_longer_told", "told_with_another")
"""The errors of signals that were never meant to arrive: the stream may no longer hear of the person, or another signal said the same."""

MOST_RECEIVERS: Final = 500
"""In one answer. Those that have not accepted something come first."""
MOST_OFFBOARDING: Final = 10
"""The entries about one person in one answer, the newest."""


class EntryReceiverKind(StrEnum):
    WEBHOOK = "webhook"
    SIGNAL = "signal"
    LOGOUT_NOTICE = "logout_notice"
    PROVISIONING = "provisioning"
    SIEM = "siem"
    FRONT_CHANNEL = "front_channel"
    APPLICATION = "application"
    """An application that was deleted since, whatever it received."""


class Receipt(StrEnum):
    """How far it has come."""

    RECEIVED = "received"
    WAITING = "waiting"
    GIVEN_UP = "given_up"
    NOT_SENT = "not_sent"
    """Nothing of the entry concerned the receiver, or the receiver was turned off."""
    ADDED_LATER = "added_later"
    NOT_KEPT = "not_kept"
    """The record of it was removed: by the retention, with the receiver, or with the person."""
    NOT_RECORDED = "not_recorded"
    """The browser was asked. Nobody knows what came of it."""


class ReceiverFacts(Frozen, kw_only=True):
    """What the database knows of a receiver and an entry. What a kind of receiver does not have is None."""

    kind: str
    receiver: UUID
    name: str
    service_slug: str | None
    address: str | None
    is_on: bool
    """Whether anything is sent to it today."""
    made_at: datetime | None
    """None: nobody noted when it was made."""
    gone_at: datetime | None
    """It was deleted then. None: it is there."""
    what: str | None
    """What was sent, or would have been: an event, a type of signal, a step of provisioning."""
    of_that_time: bool
    """It was found by person and time."""
    is_addressed: bool
    """The entry is of a type that is sent to this kind of receiver."""
    sent: int
    """How many deliveries there are; of logout notices, one for each session."""
    waiting: int
    given_up: int
    queued_at: datetime | None
    attempted_at: datetime | None
    received_at: datetime | None
    """The last of them was received then. None while one is not."""
    attempts: int
    next_at: datetime | None
    status_code: int | None
    error: str | None
    entry_number: int | None
    """The entry's place in the log's chain. None: it is not linked yet."""
    exported_to: int | None
    """The last place that the SIEM has confirmed."""
    done: str | None
    """What a provisioning run did with the person since."""
    done_at: datetime | None
    marked_at: datetime | None
    """The person waits for the next run from then on."""
    is_held: bool | None
    """A run has the person in hand, or an owner must decide whether the person ends there."""
    is_due: bool | None
    """Nobody has looked at everybody since, and it is time to."""
    place: str | None
    """The person's state in the target system."""
    is_active_there: bool | None
    changed_at: datetime | None
    """The person's state there was written then."""
    is_tied: bool | None
    """The person is a member of the organization today."""


class EntryReceiver(Frozen, kw_only=True):
    """A receiver, and how far the entry has come there."""

    kind: EntryReceiverKind
    receiver: UUID
    name: str
    service_slug: str | None
    address: str | None
    is_on: bool
    state: Receipt
    what: str | None
    of_that_time: bool
    sent: int
    queued_at: datetime | None
    attempted_at: datetime | None
    received_at: datetime | None
    attempts: int
    next_at: datetime | None
    status_code: int | None
    error: str | None
    entry_number: int | None
    exported_to: int | None
    not_kept_since: datetime | None
    """Records of before this time are gone. None: what is said is all there was."""


_shared: Final = shared(ReceiverFacts, EntryReceiver, "kind", "received_at", "next_at", "attempted_at", "what", "error", "queued_at")


class LoggedAct(Frozen, kw_only=True):
    """The entry that the receivers are asked for."""

    id: AuditEntryId
    action: str
    target_type: str
    target_id: str
    created_at: datetime
    number: int | None = None
    """Its place in the log's chain. None: it is not linked yet."""


class EntryReceipts(Frozen):
    """An entry with its receivers. `is_whole` is False if there are more receivers than one answer shows."""

    act: LoggedAct
    receivers: Sequence[EntryReceiver]
    is_whole: bool


def receiver_of(facts: ReceiverFacts, act: LoggedAct, kept: timedelta, now: datetime) -> EntryReceiver:
    """`kept` is how long deliveries and logout notices are stored.

    The database states facts, this function decides what they mean. A receiver that no fact mentions was not sent anything, unless a
    deletion or the retention has removed the facts: then the answer says so.
    """
    kind = EntryReceiverKind(facts.kind)
    if facts.gone_at is not None:
        return _as(facts, kind, Receipt.NOT_KEPT, since=facts.gone_at)
    match kind:
        case EntryReceiverKind.SIEM:
            return _exported(facts, kind)
        case EntryReceiverKind.FRONT_CHANNEL:
            return _as(facts, kind, _unsaid(facts, act, Receipt.NOT_RECORDED))
        case EntryReceiverKind.PROVISIONING:
            return _provisioned(facts, kind, act, now)
        case _:
            return _delivered(facts, kind, act, kept, now)


def _delivered(facts: ReceiverFacts, kind: EntryReceiverKind, act: LoggedAct, kept: timedelta, now: datetime) -> EntryReceiver:
    if facts.waiting:
        return _as(facts, kind, Receipt.WAITING)
    if facts.given_up:
        return _as(facts, kind, Receipt.GIVEN_UP)
    if facts.sent:
        return _as(facts, kind, Receipt.RECEIVED)
    # Whole months go at once, so what is older than the retention may still be there. What is not there may be gone.
    since = now - kept
    if facts.is_addressed and act.created_at < since:
        return _as(facts, kind, _unsaid(facts, act, Receipt.NOT_KEPT), since=since)
    return _as(facts, kind, _unsaid(facts, act, Receipt.NOT_SENT))


def _exported(facts: ReceiverFacts, kind: EntryReceiverKind) -> EntryReceiver:
    is_there = facts.entry_number is not None and facts.exported_to is not None and facts.entry_number <= facts.exported_to
    return _as(facts, kind, Receipt.RECEIVED if is_there else Receipt.WAITING)


def _provisioned(facts: ReceiverFacts, kind: EntryReceiverKind, act: LoggedAct, now: datetime) -> EntryReceiver:
    if _waits_there(facts, act):
        return _as(facts, kind, Receipt.WAITING if facts.is_on else Receipt.GIVEN_UP, next_at=facts.marked_at)
    accepted_at = facts.done_at or _changed_since(facts, act)
    if accepted_at is not None:
        return _as(facts, kind, Receipt.RECEIVED, what=facts.done, received_at=accepted_at)
    since = now - RUNS_KEPT
    if not facts.is_tied and facts.place is None:
        # The person was never sent there, or the account was deleted, and with it what was known of the person there. The answer must be
        # the same: an organization does not learn that somebody who left it has deleted the account.
        return _as(facts, kind, _unsaid(facts, act, Receipt.NOT_KEPT), since=act.created_at)
    if facts.place is not None and act.created_at < since:
        return _as(facts, kind, _unsaid(facts, act, Receipt.NOT_KEPT), since=since)
    return _as(facts, kind, _unsaid(facts, act, Receipt.NOT_SENT))


def _waits_there(facts: ReceiverFacts, act: LoggedAct) -> bool:
    """Whether the target system may still have to hear of it. A mark that is older than the run that names the person means that the run
    may have read an earlier state. Whoever is no member and still active there has not been deprovisioned, whatever the reason.
    """
    if facts.is_held or (facts.marked_at is not None and (facts.done_at is None or facts.marked_at <= facts.done_at)):
        return True
    if facts.done_at is not None or (not facts.is_tied and facts.place is None):
        return False
    if facts.is_active_there and (not facts.is_tied or facts.place != _SENT):
        return True
    return bool(facts.is_due) and facts.is_on and _changed_since(facts, act) is None


def _changed_since(facts: ReceiverFacts, act: LoggedAct) -> datetime | None:
    is_since = facts.place == _SENT and facts.changed_at is not None and facts.changed_at >= act.created_at
    return facts.changed_at if is_since else None


def _unsaid(facts: ReceiverFacts, act: LoggedAct, otherwise: Receipt) -> Receipt:
    return Receipt.ADDED_LATER if facts.made_at is not None and facts.made_at > act.created_at else otherwise


def _as(
    facts: ReceiverFacts,
    kind: EntryReceiverKind,
    state: Receipt,
    *,
    since: datetime | None = None,
    what: str | None = None,
    received_at: datetime | None = None,
    next_at: datetime | None = None,
) -> EntryReceiver:
    was_received = state is Receipt.RECEIVED
    return EntryReceiver(
        **_shared(facts),
        kind=kind,
        state=state,
        what=what or facts.what,
        queued_at=facts.queued_at,
        attempted_at=facts.attempted_at if facts.attempts else None,
        received_at=(received_at or facts.received_at) if was_received else None,
        next_at=(next_at or facts.next_at) if state is Receipt.WAITING else None,
        error=None if was_received else facts.error,
        not_kept_since=since if state is Receipt.NOT_KEPT else None,
    )


_SENT: Final = "sent"
