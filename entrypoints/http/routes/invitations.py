"""Invitations: an organization's, for whoever manages its members; a person's own; and answering one, for whoever holds its token."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Annotated
from urllib.parse import quote
from uuid import UUID

import msgspec

from core.domain.audit import DELETED_USER
from core.domain.errors import BadRequest, InvitationExpired, OrganizationNotActive, RateLimited, TeamLimitExceeded
from core.domain.identifiers import InvitationId
from core.domain.invitations import Invitation, InvitationStatus, Inviter
from core.domain.members import Member
from core.domain.roles import LONGEST_SLUG, Capability
from core.domain.secrets import Token
from entrypoints.bootstrap import Services
from entrypoints.http.answers import NO_BODY, NOTHING, Answer, NoBody, Nothing
from entrypoints.http.callers import ANYONE, PERSON, able
from entrypoints.http.calls import Call
from entrypoints.http.endpoints import endpoint
from entrypoints.http.fields import email_field
from entrypoints.http.paging import Paging, page_of

_TAGS = ("invitations",)
_MANAGERS = able(Capability.MEMBERS_MANAGE)
_OF_ORGANIZATION = "/api/organizations/{org_slug}/invitations"
_ONE = f"{_OF_ORGANIZATION}/{{invitation_id}}"
_REFUSED_ANSWERS = (BadRequest, InvitationExpired, TeamLimitExceeded)
_ANSWERS = (*_REFUSED_ANSWERS, OrganizationNotActive)


class InvitationsPath(msgspec.Struct, frozen=True):
    org_slug: str


class InvitationPath(msgspec.Struct, frozen=True):
    org_slug: str
    invitation_id: UUID


class NewInvitation(msgspec.Struct, frozen=True):
    """`role` is the slug of a role: `member`, `admin`, or one of the organization's own."""

    email: str
    role: Annotated[str, msgspec.Meta(max_length=LONGEST_SLUG)]


class InvitationsQuery(Paging, frozen=True, kw_only=True):
    status: InvitationStatus | None = None


class InvitationRecord(msgspec.Struct, frozen=True):
    """`token` is the SHA-256 of the secret, in hexadecimal. `invited_by` is null when they are gone."""

    id: UUID
    org_id: UUID
    email: str
    role: str
    invited_by: UUID | None
    status: InvitationStatus
    token: str
    expires_at: datetime
    created_at: datetime


class InviterRecord(msgspec.Struct, frozen=True):
    """When their account is gone: `unknown`, `deleted-user@unknown`, and the beginning of time."""

    id: str
    email: str
    created_at: datetime


class InvitationSummary(msgspec.Struct, frozen=True):
    invitation: InvitationRecord
    inviter: InviterRecord


class IssuedInvitation(msgspec.Struct, frozen=True):
    """`token` is the secret that the mailed link carries. It is told here and nowhere else."""

    invitation: InvitationRecord
    inviter: InviterRecord
    token: str


class InvitingOrganization(msgspec.Struct, frozen=True):
    slug: str
    name: str


class OwnInvitationRecord(msgspec.Struct, frozen=True):
    """`token` answers this invitation, once, within a quarter of an hour."""

    id: UUID
    email: str
    role: str
    token: str
    expires_at: datetime
    created_at: datetime
    organization: InvitingOrganization


class InvitationAnswer(msgspec.Struct, frozen=True):
    """The token of a mailed link, or one of the caller's own list."""

    token: Token


class InvitationLink(msgspec.Struct, frozen=True):
    token: str


@endpoint.post(_OF_ORGANIZATION, caller=_MANAGERS, refuses=(BadRequest, RateLimited), tags=_TAGS)
async def create_invitation(call: Call[NewInvitation, None, InvitationsPath, Member], services: Services) -> IssuedInvitation:
    """Invite somebody by e-mail

    For a week. Whoever gives another role than `member` must manage roles and hold everything that the role permits; `owner` is given by
    transfer only. Whether the address has an account is not told.
    """
    email = email_field(call.body.email, services.email_syntax)
    issued = await services.invitations.create(call.caller, email, call.body.role, call.actor)
    return IssuedInvitation(_record(issued.invitation), _inviter(issued.inviter), issued.token.reveal())


@endpoint.get(_OF_ORGANIZATION, caller=_MANAGERS, tags=_TAGS)
async def list_invitations(call: Call[None, InvitationsQuery, InvitationsPath, Member], services: Services) -> Sequence[InvitationSummary]:
    """The organization's invitations, the newest first"""
    query = call.query
    found = await services.invitations.list(call.caller.organization, query.status, page_of(query))
    return [InvitationSummary(_record(one.invitation), _inviter(one.inviter)) for one in found]


@endpoint.post(_ONE, caller=_MANAGERS, tags=_TAGS)
async def cancel_invitation(call: Call[None, None, InvitationPath, Member], services: Services) -> Nothing:
    """Cancel a pending invitation

    Its link does nothing from now on.
    """
    await services.invitations.cancel(call.caller, InvitationId(call.path.invitation_id), call.actor)
    return NOTHING


@endpoint.post(f"{_ONE}/accept", caller=_MANAGERS, refuses=_REFUSED_ANSWERS, tags=_TAGS)
async def accept_invitation_on_behalf(call: Call[None, None, InvitationPath, Member], services: Services) -> Nothing:
    """Accept an invitation in the invited person's place

    As if they had: the caller must be one who could have given the role.
    """
    await services.invitations.accept_on_behalf(call.caller, InvitationId(call.path.invitation_id), call.actor)
    return NOTHING


@endpoint.get("/api/invitations", caller=PERSON, tags=_TAGS)
async def list_own_invitations(call: Call, services: Services) -> Sequence[OwnInvitationRecord]:
    """The invitations to the caller's own address

    Only those that can be answered, the newest hundred, once the address is verified.
    """
    return [
        OwnInvitationRecord(
            one.id,
            one.email.address,
            one.role,
            token.reveal(),
            one.expires_at,
            one.created_at,
            InvitingOrganization(one.organization_slug, one.organization_name),
        )
        for one, token in await services.invitations.list_own(call.caller)
    ]


@endpoint.post("/api/invitations/accept", caller=ANYONE, refuses=_ANSWERS, tags=_TAGS)
async def accept_invitation(call: Call[InvitationAnswer], services: Services) -> Nothing:
    """Accept an invitation

    The invited address becomes a member. When it has no account it gets one, and a mail with a link to choose a password.
    """
    await services.invitations.accept(call.body.token, call.actor)
    return NOTHING


@endpoint.post("/api/invitations/decline", caller=ANYONE, refuses=(BadRequest, InvitationExpired), tags=_TAGS)
async def decline_invitation(call: Call[InvitationAnswer], services: Services) -> Nothing:
    """Decline an invitation"""
    await services.invitations.decline(call.body.token, call.actor)
    return NOTHING


@endpoint.get("/invitations/accept", caller=ANYONE, status=301, tags=_TAGS)
def open_invitation(call: Call[None, InvitationLink], services: Services) -> Answer[NoBody]:
    """Where the mailed link leads

    On to the page of the same path at the frontend.
    """
    place = f"{services.links.frontend_url}/invitations/accept?token={quote(call.query.token, safe='')}"
    return Answer(NO_BODY, 301, ((b"location", place.encode()),))


def _record(invitation: Invitation) -> InvitationRecord:
    return InvitationRecord(
        invitation.id,
        invitation.organization,
        invitation.email.address,
        invitation.role,
        invitation.invited_by,
        invitation.status,
        invitation.token_digest.hex(),
        invitation.expires_at,
        invitation.created_at,
    )


def _inviter(inviter: Inviter | None) -> InviterRecord:
    if inviter is None:
        return InviterRecord("unknown", DELETED_USER, datetime(1970, 1, 1, tzinfo=UTC))
    return InviterRecord(str(inviter.id), inviter.email.address, inviter.created_at)
