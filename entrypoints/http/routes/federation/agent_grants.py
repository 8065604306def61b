"""What users allow an organization's agents, for the members who manage its end users."""

from collections.abc import Sequence
from datetime import datetime
from typing import Annotated
from uuid import UUID

import msgspec

from core.domain.errors import BadRequest
from core.domain.federation.oauth.consents import AgentGrant, AgentReach
from core.domain.identifiers import AgentGrantId, ServiceId, UserId
from core.domain.requests import DEFAULT_PAGE_LIMIT, LARGEST_PAGE_LIMIT
from core.domain.tenancy.members import Member
from core.domain.tenancy.roles import Capability
from entrypoints.bootstrap import Postern
from entrypoints.http.machinery.answers import NO_BODY, NoBody
from entrypoints.http.machinery.callers import able
from entrypoints.http.machinery.calls import Call
from entrypoints.http.machinery.derived import shown
from entrypoints.http.machinery.endpoints import endpoint
from entrypoints.http.machinery.fields import (
    AgentGrantUuid,
    EmailAddress,
    Id,
    OrganizationPath,
    ServicePath,
    ServiceUuid,
    UserUuid,
    example,
)

_GRANTS = "/api/organizations/{org_slug}/agent-grants"
_GRANT = f"{_GRANTS}/{{grant_id}}"
_TAGS = ("end-users",)
_VIEW = able(Capability.END_USERS_VIEW, impersonated=True)
_MANAGE = able(Capability.END_USERS_MANAGE, impersonated=True)


class AgentGrantPath(OrganizationPath, frozen=True):
    grant_id: AgentGrantUuid


class AgentGrantsQuery(msgspec.Struct, frozen=True, kw_only=True):
    """A filter on grants."""

    service_id: ServiceUuid | None = None
    """Only grants to this agent."""
    user_id: UserUuid | None = None
    """Only grants of this person."""
    after: UUID | None = None
    """The `next` value of the previous page."""
    limit: Annotated[int, msgspec.Meta(ge=1, le=LARGEST_PAGE_LIMIT)] = DEFAULT_PAGE_LIMIT
    """The maximum number of grants to return. Values above the maximum are rejected."""


class AgentGrantRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A person's consent for an agent to act at one API until it expires."""

    id: Id
    user_id: UserUuid
    email: EmailAddress
    service_id: ServiceUuid
    client_id: Annotated[str, example("0199d3a0-0000-7000-8000-000000000001")]
    """The client ID of the agent. It is `act.sub` in the agent's tokens."""
    service_slug: Annotated[str, example("assistant")]
    """The agent's slug."""
    service_name: Annotated[str, example("Assistant")]
    """The agent's name."""
    identifier: Annotated[str, example("https://api.acme.example/orders")]
    """The identifier of the API."""
    api: Annotated[str, example("Orders")]
    """The name of the API; empty if the API was deleted."""
    scopes: Annotated[Sequence[str], example(["orders:read"])]
    """The scopes of the API that the agent can use."""
    granted_at: datetime
    """When the person gave consent."""
    expires_at: datetime
    """When the consent expires."""
    last_used_at: datetime | None
    """When the agent last got a token; null if never. A token is valid for at most 5 minutes, so the agent can have acted up to 5 minutes
    later.
    """


class AgentGrantList(msgspec.Struct, frozen=True):
    """One page of grants."""

    grants: Sequence[AgentGrantRecord]
    """The grants on this page, the newest first."""
    next: UUID | None
    """Send it as `after` to get the next page; null on the last page."""


_record = shown(AgentGrant, AgentGrantRecord, named={"user_id": "user", "service_id": "service", "client_id": "client"})


@endpoint.get(_GRANTS, caller=_VIEW, keys=True, tags=_TAGS)
async def list_agent_grants(call: Call[None, AgentGrantsQuery, OrganizationPath, Member], postern: Postern) -> AgentGrantList:
    """List agent grants

    Returns the consents of people for the organization's agents, newest first. Expired and revoked grants are not included.
    """
    query = call.query
    reach = AgentReach(
        service=None if query.service_id is None else ServiceId(query.service_id),
        user=None if query.user_id is None else UserId(query.user_id),
    )
    before = None if query.after is None else AgentGrantId(query.after)
    found = await postern.federation.agent_grants.list(call.caller.organization, reach, before, query.limit + 1)
    listed = found[: query.limit]
    return AgentGrantList([_record(one) for one in listed], listed[-1].id if len(found) > query.limit else None)


@endpoint.get(_GRANT, caller=_VIEW, keys=True, tags=_TAGS)
async def get_agent_grant(call: Call[None, None, AgentGrantPath, Member], postern: Postern) -> AgentGrantRecord:
    """Get an agent grant

    Returns a person's consent for an agent. If the grant has expired or was revoked, the response is 404.
    """
    return _record(await postern.federation.agent_grants.get(call.caller.organization, AgentGrantId(call.path.grant_id)))


@endpoint.delete(_GRANT, caller=_MANAGE, keys=True, status=204, tags=_TAGS)
async def end_agent_grant(call: Call[None, None, AgentGrantPath, Member], postern: Postern) -> NoBody:
    """Revoke an agent grant

    From its next request, the agent can no longer act for the person. To act again, it must request consent again.
    """
    await postern.federation.agent_grants.end(call.caller.organization, AgentGrantId(call.path.grant_id), call.actor)
    return NO_BODY


@endpoint.delete(
    "/api/organizations/{org_slug}/services/{service_slug}/agent-grants",
    caller=_MANAGE,
    keys=True,
    status=204,
    refuses=(BadRequest,),
    tags=_TAGS,
)
async def end_agent_grants(call: Call[None, None, ServicePath, Member], postern: Postern) -> NoBody:
    """Revoke all grants of an agent

    From its next request, the agent can no longer act for anyone. To act again, it must request each person's consent again.
    """
    await postern.federation.agent_grants.end_all(call.caller.organization, call.path.service_slug, call.actor)
    return NO_BODY
