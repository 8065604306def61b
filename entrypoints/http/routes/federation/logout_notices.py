"""Logout notices of an application: the outcome of its back-channel logout requests."""

from collections.abc import Sequence
from datetime import datetime
from typing import Annotated
from uuid import UUID

import msgspec

from core.domain.federation.logouts import LOGOUT_NOTICE_RULES, LogoutNotice
from core.domain.tenancy.members import Member
from core.domain.tenancy.roles import Capability
from entrypoints.bootstrap import Postern
from entrypoints.http.machinery.callers import able
from entrypoints.http.machinery.calls import Call
from entrypoints.http.machinery.derived import shown
from entrypoints.http.machinery.endpoints import endpoint
from entrypoints.http.machinery.fields import CreatedAt, Id, Paging, ServicePath, UpdatedAt, example, page_of
from entrypoints.http.routes.record.audit import DetailedPagination

_NOTICES = "/api/organizations/{org_slug}/services/{service_slug}/logout-notices"


class LogoutNoticesQuery(Paging, frozen=True, kw_only=True):
    """A filter on notices."""

    delivered: bool | None = None
    """If true, only delivered notices. If false, only undelivered notices."""


class LogoutNoticeRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A back-channel logout notice about one session."""

    id: Id
    session_id: UUID
    """The ID of the session that ended. It is `sid` in the session's ID tokens."""
    user_id: UUID
    """The ID of the session's user. It is `sub` in the session's ID tokens."""
    response_status_code: Annotated[int, example(200)] | None
    """The status code of the last response; null if there was none."""
    attempt_count: Annotated[int, example(1)]
    """The number of attempts."""
    max_attempts: Annotated[int, example(LOGOUT_NOTICE_RULES.most_attempts)]
    """The maximum number of attempts."""
    next_retry_at: datetime | None
    """When the next attempt is due; null if there is none."""
    delivered: Annotated[bool, example(True)]
    """Whether the service received the notice."""
    delivery_error: Annotated[str, example("timeout")] | None
    """Why the last attempt failed; null if it succeeded."""
    created_at: CreatedAt
    updated_at: UpdatedAt


class LogoutNoticeList(msgspec.Struct, frozen=True):
    """One page of notices."""

    logout_notices: Sequence[LogoutNoticeRecord]
    """The notices on this page, newest first."""
    pagination: DetailedPagination
    """The position of this page in the list."""


@endpoint.get(_NOTICES, caller=able(Capability.SERVICES_MANAGE, impersonated=True), keys=True, tags=("services",))
async def list_logout_notices(call: Call[None, LogoutNoticesQuery, ServicePath, Member], postern: Postern) -> LogoutNoticeList:
    """List logout notices of a service

    Returns notices newest first. If a service has a `backchannel_logout_uri`, it gets a logout token for each of its sessions that ends.
    Postern retries a notice for at most one day. A response of 400 is final. Notices are kept for 30 days, unless the operator of this
    installation set another period. A `total` of 10 000 means "10 000 or more".
    """
    query = call.query
    listed = await postern.federation.logout_notices.list(call.caller, call.path.service_slug, page_of(query), delivered=query.delivered)
    pages = -(-listed.total // query.limit)
    pagination = DetailedPagination(query.page, query.limit, listed.total, pages, query.page < pages, query.page > 1)
    return LogoutNoticeList([_record(notice) for notice in listed.items], pagination)


_record = shown(
    LogoutNotice,
    LogoutNoticeRecord,
    named={
        "session_id": "session",
        "user_id": "user",
        "response_status_code": "status_code",
        "attempt_count": "attempts",
        "next_retry_at": "next_at",
        "delivery_error": "error",
    },
    max_attempts=lambda _notice: LOGOUT_NOTICE_RULES.most_attempts,
    delivered=lambda notice: notice.delivered_at is not None,
)
