"""The audit log of an organization, for those who may read it."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Annotated, Any
from uuid import UUID

import msgspec

from core.domain.audit import AuditEntry, AuditFilter, Person, TargetType
from core.domain.errors import BadRequest
from core.domain.identifiers import UserId
from core.domain.members import Member
from core.domain.pages import Listed
from core.domain.roles import Capability
from entrypoints.bootstrap import Services
from entrypoints.http.callers import able
from entrypoints.http.calls import Call
from entrypoints.http.endpoints import endpoint
from entrypoints.http.paging import Pagination, Paging, page_of

_TAGS = ("audit",)
_LONGEST_ACTION = 100
_LONGEST_TARGET = 200


class AuditLogPath(msgspec.Struct, frozen=True):
    org_slug: str


class AuditLogQuery(Paging, frozen=True, kw_only=True):
    """`since` belongs to the span that is asked for, `until` does not; both with their offset from UTC."""

    action: Annotated[str, msgspec.Meta(min_length=1, max_length=_LONGEST_ACTION)] | None = None
    target_type: TargetType | None = None
    target_id: Annotated[str, msgspec.Meta(min_length=1, max_length=_LONGEST_TARGET)] | None = None
    actor_id: UUID | None = None
    success: bool | None = None
    since: Annotated[datetime, msgspec.Meta(tz=True)] | None = None
    until: Annotated[datetime, msgspec.Meta(tz=True)] | None = None


class AuditActor(msgspec.Struct, frozen=True):
    """As they are known now."""

    id: UUID
    email: str
    is_platform_owner: bool


class LoggedAction(msgspec.Struct, frozen=True, kw_only=True):
    """`actor` and `ip_address` are null for what the system did by itself. `impersonator` is whoever acted in the actor's name."""

    id: UUID
    org_id: UUID
    actor: AuditActor | None
    impersonator: AuditActor | None
    action: str
    target_type: str
    target_id: str
    ip_address: str | None
    user_agent: str | None
    success: bool
    details: Mapping[str, Any]
    created_at: datetime


class WholePagination(Pagination, frozen=True):
    total_pages: int
    has_next: bool
    has_prev: bool


class AuditLogPage(msgspec.Struct, frozen=True):
    logs: Sequence[LoggedAction]
    pagination: WholePagination


class EventType(msgspec.Struct, frozen=True):
    value: str
    label: str
    category: str


@endpoint.get("/api/organizations/{org_slug}/audit-log", caller=able(Capability.AUDIT_LOGS_VIEW), refuses=(BadRequest,), tags=_TAGS)
async def audit_log(call: Call[None, AuditLogQuery, AuditLogPath, Member], services: Services) -> AuditLogPage:
    """What was done in the organization, the newest first

    `target_id` wants a `target_type`. Without filters every page is at hand, and the total is exact. With one, the list ends after the
    newest 10 000 that match: a total of 10 000 says "at least", and a page beyond it is refused. `since` and `until` narrow it.
    """
    query = call.query
    wanted = AuditFilter(
        action=query.action,
        target_type=query.target_type,
        target_id=query.target_id,
        actor=None if query.actor_id is None else UserId(query.actor_id),
        success=query.success,
        since=query.since,
        until=query.until,
    )
    found = await services.audit.list(call.caller.organization, wanted, page_of(query))
    return AuditLogPage([_logged(entry) for entry in found.items], _pagination(query, found))


@endpoint.get("/api/organizations/{org_slug}/audit-log/event-types", caller=able(Capability.AUDIT_LOGS_VIEW), tags=_TAGS)
def audit_event_types(_call: Call[None, None, AuditLogPath, Member], services: Services) -> Sequence[EventType]:
    """The actions that can stand in the log"""
    return [EventType(action.value, action.label, action.category) for action in services.audit.actions()]


def _pagination(query: Paging, found: Listed[AuditEntry]) -> WholePagination:
    pages = -(-found.total // query.limit)
    return WholePagination(query.page, query.limit, found.total, pages, query.page < pages, query.page > 1)


def _logged(entry: AuditEntry) -> LoggedAction:
    return LoggedAction(
        id=entry.id,
        org_id=entry.organization,
        actor=_actor(entry.actor),
        impersonator=_actor(entry.impersonator),
        action=entry.action,
        target_type=entry.target_type,
        target_id=entry.target_id,
        ip_address=entry.address,
        user_agent=entry.user_agent,
        success=entry.success,
        details=entry.details,
        created_at=entry.created_at,
    )


def _actor(person: Person | None) -> AuditActor | None:
    return None if person is None else AuditActor(person.id, person.email, person.is_platform_owner)
