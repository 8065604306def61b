"""The audit log of an organization, for members who may read it."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Annotated, Any
from uuid import UUID

import msgspec

from core.domain.errors import BadRequest
from core.domain.identifiers import AuditEntryId, UserId
from core.domain.identity.callers import Caller
from core.domain.record.audit import AuditEntry, AuditFilter, Person
from core.domain.record.events import ActingKey, ActingKind, TargetType
from core.domain.requests import Listed
from core.domain.tenancy.management_keys import ManagementKeyHolder
from core.domain.tenancy.members import Member, knows_of_office
from core.domain.tenancy.roles import Capability
from entrypoints.bootstrap import Postern
from entrypoints.http.machinery.callers import able
from entrypoints.http.machinery.calls import Call
from entrypoints.http.machinery.endpoints import endpoint
from entrypoints.http.machinery.fields import (
    CreatedAt,
    EmailAddress,
    Id,
    IsPlatformOwner,
    OrganizationPath,
    OrganizationUuid,
    Pagination,
    Paging,
    PersonName,
    Success,
    example,
    page_of,
)
from entrypoints.http.pages.kit import shipped_pages

_TAGS = ("audit",)
_LONGEST_ACTION = 100
_LONGEST_TARGET = 200


class AuditEntryPath(OrganizationPath, frozen=True):
    entry_id: UUID
    """The entry's ID."""


class AuditLogQuery(Paging, frozen=True, kw_only=True):
    """The span begins at `since` and ends before `until`. Both need their offset from UTC. `actor_id` is the id of a person or of a
    key.
    """

    action: Annotated[str, msgspec.Meta(min_length=1, max_length=_LONGEST_ACTION, examples=["user.invited"])] | None = None
    """Return only entries with this action."""
    target_type: TargetType | None = None
    """Return only entries about this type of object."""
    target_id: (
        Annotated[str, msgspec.Meta(min_length=1, max_length=_LONGEST_TARGET, examples=["018f3c5a-7b1e-7c3d-9f4a-2b6c8d0e1f23"])] | None
    ) = None
    """Return only entries about the object with this ID. Requires `target_type`."""
    actor_id: UUID | None = None
    """Return only actions of this person or key."""
    success: Success | None = None
    """True returns only successful actions; false returns only failed ones."""
    since: Annotated[datetime, msgspec.Meta(tz=True)] | None = None
    """Return only entries at or after this time. Include the UTC offset."""
    until: Annotated[datetime, msgspec.Meta(tz=True)] | None = None
    """Return only entries before this time. Include the UTC offset."""


class AuditActorKey(msgspec.Struct, frozen=True):
    """The key that acted, with its name at that time."""

    name: Annotated[str, example("Billing server")]
    """The key's name."""
    prefix: Annotated[str, example("sk_a1b2c3")]
    """The prefix of the key."""


class AuditActor(msgspec.Struct, frozen=True, kw_only=True):
    """A person with their current email address, an API key, a management API key, a SCIM token, or a setup link."""

    id: Id
    email: Annotated[str, example("ada@example.org")] | None
    """The person's email address; null for a key, a SCIM token or a setup link."""
    name: PersonName | None = None
    is_platform_owner: IsPlatformOwner
    api_key: AuditActorKey | msgspec.UnsetType = msgspec.UNSET
    """The API key; absent for other actors."""
    management_key: AuditActorKey | msgspec.UnsetType = msgspec.UNSET
    """The management API key; absent for other actors."""
    scim_token: AuditActorKey | msgspec.UnsetType = msgspec.UNSET
    """The SCIM token of a directory; absent for other actors."""
    setup_link: AuditActorKey | msgspec.UnsetType = msgspec.UNSET
    """The setup link; absent for other actors."""


class AuditSubject(msgspec.Struct, frozen=True, kw_only=True):
    """The person whom an entry is about, with their current email address."""

    id: Id
    email: EmailAddress
    name: PersonName | None


class AuditService(msgspec.Struct, frozen=True, kw_only=True):
    """The service that an entry is about, with its current names."""

    slug: Annotated[str, example("board")]
    """The service's slug."""
    name: Annotated[str, example("Board")]
    """The service's display name."""


class LoggedAnywhere(msgspec.Struct, frozen=True, kw_only=True):
    """One entry of an audit log, whichever log it is in."""

    id: Id
    actor: AuditActor | None
    """The person, key, token or link that acted; null for the system."""
    impersonator: AuditActor | None
    """The platform owner who impersonated the actor; null if no one did."""
    action: Annotated[str, example("user.invited")]
    """The action."""
    target_type: Annotated[str, example("user")]
    """The type of the object of the action."""
    target_id: Annotated[str, example("018f3c5a-7b1e-7c3d-9f4a-2b6c8d0e1f23")]
    """The ID of this object."""
    ip_address: Annotated[str, example("203.0.113.7")] | None
    """The IP address of the request; null for the system."""
    user_agent: Annotated[str, example("curl/8.14.1")] | None
    """The client's `User-Agent` header."""
    success: Success
    """Whether the action succeeded."""
    details: Annotated[Mapping[str, Any], example({"invited_email": "grace@example.org", "role": "member"})]
    """The details of the action. The keys depend on `action`."""
    created_at: CreatedAt
    """The time of the action."""
    subject: AuditSubject | msgspec.UnsetType = msgspec.UNSET
    """The person whom the entry is about, if the person has an account. In an organization's log, the person is absent unless they are a
    member or use one of its services.
    """
    service: AuditService | msgspec.UnsetType = msgspec.UNSET
    """The service that the entry is about; absent if the service was deleted. What the entry states about the service stays in `details`.
    """


class AuditEntryRecord(LoggedAnywhere, frozen=True, kw_only=True):
    """One entry of the audit log."""

    org_id: OrganizationUuid


class DetailedPagination(Pagination, frozen=True):
    """The position of this page in the list."""

    total_pages: Annotated[int, example(3)]
    """The total number of pages."""
    has_next: bool
    """Whether there is a next page."""
    has_prev: bool
    """Whether there is a previous page."""


class AuditLogPage(msgspec.Struct, frozen=True):
    """One page of the audit log."""

    logs: Sequence[AuditEntryRecord]
    """The entries on this page, the newest first."""
    pagination: DetailedPagination
    """The position of this page in the list."""


class AuditEventType(msgspec.Struct, frozen=True):
    """An action that the audit log can contain."""

    value: Annotated[str, example("user.invited")]
    """The action, as in entries and filters."""
    label: Annotated[str, example("Person invited")]
    """The display name of the action."""
    category: Annotated[str, example("User management")]
    """The category of the action."""


@endpoint.get(
    "/api/organizations/{org_slug}/audit-log",
    caller=able(Capability.AUDIT_LOGS_VIEW, impersonated=True),
    keys=True,
    refuses=(BadRequest,),
    tags=_TAGS,
)
async def list_audit_log(call: Call[None, AuditLogQuery, OrganizationPath, Member], postern: Postern) -> AuditLogPage:
    """List the audit log of an organization

    Return the entries, the newest first. `target_id` requires `target_type`. Without a filter, you can read every page, and `total` is
    exact. With a filter, the list ends after the newest 10 000 matches: a `total` of 10 000 means "10 000 or more", and later pages are
    rejected. To see older matches, use `since` and `until`.
    """
    query = call.query
    found = await postern.record.audit.list(call.caller.organization, filter_of(query), page_of(query))
    return AuditLogPage([logged(call.caller, entry) for entry in found.items], whole_pagination(query, found))


@endpoint.get(
    "/api/organizations/{org_slug}/audit-log/{entry_id}", caller=able(Capability.AUDIT_LOGS_VIEW, impersonated=True), keys=True, tags=_TAGS
)
async def get_audit_entry(call: Call[None, None, AuditEntryPath, Member], postern: Postern) -> AuditEntryRecord:
    """Get an entry of the audit log

    Entries never change. Entries of other organizations are not found.
    """
    return logged(call.caller, await postern.record.audit.get(call.caller.organization, AuditEntryId(call.path.entry_id)))


def filter_of(query: AuditLogQuery) -> AuditFilter:
    return AuditFilter(
        action=query.action,
        target_type=query.target_type,
        target_id=query.target_id,
        actor=None if query.actor_id is None else UserId(query.actor_id),
        success=query.success,
        since=query.since,
        until=query.until,
    )


@endpoint.get(
    "/api/organizations/{org_slug}/audit-log/event-types", caller=able(Capability.AUDIT_LOGS_VIEW, impersonated=True), keys=True, tags=_TAGS
)
def list_audit_event_types(_call: Call[None, None, OrganizationPath, Member], postern: Postern) -> Sequence[AuditEventType]:
    """List the audit log actions

    Return the actions that the audit log can contain, each with a display name. New versions can add actions.
    """
    label = shipped_pages().event_label
    return [AuditEventType(action.name, label(action.name), action.category) for action in postern.record.audit.actions()]


def whole_pagination(query: Paging, found: Listed[AuditEntry]) -> DetailedPagination:
    pages = -(-found.total // query.limit)
    return DetailedPagination(query.page, query.limit, found.total, pages, query.page < pages, query.page > 1)


def logged(reader: Member, entry: AuditEntry) -> AuditEntryRecord:
    return AuditEntryRecord(org_id=entry.organization, subject=subject_of(entry), **parts_of(reader, entry))


def subject_of(entry: AuditEntry) -> AuditSubject | msgspec.UnsetType:
    about = entry.subject
    return msgspec.UNSET if about is None else AuditSubject(id=about.id, email=about.email, name=about.name)


def service_of(entry: AuditEntry) -> AuditService | msgspec.UnsetType:
    about = entry.service
    return msgspec.UNSET if about is None else AuditService(slug=about.slug, name=about.name)


def parts_of(reader: Caller | Member | ManagementKeyHolder, entry: AuditEntry) -> dict[str, Any]:
    """The fields that an entry has in every log."""
    return {
        "id": entry.id,
        "actor": _actor(reader, entry.actor),
        "impersonator": _actor(reader, entry.impersonator),
        "action": entry.action,
        "target_type": entry.target_type,
        "service": service_of(entry),
        "target_id": entry.target_id,
        "ip_address": entry.address,
        "user_agent": entry.user_agent,
        "success": entry.success,
        "details": entry.details,
        "created_at": entry.created_at,
    }


def key_of(actor: AuditActor) -> AuditActorKey | None:
    """The key, token or link that acted. None for a person."""
    keys = (getattr(actor, kind.value) for kind in ActingKind)
    return next((one for one in keys if one is not msgspec.UNSET), None)


def _actor(reader: Caller | Member | ManagementKeyHolder, actor: Person | ActingKey | None) -> AuditActor | None:
    match actor:
        case None:
            return None
        case ActingKey():
            keys: dict[str, Any] = {actor.kind.value: AuditActorKey(actor.name, actor.prefix)}
            return AuditActor(id=actor.id, email=None, is_platform_owner=False, **keys)
        case Person():
            governs = knows_of_office(reader, actor.id, is_platform_owner=actor.is_platform_owner)
            return AuditActor(id=actor.id, email=actor.email, name=actor.name, is_platform_owner=governs)
