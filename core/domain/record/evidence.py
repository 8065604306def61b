"""Signed evidence of which receivers were notified when a user lost access, for auditors."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Final
from uuid import UUID

from core.domain.formats import Json
from core.domain.identifiers import OrganizationId, UserId
from core.domain.record.entry_receivers import EntryReceipts, EntryReceiver, EntryReceiverKind, Receipt
from core.domain.record.events import Actor, Event, Target
from core.frozen import Frozen

MOST_IN_EVIDENCE: Final = 100
"""The receivers of an entry in one file. Those that have not accepted something come first."""


class EvidenceScope(Frozen, kw_only=True):
    """What a file is about, and who has it made. `issuer` is the installation's own."""

    id: UUID
    issuer: str
    organization: OrganizationId
    person: UserId
    maker: UserId
    made_at: datetime


class OffboardingEvidence(Frozen, kw_only=True):
    """The file, and how many entries it has. The file is one JWS with its own type. It contains IDs, kinds, names of receivers, states and
    times: no URL of a receiver, no response, and nothing that names a user otherwise than by ID. So what was erased stays erased.
    """

    id: UUID
    file: str
    entries: int


def evidence_claims(scope: EvidenceScope, entries: Sequence[EntryReceipts]) -> Mapping[str, Json]:
    return {
        "iss": scope.issuer,
        "iat": int(scope.made_at.timestamp()),
        "jti": str(scope.id),
        "organization_id": str(scope.organization),
        "user_id": str(scope.person),
        "made_by": str(scope.maker),
        "entries": [_entry(one) for one in entries],
    }


def evidence_made(scope: EvidenceScope, entries: int, digest: str, actor: Actor) -> Event:
    """`digest` is the file's SHA-256: the entry says of a file whether it is the one."""
    details: Mapping[str, Json] = {"evidence_id": str(scope.id), "entries": entries, "digest": digest}
    return Event("offboarding.evidence.created", actor, Target("user", str(scope.person)), scope.organization, details)


def _entry(receipts: EntryReceipts) -> Mapping[str, Json]:
    act = receipts.act
    exports = [one for one in receipts.receivers if one.kind is EntryReceiverKind.SIEM and one.state is not Receipt.NOT_KEPT]
    shown = receipts.receivers[:MOST_IN_EVIDENCE]
    return {
        "entry_id": str(act.id),
        "action": act.action,
        "target_type": act.target_type,
        "target_id": act.target_id,
        "created_at": _time(act.created_at),
        # Its place in the organization's log. Null for the second or so until it has one.
        "sequence": act.number,
        "export": None if not exports else _export(exports[0], act.number),
        "receivers": [_receiver(one) for one in shown],
        "is_complete": receipts.is_whole and len(shown) == len(receipts.receivers),
    }


def _export(export: EntryReceiver, number: int | None) -> Mapping[str, Json]:
    """Where the receiver's own copy has the entry. The stream `audit` of an export has the numbers of the log."""
    return {"export_id": str(export.receiver), "sequence": number, "received": export.state is Receipt.RECEIVED}


def _receiver(one: EntryReceiver) -> Mapping[str, Json]:
    return {
        "kind": one.kind.value,
        "id": str(one.receiver),
        "name": one.name,
        "service_slug": one.service_slug,
        "state": one.state.value,
        "sent": one.what,
        "count": one.sent,
        "is_by_time": one.of_that_time,
        "queued_at": _time(one.queued_at),
        "received_at": _time(one.received_at),
        "not_kept_since": _time(one.not_kept_since),
    }


def _time(at: datetime | None) -> str | None:
    return None if at is None else at.isoformat()
