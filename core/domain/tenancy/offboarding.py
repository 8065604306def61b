"""Offboarding deadlines: how long receivers may take to learn that access ended or was reduced, and which of them are late."""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final

from core.domain.errors import BadRequest
from core.domain.identifiers import AuditEntryId, OffboardingDeadlineId, OrganizationId
from core.domain.record.entry_receivers import OFFBOARDING_ACTIONS, EntryReceipts, EntryReceiver, EntryReceiverKind, Receipt
from core.domain.record.events import SYSTEM, Actor, Event, Target
from core.domain.requests import Checks
from core.frozen import Frozen, names_of, values_of

LONGEST_MINUTES: Final = 7 * 24 * 60
WATCHED_FOR: Final = timedelta(days=7)
"""After the deadline. A receiver that is late and accepts within this time leaves the list of what needs attention."""
OVERLAP: Final = timedelta(minutes=2)
"""An entry has the time at which it was made, and is seen once its transaction has ended. No transaction of a request takes so long."""
LEASE: Final = timedelta(minutes=5)
MAILS_APART: Final = timedelta(hours=1)
_SOONEST, _LATEST = timedelta(minutes=1), timedelta(hours=1)


class OffboardingAct(StrEnum):
    """The kinds of acts that have a deadline of their own."""

    REMOVAL = "removal"
    ACCESS = "access"
    SECURITY = "security"


ACTS: Final[Mapping[str, OffboardingAct]] = {
    "user.removed": OffboardingAct.REMOVAL,
    "user.anonymized": OffboardingAct.REMOVAL,
    "user.role_updated": OffboardingAct.ACCESS,
    "user.consent.revoked": OffboardingAct.ACCESS,
    "team.member.removed": OffboardingAct.ACCESS,
    "service.assignment.removed": OffboardingAct.ACCESS,
    "security.sessions.revoked": OffboardingAct.SECURITY,
    "security.account.locked": OffboardingAct.SECURITY,
    "security.password.changed": OffboardingAct.SECURITY,
    "security.passkeys.changed": OffboardingAct.SECURITY,
    "security.mfa.disabled": OffboardingAct.SECURITY,
}
assert set(ACTS) == set(OFFBOARDING_ACTIONS)  # noqa: S101 - a bug in this file stops the import

_JUDGED: Final = frozenset(
    {EntryReceiverKind.WEBHOOK, EntryReceiverKind.SIGNAL, EntryReceiverKind.LOGOUT_NOTICE, EntryReceiverKind.PROVISIONING}
)


class OffboardingMinutes(Frozen, kw_only=True):
    """By kind of act. None: no deadline."""

    removal_minutes: int | None = None
    access_minutes: int | None = None
    security_minutes: int | None = None

    def of(self, act: OffboardingAct) -> int | None:
        match act:
            case OffboardingAct.REMOVAL:
                return self.removal_minutes
            case OffboardingAct.ACCESS:
                return self.access_minutes
            case OffboardingAct.SECURITY:
                return self.security_minutes

    def require_any(self) -> None:
        """Raises `BadRequest`."""
        if all(minutes is None for minutes in values_of(self).values()):
            raise BadRequest("Set at least one deadline, or delete all of them", words="nothing_to_change")


class OffboardingDeadline(OffboardingMinutes, kw_only=True):
    id: OffboardingDeadlineId
    organization: OrganizationId
    created_at: datetime
    updated_at: datetime


def deadline_minutes(minutes: int | None) -> int | None:
    """Raises `BadRequest`."""
    if minutes is not None and not 1 <= minutes <= LONGEST_MINUTES:
        raise BadRequest(
            f"Minutes: 1 to {LONGEST_MINUTES}, or null for no deadline", words="field_bounds", values={"least": 1, "most": LONGEST_MINUTES}
        )
    return minutes


CHECKS: Final[Checks] = dict.fromkeys(names_of(OffboardingMinutes), deadline_minutes)


class WatchedAct(Frozen, kw_only=True):
    """An act whose receivers are looked at until all have accepted. `reported` are the receivers that were late once. `minutes` is the
    organization's deadline as it is now; None if there is none for acts of this kind any more.
    """

    entry: AuditEntryId
    deadline: OffboardingDeadlineId
    organization: OrganizationId
    act_at: datetime
    minutes: int | None
    reported: Sequence[str]


class ActJudgment(Frozen):
    """What is true of a watched act now. `late` were not reported before. `missing` counts those that were reported, now or before, and
    have not accepted. Without a next look, the act is watched no longer.
    """

    late: Sequence[EntryReceiver]
    reported: Sequence[str]
    missing: int
    look_at: datetime | None


def judged(watched: WatchedAct, receipts: EntryReceipts | None, now: datetime) -> ActJudgment:
    """`receipts` is None when the log does not have the entry any more.

    An act is an entry of the organization's own log. Judged are receivers that Postern itself calls: webhooks that subscribe to the event,
    logout notices, pushed signals, and provisioning. A receiver that polls, the SIEM and a browser come by themselves.
    """
    if watched.minutes is None or receipts is None:
        return ActJudgment((), watched.reported, 0, None)
    due_at = watched.act_at + timedelta(minutes=watched.minutes)
    open_ones = [one for one in receipts.receivers if _is_open(one)]
    late: dict[str, EntryReceiver] = {}
    for one in open_ones:
        if _key(one) not in watched.reported and (now >= due_at or not one.is_on or one.state is Receipt.GIVEN_UP):
            late.setdefault(_key(one), one)
    reported = [*watched.reported, *late]
    missing = len({_key(one) for one in open_ones}.intersection(reported))
    return ActJudgment(list(late.values()), reported, missing, _next_look(watched, due_at, now, is_open=bool(open_ones)))


def _is_open(receiver: EntryReceiver) -> bool:
    """A stream that has no address is polled."""
    if receiver.kind not in _JUDGED or (receiver.kind is EntryReceiverKind.SIGNAL and receiver.address is None):
        return False
    return receiver.state in {Receipt.WAITING, Receipt.GIVEN_UP}


def _next_look(watched: WatchedAct, due_at: datetime, now: datetime, *, is_open: bool) -> datetime | None:
    """At the deadline, and else the later the longer it waits: so an old act costs little, and what is given up is seen soon."""
    if not is_open:
        # Until then its entry would be taken for a new one, and notices of its sessions can still be made.
        again = watched.act_at + 2 * OVERLAP
        return again if again > now else None
    if now >= due_at + WATCHED_FOR:
        return None
    again = now + min(max((now - watched.act_at) / 10, _SOONEST), _LATEST)
    return due_at if now < due_at < again else again


def _key(receiver: EntryReceiver) -> str:
    return f"{receiver.kind}:{receiver.receiver}"


def offboarding_deadline_set(deadline: OffboardingDeadline, actor: Actor) -> Event:
    return _event("offboarding.deadline.set", deadline, actor)


def offboarding_deadline_removed(deadline: OffboardingDeadline, actor: Actor) -> Event:
    return _event("offboarding.deadline.removed", deadline, actor)


def offboarding_late(watched: WatchedAct, receipts: EntryReceipts, receiver: EntryReceiver) -> Event:
    """About the person of the act."""
    act = receipts.act
    details = {
        "entry_id": str(act.id),
        "entry_action": act.action,
        "happened_at": act.created_at.isoformat(),
        "receiver_kind": receiver.kind.value,
        "receiver_id": str(receiver.receiver),
        "receiver": receiver.name,
        "state": receiver.state.value,
        "is_active": receiver.is_on,
        "minutes": watched.minutes,
    }
    return Event("offboarding.late", SYSTEM, Target("user", act.target_id), watched.organization, details)


def _event(name: str, deadline: OffboardingDeadline, actor: Actor) -> Event:
    details = {minutes: getattr(deadline, minutes) for minutes in CHECKS}
    return Event(name, actor, Target("organization", str(deadline.organization)), deadline.organization, details)
