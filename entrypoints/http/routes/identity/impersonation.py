"""Impersonation: platform owners act in a user's name."""

from datetime import datetime
from typing import Annotated
from uuid import UUID

import msgspec

from core.domain.errors import NotFound
from core.domain.identifiers import UserId
from entrypoints.bootstrap import Postern
from entrypoints.http.machinery.callers import PLATFORM_OWNER
from entrypoints.http.machinery.calls import Call
from entrypoints.http.machinery.endpoints import endpoint
from entrypoints.http.machinery.fields import AccessTokenText, EmailAddress, Id, Line, Reason, RefreshTokenText, UserUuid, Word, example
from entrypoints.http.machinery.limits import IMPERSONATION


class NewImpersonation(msgspec.Struct, frozen=True):
    """The reason for the impersonation, and the organization and service of the tokens."""

    reason: Annotated[Reason, example("Ticket 4711: cannot see invoices")]
    """The reason. The audit log records it."""
    org_slug: Annotated[Word, example("acme")] | None = None
    """The organization of the tokens. The user must be a member of it."""
    service_slug: Annotated[Line, example("billing")] | None = None
    """The service of the tokens, in this organization. The user must have used it."""


class UserToImpersonate(msgspec.Struct, frozen=True):
    user_id: UserUuid


class ImpersonatedUser(msgspec.Struct, frozen=True):
    """The impersonated user."""

    id: Id
    email: EmailAddress


class ImpersonationSession(msgspec.Struct, frozen=True):
    """An impersonation session."""

    access_token: AccessTokenText
    """The access token, which expires at `expires_at`."""
    refresh_token: RefreshTokenText
    """The refresh token, which also expires at `expires_at`."""
    impersonated_user: ImpersonatedUser
    """The impersonated user."""
    session_id: UUID
    """The session's ID."""
    expires_at: datetime
    """When the session expires, at most 1 hour from now."""
    audit_log_id: UUID
    """The ID of the audit log entry about the impersonation."""


@endpoint.post(
    "/api/platform/impersonate/{user_id}",
    caller=PLATFORM_OWNER,
    limit=IMPERSONATION,
    refuses=(NotFound,),
    tags=("platform",),
)
async def impersonate_user(call: Call[NewImpersonation, None, UserToImpersonate], postern: Postern) -> ImpersonationSession:
    """Impersonate a user

    Only a platform owner can do this, for at most 1 hour. The audit log records the reason and every request with these tokens. With
    `org_slug`, the tokens are for this organization. With `service_slug` as well, they are for this service of the organization.

    While you impersonate, you cannot change the user's own settings, such as the password, email address, MFA and devices. You also cannot
    create objects that outlast the impersonation, such as keys, secrets and invitations. If either account is deactivated, the session is
    revoked. The same happens if you are no longer a platform owner, or the session that you started from ends.
    """
    asked = call.body
    begun = await postern.identity.impersonations.begin(
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
