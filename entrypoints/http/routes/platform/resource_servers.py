"""The APIs of organizations that wait for an approval of their hosts, or have one."""

from collections.abc import Sequence
from typing import Annotated
from uuid import UUID

import msgspec

from core.domain.errors import BadRequest, Conflict, NotFound
from core.domain.identifiers import ResourceServerId
from core.domain.services.resource_servers import ResourceApproval
from entrypoints.bootstrap import Postern
from entrypoints.http.machinery.callers import PLATFORM_OWNER
from entrypoints.http.machinery.calls import Call
from entrypoints.http.machinery.endpoints import endpoint
from entrypoints.http.machinery.fields import example
from entrypoints.http.machinery.limits import UNLIMITED
from entrypoints.http.routes.services.resource_servers import ResourceServerRecord, resource_server_record

_TAGS = ("platform",)
_SERVERS = "/api/platform/resource-servers"


class ApprovedResourcePath(msgspec.Struct, frozen=True):
    resource_id: UUID
    """The resource server's id."""


class ResourceApprovalRecord(msgspec.Struct, frozen=True):
    """A resource server whose organization asks for an approval, or has one."""

    resource_server: ResourceServerRecord
    """The resource server."""
    org_slug: Annotated[str, example("acme")]
    """The organization's slug."""
    org_name: Annotated[str, example("Acme")]
    """The organization's name."""
    proved_elsewhere: Annotated[bool, example(False)]
    """Whether another organization has proved the host. Then nobody can approve this."""


@endpoint.get(_SERVERS, caller=PLATFORM_OWNER, tags=_TAGS)
async def list_resource_approvals(_call: Call, postern: Postern) -> Sequence[ResourceApprovalRecord]:
    """List the resource servers that wait for an approval, and those that have one

    Organizations ask for an approval when they cannot prove the host of their API. The longest waiting come first, then the newest
    approvals. You get the first 200.
    """
    return [_record(one, postern) for one in await postern.services.resource_approvals.list()]


@endpoint.post(
    f"{_SERVERS}/{{resource_id}}/approval",
    caller=PLATFORM_OWNER,
    limit=UNLIMITED,
    refuses=(BadRequest, Conflict, NotFound),
    tags=_TAGS,
)
async def approve_resource_server(call: Call[None, None, ApprovedResourcePath], postern: Postern) -> ResourceServerRecord:
    """Approve the host of an organization's API

    Tokens are made for the API from now on, although nobody has proved the host. Be sure that the API is the organization's: the
    API trusts every token that this installation makes for it. A proof of another organization ends the approval.
    """
    approved = await postern.services.resource_approvals.approve(call.caller, ResourceServerId(call.path.resource_id), call.actor)
    return resource_server_record(approved, postern)


@endpoint.delete(f"{_SERVERS}/{{resource_id}}/approval", caller=PLATFORM_OWNER, limit=UNLIMITED, refuses=(NotFound,), tags=_TAGS)
async def end_resource_approval(call: Call[None, None, ApprovedResourcePath], postern: Postern) -> ResourceServerRecord:
    """Take back the approval of the host of an organization's API

    The API waits again, and no more tokens are made for it. Taking back what nobody gave changes nothing.
    """
    after = await postern.services.resource_approvals.withdraw(call.caller, ResourceServerId(call.path.resource_id), call.actor)
    return resource_server_record(after, postern)


def _record(one: ResourceApproval, postern: Postern) -> ResourceApprovalRecord:
    return ResourceApprovalRecord(
        resource_server_record(one.server, postern), one.organization_slug, one.organization_name, one.proved_elsewhere
    )
