"""Requests to become a member, by people with an address in a domain of the organization."""

from collections.abc import Sequence
from datetime import datetime
from typing import Annotated
from uuid import UUID

import msgspec

from core.domain.errors import BadRequest, TeamLimitExceeded
from core.domain.identifiers import JoinRequestId
from core.domain.tenancy.join_requests import JoinRequest, JoinRequestStatus
from core.domain.tenancy.members import Member
from core.domain.tenancy.roles import Capability
from entrypoints.bootstrap import Postern
from entrypoints.http.machinery.answers import EMPTY_OBJECT, EmptyObject
from entrypoints.http.machinery.callers import able
from entrypoints.http.machinery.calls import Call
from entrypoints.http.machinery.derived import shown
from entrypoints.http.machinery.endpoints import endpoint
from entrypoints.http.machinery.fields import CreatedAt, EmailAddress, Id, OrganizationPath, example
from entrypoints.http.machinery.limits import UNLIMITED
from entrypoints.http.machinery.paging import Paging, page_of

_TAGS = ("sign-in-domains",)
_REQUESTS = "/api/organizations/{org_slug}/join-requests"
_REQUEST = f"{_REQUESTS}/{{request_id}}"
_MANAGERS = able(Capability.MEMBERS_MANAGE, impersonated=True)
# A membership lasts: an impersonation of an hour must not create one.
_MANAGERS_IN_PERSON = able(Capability.MEMBERS_MANAGE, impersonated=False)


class JoinRequestPath(OrganizationPath, frozen=True):
    request_id: UUID
    """The request's id."""


class JoinRequestsQuery(Paging, frozen=True, kw_only=True):
    status: JoinRequestStatus | None = None
    """Only requests in this state."""


class JoinRequestRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A person who wants to become a member, and may ask because their address is in a domain of the organization."""

    id: Id
    user_id: Annotated[UUID, example("018f3c5a-7b1e-7c3d-9f4a-2b6c8d0e1f23")]
    """The id of the person's account."""
    email: EmailAddress
    """The address that allowed the person to ask."""
    status: Annotated[JoinRequestStatus, example("pending")]
    """The state of the request."""
    created_at: CreatedAt
    decided_at: datetime | None
    """When somebody answered the request, or the person became a member in another way; null while the request is pending."""
    decided_by: UUID | None
    """The user who answered; null if nobody did, or if the account was deleted."""


@endpoint.get(_REQUESTS, caller=_MANAGERS, keys=True, tags=_TAGS)
async def list_join_requests(
    call: Call[None, JoinRequestsQuery, OrganizationPath, Member], postern: Postern
) -> Sequence[JoinRequestRecord]:
    """List the requests to become a member, the newest first

    The requests come from domain routes with the `join_policy` `ask`, and from routes with `on` while the organization has no room for
    members. The first request of a day is mailed to the owner and the admins.
    """
    query = call.query
    return [_record(one) for one in await postern.tenancy.join_requests.list(call.caller, query.status, page_of(query))]


@endpoint.post(
    f"{_REQUEST}/approve", caller=_MANAGERS_IN_PERSON, keys=True, limit=UNLIMITED, refuses=(BadRequest, TeamLimitExceeded), tags=_TAGS
)
async def approve_join_request(call: Call[None, None, JoinRequestPath, Member], postern: Postern) -> EmptyObject:
    """Let a person become a member

    The person gets the role `member`, and a mail. You need the rights of this role. A request ends when the account changes its address,
    because the request was made by the address that the list shows. You cannot approve a request while an invitation to another role waits
    for the person.
    """
    await postern.tenancy.join_requests.approve(call.caller, JoinRequestId(call.path.request_id), call.actor)
    return EMPTY_OBJECT


@endpoint.post(f"{_REQUEST}/decline", caller=_MANAGERS_IN_PERSON, keys=True, limit=UNLIMITED, refuses=(BadRequest,), tags=_TAGS)
async def decline_join_request(call: Call[None, None, JoinRequestPath, Member], postern: Postern) -> EmptyObject:
    """Decline a request to become a member

    We do not tell the person. The person cannot ask again, not even with another account that gets the address. You can still invite the
    person.
    """
    await postern.tenancy.join_requests.decline(call.caller, JoinRequestId(call.path.request_id), call.actor)
    return EMPTY_OBJECT


_record = shown(JoinRequest, JoinRequestRecord, named={"user_id": "user", "email": "email.address"})
