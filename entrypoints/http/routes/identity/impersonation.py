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
    """The reason for the impersonation, and the organization and service that the tokens are for."""

    reason: Annotated[Reason, example("Ticket 4711: cannot see invoices")]
    """Your reason. The audit log keeps it."""
    org_slug: Annotated[Word, example("acme")] | None = None
    """Get tokens for this organization. The user must be a member of it."""
    service_slug: Annotated[Line, example("billing")] | None = None
    """Get tokens for this service of the organization. The user must have used it."""


class UserToImpersonate(msgspec.Struct, frozen=True):
    user_id: UserUuid


class ImpersonatedUser(msgspec.Struct, frozen=True):
    """The user in whose name you act."""

    id: Id
    email: EmailAddress


class ImpersonationSession(msgspec.Struct, frozen=True):
    """A session in the user's name."""

    access_token: AccessTokenText
    """The access token, which expires at `expires_at`."""
    refresh_token: RefreshTokenText
    """The refresh token, which also expires at `expires_at`."""
    impersonated_user: ImpersonatedUser
    """The user in whose name you act."""
    session_id: UUID
    """The session's ID."""
    expires_at: datetime
    """When the session ends: an hour from now at the latest."""
    audit_log_id: UUID
    """The audit entry that records the impersonation."""


@endpoint.post(
    "/api/platform/impersonate/{user_id}",
    caller=PLATFORM_OWNER,
    limit=IMPERSONATION,
    refuses=(NotFound,),
    tags=("platform",),
)
async def impersonate_user(call: Call[NewImpersonation, None, UserToImpersonate], postern: Postern) -> ImpersonationSession:
    """Impersonate a user for one hour at most

    The audit log keeps the reason and every request with these tokens. With `org_slug` the tokens are for this organization; with
    `service_slug` as well, for this service of the organization. While you impersonate, you cannot change the user's own affairs, such as
    the password, the email address, MFA or the devices. Neither can you create things that outlast the impersonation, such as keys, secrets
    and invitations. The session ends as soon as either account is deactivated, you are no longer a platform owner, or the session that you
    started from ends.
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
