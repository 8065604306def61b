"""How people become members: invitations, of an organization and to the caller's own address, and requests to join."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Annotated
from urllib.parse import quote
from uuid import UUID

import msgspec

from core.domain.errors import BadRequest, InvitationExpired, OrganizationNotActive, RateLimited, TeamLimitExceeded
from core.domain.identifiers import InvitationId, JoinRequestId
from core.domain.identity.profiles import LONGEST_NAME
from core.domain.record.audit import DELETED_USER
from core.domain.secrets import Token
from core.domain.tenancy.invitations import Invitation, InvitationStatus, Inviter, InvitingKey
from core.domain.tenancy.join_requests import JoinRequest, JoinRequestStatus
from core.domain.tenancy.members import Member
from core.domain.tenancy.roles import LONGEST_SLUG, Capability
from entrypoints.bootstrap import Postern
from entrypoints.http.machinery.answers import EMPTY_OBJECT, NO_BODY, Answer, EmptyObject, NoBody
from entrypoints.http.machinery.callers import ANYONE, PERSON, able
from entrypoints.http.machinery.calls import Call
from entrypoints.http.machinery.derived import shown
from entrypoints.http.machinery.endpoints import endpoint
from entrypoints.http.machinery.fields import (
    SHOWN_ONCE,
    CreatedAt,
    EmailAddress,
    EmailText,
    Id,
    OrganizationPath,
    OrganizationUuid,
    Paging,
    PersonName,
    SlugOfRole,
    Word,
    email_field,
    example,
    page_of,
)
from entrypoints.http.machinery.limits import INVITATION_ANSWERS, UNLIMITED

_TAGS = ("invitations",)
_MANAGERS = able(Capability.MEMBERS_MANAGE, impersonated=True)
# An invitation's token is valid for a week, and a membership lasts: an impersonation of an hour must create neither.
_MANAGERS_IN_PERSON = able(Capability.MEMBERS_MANAGE, impersonated=False)
_OF_ORGANIZATION = "/api/organizations/{org_slug}/invitations"
_ONE = f"{_OF_ORGANIZATION}/{{invitation_id}}"
_REFUSED_ANSWERS = (BadRequest, InvitationExpired, TeamLimitExceeded)
_ANSWERS = (*_REFUSED_ANSWERS, OrganizationNotActive)


class OrganizationInvitationPath(OrganizationPath, frozen=True):
    invitation_id: UUID
    """The invitation's ID."""


class NewInvitation(msgspec.Struct, frozen=True):
    """The email address to invite, and the role to offer."""

    email: EmailText
    """The email address to invite."""
    role: Annotated[str, msgspec.Meta(max_length=LONGEST_SLUG, examples=["member"])]
    """The slug of the role: `member`, `admin`, or one of the organization's own."""
    replaces: Annotated[UUID, example("018f3c5a-7b1e-7c3d-9f4a-2b6c8d0e1f23")] | None = None
    """The ID of a pending invitation to the same email address, to send it again: its link stops working as the new one is made. Null if
    the address has none.
    """


class InvitationsQuery(Paging, frozen=True, kw_only=True):
    status: InvitationStatus | None = None
    """Only invitations in this state."""


class InvitationRecord(msgspec.Struct, frozen=True):
    """An invitation to an organization."""

    id: Id
    org_id: OrganizationUuid
    email: EmailAddress
    """The invited email address."""
    role: SlugOfRole
    invited_by: UUID | None
    """The user who sent the invitation; null if the account was deleted."""
    status: Annotated[InvitationStatus, example("pending")]
    """The state of the invitation."""
    token: Annotated[str, example("9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08")]
    """A SHA-256 digest of the invitation's token, in hexadecimal. You cannot answer the invitation with it."""
    expires_at: datetime
    """When the invitation expires."""
    created_at: CreatedAt


class InviterRecord(msgspec.Struct, frozen=True):
    """The user who sent the invitation. For a deleted account: `unknown`, `deleted-user@unknown`, and 1970."""

    id: Annotated[str, example("018f3c5a-7b1e-7c3d-9f4a-2b6c8d0e1f23")]
    """The inviter's ID."""
    email: EmailAddress
    created_at: CreatedAt
    name: PersonName | None = None


class InvitingKeyRecord(msgspec.Struct, frozen=True):
    """The management API key that sent the invitation. It is void once the key was revoked, or may no longer give the role."""

    id: Id
    name: Annotated[str | None, example("Nightly sync")]
    """The key's name; null if the key was revoked."""
    prefix: Annotated[str | None, example("pto_a1b2c3")]
    """The prefix of the key; null if the key was revoked."""


class InvitationSummary(msgspec.Struct, frozen=True):
    """An invitation, and the user who sent it."""

    invitation: InvitationRecord
    """The invitation."""
    inviter: InviterRecord
    """The user who sent the invitation. If a management API key sent it, the person who answered for the key."""
    management_key: InvitingKeyRecord | None = None
    """The management API key that sent the invitation; null if a person did."""


class IssuedInvitation(msgspec.Struct, frozen=True):
    """The new invitation. This is the only response with its token."""

    invitation: InvitationRecord
    """The invitation."""
    inviter: InviterRecord
    """The user who sent the invitation."""
    token: Annotated[str, SHOWN_ONCE, example("b3f1a5c2-7d0e-4d1c-9a53-2f6c1f0f8e11")]
    """The token in the magic link. It is shown only once."""


class InvitingOrganization(msgspec.Struct, frozen=True):
    """The organization that invites."""

    slug: Annotated[str, example("acme")]
    """The organization's slug."""
    name: Annotated[str, example("Acme Ltd")]
    """The organization's name."""


class OwnInvitationRecord(msgspec.Struct, frozen=True):
    """An invitation to your own email address."""

    id: Id
    email: EmailAddress
    """The invited email address."""
    role: SlugOfRole
    token: Annotated[str, example("b3f1a5c2-7d0e-4d1c-9a53-2f6c1f0f8e11")]
    """Answer the invitation with this token: once, within 15 minutes."""
    expires_at: datetime
    """When the invitation expires."""
    created_at: CreatedAt
    organization: InvitingOrganization
    """The organization that invites."""


class InvitationReply(msgspec.Struct, frozen=True):
    """The token of the invitation."""

    token: Annotated[Token, example("b3f1a5c2-7d0e-4d1c-9a53-2f6c1f0f8e11")]
    """The token from the magic link, or from the list of your own invitations."""


class InvitationAcceptance(InvitationReply, frozen=True, kw_only=True):
    """The token of the invitation, and what the invited person is called."""

    name: Annotated[str, msgspec.Meta(max_length=2 * LONGEST_NAME, examples=["Ada Lovelace"])] = ""
    """The name of the invited person. It is kept if Postern's own email server sent the token, if no one has used the account yet, and if
    the account has no name. Otherwise it is left out.
    """


class InvitationLink(msgspec.Struct, frozen=True):
    token: Annotated[Word, example("b3f1a5c2-7d0e-4d1c-9a53-2f6c1f0f8e11")]
    """The token in the magic link."""


@endpoint.post(_OF_ORGANIZATION, caller=_MANAGERS_IN_PERSON, keys=True, limit=UNLIMITED, refuses=(BadRequest, RateLimited), tags=_TAGS)
async def create_invitation(call: Call[NewInvitation, None, OrganizationPath, Member], postern: Postern) -> IssuedInvitation:
    """Invite someone by email

    The invitation is valid for a week. To invite into a role other than `member`, you need the right to manage roles and all rights of the
    offered role, and the right to manage services if roles of services are assigned to the role. No one can be invited as `owner`: transfer
    the ownership instead. The answer does not say whether the address has an account.
    """
    email = email_field(call.body.email, postern.foundation.email_syntax)
    replaces = None if call.body.replaces is None else InvitationId(call.body.replaces)
    issued = await postern.tenancy.invitations.create(call.caller, email, call.body.role, call.actor, replaces)
    return IssuedInvitation(_record(issued.invitation), _inviter(issued.inviter), issued.token.reveal())


@endpoint.get(_OF_ORGANIZATION, caller=_MANAGERS, keys=True, tags=_TAGS)
async def list_invitations(call: Call[None, InvitationsQuery, OrganizationPath, Member], postern: Postern) -> Sequence[InvitationSummary]:
    """List the organization's invitations, the newest first

    Filter by `status`.
    """
    query = call.query
    found = await postern.tenancy.invitations.list(call.caller.organization, query.status, page_of(query))
    return [InvitationSummary(_record(one.invitation), _inviter(one.inviter), _key(one.key)) for one in found]


@endpoint.post(_ONE, caller=_MANAGERS, keys=True, tags=_TAGS, verb="invitation cancel")
async def cancel_invitation(call: Call[None, None, OrganizationInvitationPath, Member], postern: Postern) -> EmptyObject:
    """Cancel a pending invitation

    The link of the invitation stops working at once.
    """
    await postern.tenancy.invitations.cancel(call.caller, InvitationId(call.path.invitation_id), call.actor)
    return EMPTY_OBJECT


@endpoint.post(f"{_ONE}/accept", caller=_MANAGERS_IN_PERSON, keys=True, limit=UNLIMITED, refuses=_REFUSED_ANSWERS, tags=_TAGS)
async def accept_invitation_on_behalf(call: Call[None, None, OrganizationInvitationPath, Member], postern: Postern) -> EmptyObject:
    """Accept an invitation for the person who was invited

    You need the right to give the offered role.
    """
    await postern.tenancy.invitations.accept_on_behalf(call.caller, InvitationId(call.path.invitation_id), call.actor)
    return EMPTY_OBJECT


@endpoint.get("/api/invitations", caller=PERSON, tags=_TAGS)
async def list_own_invitations(call: Call, postern: Postern) -> Sequence[OwnInvitationRecord]:
    """List the invitations to your own email address

    Returns the invitations that you can still answer, a hundred at most, the newest first. Your address must be verified.
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
        for one, token in await postern.tenancy.invitations.list_own(call.caller)
    ]


@endpoint.post("/api/invitations/accept", caller=ANYONE, limit=INVITATION_ANSWERS, refuses=_ANSWERS, tags=_TAGS)
async def accept_invitation(call: Call[InvitationAcceptance], postern: Postern) -> EmptyObject:
    """Accept an invitation

    The invited email address becomes a member of the organization. If the address has no account yet, Postern creates one and mail a link
    to choose a password.
    """
    await postern.tenancy.invitations.accept(call.body.token, call.actor, name=call.body.name)
    return EMPTY_OBJECT


@endpoint.post("/api/invitations/decline", caller=ANYONE, limit=INVITATION_ANSWERS, refuses=(BadRequest, InvitationExpired), tags=_TAGS)
async def decline_invitation(call: Call[InvitationReply], postern: Postern) -> EmptyObject:
    """Decline an invitation

    The token is enough: no one needs an account for it. The invitation is `rejected` from then on. An invitation that has expired can be
    declined, too.
    """
    await postern.tenancy.invitations.decline(call.body.token, call.actor)
    return EMPTY_OBJECT


@endpoint.get("/invitations/accept", caller=ANYONE, limit=UNLIMITED, status=301, tags=_TAGS)
def open_invitation(call: Call[None, InvitationLink], postern: Postern) -> Answer[NoBody]:
    """Open the link of an invitation mail

    The response redirects to the page with the same path at the frontend.
    """
    place = f"{postern.foundation.links.frontend_url}/invitations/accept?token={quote(call.query.token, safe='')}"
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


def _key(key: InvitingKey | None) -> InvitingKeyRecord | None:
    return None if key is None else InvitingKeyRecord(key.id, key.name or None, key.prefix or None)


def _inviter(inviter: Inviter | None) -> InviterRecord:
    if inviter is None:
        return InviterRecord("unknown", DELETED_USER, datetime(1970, 1, 1, tzinfo=UTC))
    return InviterRecord(str(inviter.id), inviter.email.address, inviter.created_at, inviter.name)


_JOIN_REQUEST_TAGS = ("sign-in-domains",)
_REQUESTS = "/api/organizations/{org_slug}/join-requests"
_REQUEST = f"{_REQUESTS}/{{request_id}}"
# A membership lasts: an impersonation of an hour must not create one.


class JoinRequestPath(OrganizationPath, frozen=True):
    request_id: UUID
    """The request's ID."""


class JoinRequestsQuery(Paging, frozen=True, kw_only=True):
    status: JoinRequestStatus | None = None
    """Only requests in this state."""


class JoinRequestRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A person who wants to become a member, and may ask because their email address is in a domain of the organization."""

    id: Id
    user_id: Annotated[UUID, example("018f3c5a-7b1e-7c3d-9f4a-2b6c8d0e1f23")]
    """The ID of the person's account."""
    email: EmailAddress
    """The email address that allowed the person to ask."""
    status: Annotated[JoinRequestStatus, example("pending")]
    """The state of the request."""
    created_at: CreatedAt
    decided_at: datetime | None
    """When someone answered the request, or the person became a member in another way; null while the request is pending."""
    decided_by: UUID | None
    """The user who answered; null if no one did, or if the account was deleted."""


@endpoint.get(_REQUESTS, caller=_MANAGERS, keys=True, tags=_JOIN_REQUEST_TAGS)
async def list_join_requests(
    call: Call[None, JoinRequestsQuery, OrganizationPath, Member], postern: Postern
) -> Sequence[JoinRequestRecord]:
    """List the requests to become a member, the newest first

    The requests come from domain routes with the `join_policy` `ask`, and from routes with `on` while the organization has no room for
    members. The first request of a day is mailed to the owner and the admins.
    """
    query = call.query
    return [_record_join_request(one) for one in await postern.tenancy.join_requests.list(call.caller, query.status, page_of(query))]


@endpoint.post(
    f"{_REQUEST}/approve",
    caller=_MANAGERS_IN_PERSON,
    keys=True,
    limit=UNLIMITED,
    refuses=(BadRequest, TeamLimitExceeded),
    tags=_JOIN_REQUEST_TAGS,
)
async def approve_join_request(call: Call[None, None, JoinRequestPath, Member], postern: Postern) -> EmptyObject:
    """Approve a request to become a member

    The person gets the role `member`, and an email. You need the rights of this role. A request ends when the account changes its address,
    because the request was made by the address that the list shows. You cannot approve a request while an invitation to another role waits
    for the person.
    """
    await postern.tenancy.join_requests.approve(call.caller, JoinRequestId(call.path.request_id), call.actor)
    return EMPTY_OBJECT


@endpoint.post(
    f"{_REQUEST}/decline", caller=_MANAGERS_IN_PERSON, keys=True, limit=UNLIMITED, refuses=(BadRequest,), tags=_JOIN_REQUEST_TAGS
)
async def decline_join_request(call: Call[None, None, JoinRequestPath, Member], postern: Postern) -> EmptyObject:
    """Decline a request to become a member

    Postern does not tell the person. The person cannot ask again, not even with another account that gets the address. You can still invite
    the person.
    """
    await postern.tenancy.join_requests.decline(call.caller, JoinRequestId(call.path.request_id), call.actor)
    return EMPTY_OBJECT


_record_join_request = shown(JoinRequest, JoinRequestRecord, named={"user_id": "user", "email": "email.address"})
