"""The receivers of an entry of the audit log: what each was sent, and whether it accepted it."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Annotated, Final
from uuid import UUID

import msgspec

from core.domain.identifiers import AuditEntryId, UserId
from core.domain.record.entry_receivers import EntryReceipts, EntryReceiver, EntryReceiverKind, ReceiverState
from core.domain.tenancy.members import Member
from core.domain.tenancy.roles import Capability
from core.frozen import replace
from entrypoints.bootstrap import Postern
from entrypoints.http.machinery.callers import able
from entrypoints.http.machinery.calls import Call
from entrypoints.http.machinery.derived import shown
from entrypoints.http.machinery.endpoints import endpoint
from entrypoints.http.machinery.fields import CreatedAt, Id, OrganizationPath, UserUuid, example
from entrypoints.http.routes.record.audit import AuditEntryPath

_TAGS = ("audit",)
_VIEW: Final = able(Capability.AUDIT_LOGS_VIEW, impersonated=True)


class OffboardingPath(OrganizationPath, frozen=True):
    user_id: UserUuid


class EntryReceiverRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A receiver of the organization, and how far an entry of the audit log has come there."""

    kind: Annotated[EntryReceiverKind, example("webhook")]
    """`webhook`, `signal` (a shared signals stream), `logout_notice` (back-channel logout of an application), `provisioning` (the target
    system of an application), `siem`, `front_channel` (front-channel logout of an application), or `application` for an application that
    was deleted since.
    """
    id: Annotated[UUID, example("018f3c5a-7b1e-7c3d-9f4a-2b6c8d0e1f23")]
    """The ID of the webhook, stream, application, provisioning connection or SIEM export."""
    name: Annotated[str, example("CRM")]
    """The name of the webhook or SIEM export. For other receivers, the name of the application."""
    service_slug: Annotated[str, example("billing")] | None
    """The application's slug; null for a webhook or SIEM export."""
    state: Annotated[ReceiverState, example("received")]
    """`received` (accepted by the receiver), `waiting`, `given_up` (no further attempt), `not_sent` (it does not concern the receiver),
    `added_later` (the receiver was created after the entry), `not_kept` (the record was deleted, see `not_kept_since`), or `not_recorded`
    (front-channel logout: the browser was asked, and its answer is unknown).
    """
    is_on: Annotated[bool, example(True)]
    """Whether the receiver is turned on now."""
    sent: Annotated[str, example("user.removed")] | None
    """What was sent or would be sent: an event type, a type of signal, `logout_token`, or the change that a provisioning run made; null for
    a SIEM export or front-channel logout.
    """
    count: Annotated[int, example(1)]
    """The number of deliveries. For back-channel logout and the signal `session-revoked`, one for each session that ended."""
    is_by_time: Annotated[bool, example(False)]
    """Whether the deliveries were found by person and time, from 10 seconds before the entry to 2 minutes after it. If false, they were
    found by the event of the entry.
    """
    queued_at: datetime | None
    """When it was queued; null if nothing was queued."""
    attempted_at: datetime | None
    """When the last attempt ended; null if there was none."""
    received_at: datetime | None
    """When the receiver accepted it; null if it has not, or if the time is not recorded."""
    next_attempt_at: datetime | None
    """When the next attempt is due; null if there is none."""
    entry_number: Annotated[int, example(120)] | None
    """For a SIEM export: the position of the entry in the audit log; null for other receivers, and for an entry without a position yet."""
    exported_to: Annotated[int, example(119)] | None
    """For a SIEM export: the last position that the receiver confirmed."""
    not_kept_since: datetime | None
    """The time before which records are deleted, or when the receiver was deleted. Set if `state` is `not_kept`."""
    is_detailed: Annotated[bool, example(True)]
    """Whether the caller may see the receiver's page. If false, the following fields are null."""
    url: Annotated[str, example("https://crm.example.org/hooks")] | None
    """The URL of the receiver; null for a stream that the application polls."""
    attempts: Annotated[int, example(1)] | None
    """The number of attempts."""
    response_status_code: Annotated[int, example(200)] | None
    """The status code of the last response; null if there was none."""
    error: Annotated[str, example("timeout")] | None
    """Why the last attempt failed; null if it succeeded."""


class EntryReceiversRecord(msgspec.Struct, frozen=True, kw_only=True):
    """An entry of the audit log with its receivers."""

    entry_id: Annotated[UUID, example("018f3c5a-7b1e-7c3d-9f4a-2b6c8d0e1f23")]
    """The entry's ID."""
    action: Annotated[str, example("user.removed")]
    """The action."""
    target_type: Annotated[str, example("user")]
    """The type of the object of the action."""
    target_id: Annotated[str, example("018f3c5a-7b1e-7c3d-9f4a-2b6c8d0e1f23")]
    """The ID of this object."""
    created_at: CreatedAt
    receivers: Sequence[EntryReceiverRecord]
    """The receivers of the organization. Those that have not accepted something come first."""
    is_complete: Annotated[bool, example(True)]
    """Whether these are all receivers. At most 500 are returned."""


class OffboardingRecord(msgspec.Struct, frozen=True, kw_only=True):
    """The entries that end or weaken a person's access, with their receivers."""

    user_id: Id
    entries: Sequence[EntryReceiversRecord]
    """The entries, the newest first."""


@endpoint.get(
    "/api/organizations/{org_slug}/audit-log/{entry_id}/receivers", caller=_VIEW, keys=True, verb="audit-entry receivers", tags=_TAGS
)
async def list_entry_receivers(call: Call[None, None, AuditEntryPath, Member], postern: Postern) -> EntryReceiversRecord:
    """List the receivers of an entry of the audit log

    Return each webhook, stream, application, target system and SIEM export of the organization, with what it was sent because of the entry
    and whether it accepted it. URLs and responses require the capability to manage the receiver. Entries of other organizations are not
    found.
    """
    return _heard(call.caller, await postern.record.entry_receivers.of_entry(call.caller.organization, AuditEntryId(call.path.entry_id)))


@endpoint.get(
    "/api/organizations/{org_slug}/users/{user_id}/offboarding", caller=_VIEW, keys=True, verb="audit-entry offboarding", tags=_TAGS
)
async def list_offboarding(call: Call[None, None, OffboardingPath, Member], postern: Postern) -> OffboardingRecord:
    """List who received the end of a person's access

    Return the newest 10 entries of the organization's audit log that end or weaken the person's access, each with its
    receivers: a removal, a changed role, revoked sessions, a lock, a changed password. The list stays when the person has left, and is
    empty for a person whom the log does not name.
    """
    found = await postern.record.entry_receivers.of_person(call.caller.organization, UserId(call.path.user_id))
    return OffboardingRecord(user_id=call.path.user_id, entries=[_heard(call.caller, one) for one in found])


# The right to the page that has the deliveries of the receiver. Such a page of a target system names people, and opens to no key.
_PAGES: Final[Mapping[EntryReceiverKind, Capability]] = {
    EntryReceiverKind.WEBHOOK: Capability.WEBHOOKS_MANAGE,
    EntryReceiverKind.SIGNAL: Capability.WEBHOOKS_MANAGE,
    EntryReceiverKind.LOGOUT_NOTICE: Capability.SERVICES_MANAGE,
    EntryReceiverKind.FRONT_CHANNEL: Capability.SERVICES_MANAGE,
    EntryReceiverKind.APPLICATION: Capability.SERVICES_MANAGE,
    EntryReceiverKind.PROVISIONING: Capability.INTEGRATIONS_MANAGE,
    EntryReceiverKind.SIEM: Capability.INTEGRATIONS_MANAGE,
}


def _may_see(reader: Member, kind: EntryReceiverKind) -> bool:
    if kind is EntryReceiverKind.PROVISIONING and (reader.signed_in is None or reader.signed_in.impersonator is not None):
        return False
    return reader.may(_PAGES[kind])


_record = shown(
    EntryReceiver,
    EntryReceiverRecord,
    given=("is_detailed", "attempts"),
    named={
        "id": "receiver",
        "sent": "what",
        "count": "sent",
        "is_by_time": "of_that_time",
        "next_attempt_at": "next_at",
        "url": "address",
        "response_status_code": "status_code",
    },
)


def _receiver(reader: Member, one: EntryReceiver) -> EntryReceiverRecord:
    if _may_see(reader, one.kind):
        return _record(one, is_detailed=True, attempts=one.attempts)
    return _record(replace(one, address=None, status_code=None, error=None), is_detailed=False, attempts=None)


def _heard(reader: Member, heard: EntryReceipts) -> EntryReceiversRecord:
    act = heard.act
    return EntryReceiversRecord(
        entry_id=act.id,
        action=act.action,
        target_type=act.target_type,
        target_id=act.target_id,
        created_at=act.created_at,
        receivers=[_receiver(reader, one) for one in heard.receivers],
        is_complete=heard.is_whole,
    )
