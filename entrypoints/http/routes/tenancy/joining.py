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
    """The slug of the role: `member`, `admin`, or a custom role."""
    replaces: Annotated[UUID, example("018f3c5a-7b1e-7c3d-9f4a-2b6c8d0e1f23")] | None = None
    """The ID of the pending invitation to replace, to the same email address. Its link stops working when the new invitation is created.
    Null if the email address has no pending invitation.
    """


class InvitationsQuery(Paging, frozen=True, kw_only=True):
    status: InvitationStatus | None = None
    """Return only invitations with this status."""


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
    """The status of the invitation."""
    token: Annotated[str, example("9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08")]
    """The SHA-256 digest of the invitation's token, in hexadecimal. The digest cannot be used to answer the invitation."""
    expires_at: datetime
    """When the invitation expires."""
    created_at: CreatedAt


class InviterRecord(msgspec.Struct, frozen=True):
    """The user who sent the invitation. If the account was deleted, the values are `unknown`, `deleted-user@unknown`, and 1970."""

    id: Annotated[str, example("018f3c5a-7b1e-7c3d-9f4a-2b6c8d0e1f23")]
    """The inviter's ID."""
    email: EmailAddress
    created_at: CreatedAt
    name: PersonName | None = None


class InvitingKeyRecord(msgspec.Struct, frozen=True):
    """The management API key that sent the invitation. The invitation is void if the key is revoked, or can no longer grant the role."""

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
    """The user who sent the invitation. If a management API key sent it: the person responsible for the key."""
    management_key: InvitingKeyRecord | None = None
    """The management API key that sent the invitation; null if a person did."""


class IssuedInvitation(msgspec.Struct, frozen=True):
    """The new invitation. This is the only response with its token."""

    invitation: InvitationRecord
    """The invitation."""
    inviter: InviterRecord
    """The user who sent the invitation."""
    token: Annotated[str, SHOWN_ONCE, example("b3f1a5c2-7d0e-4d1c-9a53-2f6c1f0f8e11")]
    """The token in the invitation link. It is shown only once."""


class InvitingOrganization(msgspec.Struct, frozen=True):
    """The organization that sent the invitation."""

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
    """The token to answer the invitation with. It can be used once, within 15 minutes."""
    expires_at: datetime
    """When the invitation expires."""
    created_at: CreatedAt
    organization: InvitingOrganization
    """The organization that sent the invitation."""


class InvitationReply(msgspec.Struct, frozen=True):
    """The token of the invitation."""

    token: Annotated[Token, example("b3f1a5c2-7d0e-4d1c-9a53-2f6c1f0f8e11")]
    """The token from the invitation link, or from the list of your own invitations."""


class InvitationAcceptance(InvitationReply, frozen=True, kw_only=True):
    """The token of the invitation, and the name of the invited person."""

    name: Annotated[str, msgspec.Meta(max_length=2 * LONGEST_NAME, examples=["Ada Lovelace"])] = ""
    """The name of the invited person. It is stored only if Postern's own email server sent the token, the account was never used, and the
    account has no name.
    """


class InvitationLink(msgspec.Struct, frozen=True):
    token: Annotated[Word, example("b3f1a5c2-7d0e-4d1c-9a53-2f6c1f0f8e11")]
    """The token in the invitation link."""


@endpoint.post(_OF_ORGANIZATION, caller=_MANAGERS_IN_PERSON, keys=True, limit=UNLIMITED, refuses=(BadRequest, RateLimited), tags=_TAGS)
async def create_invitation(call: Call[NewInvitation, None, OrganizationPath, Member], postern: Postern) -> IssuedInvitation:
    """Invite a person by email

    The invitation expires after 7 days. To offer a role other than `member`, you need the permission to manage roles and all permissions of
    the offered role. If roles of services are assigned to the role, you also need the permission to manage services. You cannot invite a
    person as `owner`: transfer the ownership instead. The response does not reveal whether the email address has an account.
    """
    email = email_field(call.body.email, postern.foundation.email_syntax)
    replaces = None if call.body.replaces is None else InvitationId(call.body.replaces)
    issued = await postern.tenancy.invitations.create(call.caller, email, call.body.role, call.actor, replaces)
    return IssuedInvitation(_record(issued.invitation), _inviter(issued.inviter), issued.token.reveal())


@endpoint.get(_OF_ORGANIZATION, caller=_MANAGERS, keys=True, tags=_TAGS)
async def list_invitations(call: Call[None, InvitationsQuery, OrganizationPath, Member], postern: Postern) -> Sequence[InvitationSummary]:
    """List the invitations of an organization

    Return the invitations, the newest first. Filter them by `status`.
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
    """Accept an invitation on behalf of the invited person

    You need the permission to grant the offered role.
    """
    await postern.tenancy.invitations.accept_on_behalf(call.caller, InvitationId(call.path.invitation_id), call.actor)
    return EMPTY_OBJECT


@endpoint.get("/api/invitations", caller=PERSON, tags=_TAGS)
async def list_own_invitations(call: Call, postern: Postern) -> Sequence[OwnInvitationRecord]:
    """List the invitations to your own email address

    Return the invitations that you can still answer, at most 100, the newest first. Your email address must be verified.
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

    The person with the invited email address becomes a member of the organization. If the email address has no account yet, Postern creates
    one and emails a link to choose a password.
    """
    await postern.tenancy.invitations.accept(call.body.token, call.actor, name=call.body.name)
    return EMPTY_OBJECT


@endpoint.post("/api/invitations/decline", caller=ANYONE, limit=INVITATION_ANSWERS, refuses=(BadRequest, InvitationExpired), tags=_TAGS)
async def decline_invitation(call: Call[InvitationReply], postern: Postern) -> EmptyObject:
    """Decline an invitation

    The token is sufficient: no account is required. The status of the invitation becomes `rejected`. An expired invitation can be declined,
    too.
    """
    await postern.tenancy.invitations.decline(call.body.token, call.actor)
    return EMPTY_OBJECT


@endpoint.get("/invitations/accept", caller=ANYONE, limit=UNLIMITED, status=301, tags=_TAGS)
def open_invitation(call: Call[None, InvitationLink], postern: Postern) -> Answer[NoBody]:
    """Open the link of an invitation email

    Redirect to the page with the same path on the frontend.
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
    """The ID of the membership request."""


class JoinRequestsQuery(Paging, frozen=True, kw_only=True):
    status: JoinRequestStatus | None = None
    """Return only requests with this status."""


class JoinRequestRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A request for membership by a person whose email address is in a domain of the organization."""

    id: Id
    user_id: Annotated[UUID, example("018f3c5a-7b1e-7c3d-9f4a-2b6c8d0e1f23")]
    """The ID of the person's account."""
    email: EmailAddress
    """The email address that allowed the person to request membership."""
    status: Annotated[JoinRequestStatus, example("pending")]
    """The status of the request."""
    created_at: CreatedAt
    decided_at: datetime | None
    """When the request was answered, or the person became a member in another way; null while the request is pending."""
    decided_by: UUID | None
    """The user who answered the request; null if no one did, or if the account was deleted."""


@endpoint.get(_REQUESTS, caller=_MANAGERS, keys=True, tags=_JOIN_REQUEST_TAGS)
async def list_join_requests(
    call: Call[None, JoinRequestsQuery, OrganizationPath, Member], postern: Postern
) -> Sequence[JoinRequestRecord]:
    """List the membership requests of an organization

    Return the requests, the newest first. They come from domain routes whose `join_policy` is `ask`. While the organization has reached its
    limit on members, they also come from routes whose `join_policy` is `on`. The owner and the admins get an email about the first request
    of each day.
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
    """Approve a membership request

    The person gets the role `member`, and an email. You need the permissions of this role. If the account's email address changes, the
    request is no longer valid, because it depends on the listed email address. You cannot approve a request while the person has a pending
    invitation to another role.
    """
    await postern.tenancy.join_requests.approve(call.caller, JoinRequestId(call.path.request_id), call.actor)
    return EMPTY_OBJECT


@endpoint.post(
    f"{_REQUEST}/decline", caller=_MANAGERS_IN_PERSON, keys=True, limit=UNLIMITED, refuses=(BadRequest,), tags=_JOIN_REQUEST_TAGS
)
async def decline_join_request(call: Call[None, None, JoinRequestPath, Member], postern: Postern) -> EmptyObject:
    """Decline a membership request

    Postern does not notify the person. The person cannot request membership again, not even with another account that gets the same email
    address. You can still invite the person.
    """
    await postern.tenancy.join_requests.decline(call.caller, JoinRequestId(call.path.request_id), call.actor)
    return EMPTY_OBJECT


_record_join_request = shown(JoinRequest, JoinRequestRecord, named={"user_id": "user", "email": "email.address"})
