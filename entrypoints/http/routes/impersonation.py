"""Platform owners acting in a user's name."""

from datetime import datetime
from uuid import UUID

import msgspec

from core.domain.errors import NotFound
from core.domain.identifiers import UserId
from entrypoints.bootstrap import Services
from entrypoints.http.callers import PLATFORM_OWNER
from entrypoints.http.calls import Call
from entrypoints.http.endpoints import endpoint
from entrypoints.http.limits import IMPERSONATION


class Impersonate(msgspec.Struct, frozen=True):
    reason: str
    org_slug: str | None = None
    service_slug: str | None = None


class UserToImpersonate(msgspec.Struct, frozen=True):
    user_id: UUID


class ImpersonatedUser(msgspec.Struct, frozen=True):
    id: UUID
    email: str


class ImpersonationSession(msgspec.Struct, frozen=True):
    """Access and refresh token both end at `expires_at`."""

    access_token: str
    refresh_token: str
    impersonated_user: ImpersonatedUser
    session_id: UUID
    expires_at: datetime
    audit_log_id: UUID


@endpoint.post(
    "/api/platform/impersonate/{user_id}",
    caller=PLATFORM_OWNER,
    limit=IMPERSONATION,
    refuses=(NotFound,),
    tags=("platform",),
)
async def impersonate(call: Call[Impersonate, None, UserToImpersonate], services: Services) -> ImpersonationSession:
    """Act in a user's name, for an hour at most

    The reason is kept in the audit log, and so is every request made with these tokens. With `org_slug` they are for that organization, of
    which the user must be a member; with `service_slug` beside it for that service, which the user must have used. Changing the password or
    the e-mail address, anything about the second factor, and deleting the account are refused while impersonating. The session ends at once
    when the user or the platform owner is deactivated, or the platform owner is none any more.
    """
    asked = call.body
    begun = await services.impersonations.begin(
        call.caller,
        UserId(call.path.user_id),
        asked.reason,
        call.actor,
        organization=asked.org_slug or "",
        service=asked.service_slug or "",
    )
    return ImpersonationSession(
        begun.tokens.access_token.reveal(),
        begun.tokens.refresh_token.reveal(),
        ImpersonatedUser(begun.account.id, begun.account.email.address),
        begun.id,
        begun.expires_at,
        begun.audit_entry,
    )
