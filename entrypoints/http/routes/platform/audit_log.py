"""The audit log of the installation: what platform owners, operators and the system did that concerns no single organization."""

from collections.abc import Sequence
from uuid import UUID

import msgspec

from core.domain.errors import BadRequest
from core.domain.identifiers import AuditEntryId
from core.domain.identity.callers import Caller
from core.domain.record.audit import PLATFORM_CHAIN, AuditEntry
from core.domain.tenancy.management_keys import ManagementKeyHolder, PlatformCapability
from entrypoints.bootstrap import Postern
from entrypoints.http.machinery.callers import PLATFORM_OWNER
from entrypoints.http.machinery.calls import Call
from entrypoints.http.machinery.endpoints import endpoint
from entrypoints.http.machinery.fields import OrganizationUuid
from entrypoints.http.machinery.paging import page_of
from entrypoints.http.routes.record.audit import (
    AuditLogQuery,
    DetailedPagination,
    LoggedAnywhere,
    filter_of,
    parts_of,
    subject_of,
    whole_pagination,
)

_TAGS = ("installation",)
_LOG = "/api/platform/audit-log"


class PlatformEntryPath(msgspec.Struct, frozen=True):
    entry_id: UUID
    """The entry's id."""


class PlatformAuditEntryRecord(LoggedAnywhere, frozen=True, kw_only=True):
    """One entry of the installation's audit log."""

    org_id: OrganizationUuid | None = None
    """Always null: what concerns an organization is in the log of that organization."""


class PlatformAuditLogPage(msgspec.Struct, frozen=True):
    """One page of the installation's audit log."""

    logs: Sequence[PlatformAuditEntryRecord]
    """The entries on this page, the newest first."""
    pagination: DetailedPagination
    """Where this page stands in the list."""


@endpoint.get(_LOG, caller=PLATFORM_OWNER, keys=PlatformCapability.AUDIT_LOGS_VIEW, refuses=(BadRequest,), tags=_TAGS)
async def list_platform_audit_log(call: Call[None, AuditLogQuery], postern: Postern) -> PlatformAuditLogPage:
    """List what was done in the installation, the newest first

    Acts of platform owners, operators and the system, and people's own affairs, as far as they concern no organization. `target_id` needs a
    `target_type`. With a filter the list ends after the newest 10 000 matches: to see older ones, use `since` and `until`.
    """
    query = call.query
    found = await postern.record.audit.list(PLATFORM_CHAIN, filter_of(query), page_of(query))
    return PlatformAuditLogPage([_logged(call.caller, entry) for entry in found.items], whole_pagination(query, found))


@endpoint.get(f"{_LOG}/{{entry_id}}", caller=PLATFORM_OWNER, keys=PlatformCapability.AUDIT_LOGS_VIEW, tags=_TAGS)
async def get_platform_audit_entry(call: Call[None, None, PlatformEntryPath], postern: Postern) -> PlatformAuditEntryRecord:
    """Get one entry of the installation's audit log

    An entry of an organization's own log is not found here.
    """
    return _logged(call.caller, await postern.record.audit.get(PLATFORM_CHAIN, AuditEntryId(call.path.entry_id)))


def _logged(reader: Caller | ManagementKeyHolder, entry: AuditEntry) -> PlatformAuditEntryRecord:
    return PlatformAuditEntryRecord(subject=subject_of(entry), **parts_of(reader, entry))
