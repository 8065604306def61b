"""The end users of an organization's services, for those who look after them."""

from collections.abc import Sequence
from datetime import datetime
from typing import Annotated
from uuid import UUID

import msgspec

from core.domain.end_users import LONGEST_SEARCH
from core.domain.errors import BadRequest
from core.domain.identifiers import ServiceId, UserId
from core.domain.members import Member
from core.domain.roles import Capability
from entrypoints.bootstrap import Services
from entrypoints.http.callers import able
from entrypoints.http.calls import Call
from entrypoints.http.endpoints import endpoint
from entrypoints.http.paging import Pagination, Paging, page_of
from entrypoints.http.routes.accounts import Identity

_TAGS = ("end-users",)


class EndUserPath(msgspec.Struct, frozen=True):
    org_slug: str
    user_id: UUID


class EndUsersPath(msgspec.Struct, frozen=True):
    org_slug: str


class EndUsersQuery(Paging, frozen=True, kw_only=True):
    """`search` is a part of the e-mail address, in any case; `service_id` is one of the organization's services."""

    search: Annotated[str, msgspec.Meta(max_length=LONGEST_SEARCH)] = ""
    service_id: UUID | None = None


class EndUserSummary(msgspec.Struct, frozen=True, kw_only=True):
    """`last_login_at` and `services`, by their slugs, are of this organization's services alone."""

    id: UUID
    email: str
    created_at: datetime
    last_login_at: datetime | None
    mfa_enabled: bool
    services: Sequence[str]


class EndUserList(msgspec.Struct, frozen=True):
    users: Sequence[EndUserSummary]
    pagination: Pagination


class ServiceOfEndUser(msgspec.Struct, frozen=True):
    id: UUID
    slug: str
    name: str
    first_login_at: datetime | None
    last_login_at: datetime | None


class SessionsOfEndUser(msgspec.Struct, frozen=True):
    """Of the living ones in this organization's services: how many, and when the youngest began."""

    active_count: int
    last_created_at: datetime | None


class EndUserAnswer(msgspec.Struct, frozen=True, kw_only=True):
    id: UUID
    email: str
    email_verified: bool
    created_at: datetime
    updated_at: datetime
    last_login_at: datetime | None
    mfa_enabled: bool
    linked_identities: Sequence[Identity]
    services: Sequence[ServiceOfEndUser]
    sessions: SessionsOfEndUser


class SessionsRevoked(msgspec.Struct, frozen=True):
    message: str
    sessions_revoked: int


@endpoint.get("/api/organizations/{org_slug}/users", caller=able(Capability.END_USERS_VIEW), refuses=(BadRequest,), tags=_TAGS)
async def list_end_users(call: Call[None, EndUsersQuery, EndUsersPath, Member], services: Services) -> EndUserList:
    """The end users of the organization's services, the youngest account first

    `total` counts 10 000 at most, and a search shows no more: a page beyond is 400. Searches of one organization are answered one after
    the other; 503 when too many of them wait. A service that is not this organization's is 404.
    """
    query = call.query
    service = None if query.service_id is None else ServiceId(query.service_id)
    found = await services.end_users.list(call.caller.organization, page_of(query), search=query.search, service=service)
    return EndUserList(
        [
            EndUserSummary(
                id=one.id,
                email=one.email.address,
                created_at=one.created_at,
                last_login_at=one.last_login_at,
                mfa_enabled=one.mfa_enabled,
                services=one.services,
            )
            for one in found.items
        ],
        Pagination(query.page, query.limit, found.total),
    )


@endpoint.get("/api/organizations/{org_slug}/users/{user_id}", caller=able(Capability.END_USERS_VIEW), tags=_TAGS)
async def end_user_detail(call: Call[None, None, EndUserPath, Member], services: Services) -> EndUserAnswer:
    """One end user of the organization's services"""
    found = await services.end_users.get(call.caller.organization, UserId(call.path.user_id))
    return EndUserAnswer(
        id=found.id,
        email=found.email.address,
        email_verified=found.email_verified,
        created_at=found.created_at,
        updated_at=found.updated_at,
        last_login_at=found.last_login_at,
        mfa_enabled=found.mfa_enabled,
        linked_identities=(),
        services=[ServiceOfEndUser(one.id, one.slug, one.name, one.first_login_at, one.last_login_at) for one in found.services],
        sessions=SessionsOfEndUser(found.active_sessions, found.last_session_at),
    )


@endpoint.delete("/api/organizations/{org_slug}/users/{user_id}/sessions", caller=able(Capability.END_USERS_MANAGE), tags=_TAGS)
async def revoke_end_user_sessions(call: Call[None, None, EndUserPath, Member], services: Services) -> SessionsRevoked:
    """Sign an end user out of the organization's services

    Their sessions there, and the refresh tokens, are dead on the next request. Those elsewhere, and what they do as a member of the
    organization, go on. May be repeated.
    """
    ended = await services.end_users.end_sessions(call.caller.organization, UserId(call.path.user_id), call.actor)
    return SessionsRevoked("The end user is signed out of the organization's services", ended)
