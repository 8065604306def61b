"""The last refused requests of metadata clients for an API."""

from collections.abc import Sequence
from datetime import datetime
from typing import Annotated

import msgspec

from core.domain.federation.authorization_refusals import DocumentRefusal
from core.domain.identifiers import ResourceServerId
from core.domain.tenancy.members import Member
from core.domain.tenancy.roles import Capability
from entrypoints.bootstrap import Postern
from entrypoints.http.machinery.callers import able
from entrypoints.http.machinery.calls import Call
from entrypoints.http.machinery.derived import shown
from entrypoints.http.machinery.endpoints import endpoint
from entrypoints.http.machinery.fields import Id, example
from entrypoints.http.routes.services.resource_servers import ResourceServerPath


class DocumentRefusalRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A refused request of a client that describes itself in a document."""

    id: Id
    address: Annotated[str, example("https://claude.ai/oauth/claude-code-client-metadata")]
    """The client's id: the address of its document, or what a program got that registered itself."""
    reason: Annotated[str, example("document_not_let_in")]
    """The reason, as a word."""
    because: Annotated[str, example("client_id: the API, or its organization, does not let in clients whose document is at claude.ai")]
    """The reason in words."""
    advice: Annotated[str, example("If you know the host, let it in")]
    """The change that avoids the refusal."""
    created_at: datetime
    """When the request was refused."""


class DocumentRefusalList(msgspec.Struct, frozen=True):
    """The last fifty of the last seven days."""

    refusals: Sequence[DocumentRefusalRecord]
    """Newest first."""


@endpoint.get(
    "/api/organizations/{org_slug}/resource-servers/{resource_id}/refusals",
    caller=able(Capability.SERVICES_MANAGE, impersonated=True),
    keys=True,
    tags=("resource-servers",),
)
async def list_document_refusals(call: Call[None, None, ResourceServerPath, Member], postern: Postern) -> DocumentRefusalList:
    """List the last clients by document that an API did not let in, with the reasons

    You get the last fifty of the last seven days: documents that the API or the organization does not let in, documents that are wrong, and
    wrong requests of clients that nobody has allowed yet. Once a person has allowed such a client, it is a service of the organization, and
    further refusals are among those of the service. Anybody can send
    requests, so a refusal alone does not mean that something is wrong.
    """
    listed = await postern.federation.authorization_refusals.list_of_api(call.caller, ResourceServerId(call.path.resource_id))
    return DocumentRefusalList([_record(one) for one in listed])


_record = shown(DocumentRefusal, DocumentRefusalRecord, named={"created_at": "occurred_at"})
