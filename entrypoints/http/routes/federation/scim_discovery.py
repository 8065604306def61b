"""What SCIM clients read first: what is offered here."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Final

import msgspec

from core.domain.errors import Forbidden, NotFound, NotImplementedHere
from core.domain.federation.scim.resources import list_response, resource_types, schemas, service_provider_config
from core.domain.federation.scim.tokens import ScimHolder
from entrypoints.bootstrap import Postern
from entrypoints.http.machinery.calls import Call
from entrypoints.http.machinery.endpoints import endpoint
from entrypoints.http.machinery.fields import example
from entrypoints.http.routes.federation.scim_bodies import ScimList, declared

_encode: Final = msgspec.json.Encoder().encode


class ScimDocument(msgspec.Struct, frozen=True, kw_only=True):
    """A document of RFC 7643: it has more attributes than these."""

    schemas: Annotated[Sequence[str], example(["urn:ietf:params:scim:schemas:core:2.0:ServiceProviderConfig"])]
    """What this is."""
    meta: Annotated[Mapping[str, Any], example({"resourceType": "ServiceProviderConfig"})]
    """About this document."""


class ScimDocumentList(ScimList, frozen=True, kw_only=True, rename="camel"):
    """A list of documents."""

    resources: Sequence[ScimDocument] = msgspec.field(name="Resources")
    """The documents."""


class DiscoveryQuery(msgspec.Struct, frozen=True, kw_only=True):
    """What clients may not ask for here."""

    filter: str | None = None
    """Refused: everything is listed (RFC 7644 section 4)."""


class ResourceTypePath(msgspec.Struct, frozen=True):
    name: Annotated[str, example("User")]
    """`User` or `Group`."""


class SchemaPath(msgspec.Struct, frozen=True):
    urn: Annotated[str, example("urn:ietf:params:scim:schemas:core:2.0:User")]
    """The name of the schema."""


@endpoint.get("/scim/v2/ServiceProviderConfig", **declared())
def scim_service_provider_config(_call: Call[None, None, None, ScimHolder], postern: Postern) -> ScimDocument | bytes:
    """Get what is offered

    Filters, sorting, PATCH and versions are; bulk operations and changes of passwords are not.
    """
    return _encode(service_provider_config(postern.foundation.public_url))


@endpoint.get("/scim/v2/ResourceTypes", **declared(Forbidden))
def list_scim_resource_types(call: Call[None, DiscoveryQuery, None, ScimHolder], postern: Postern) -> ScimDocumentList | bytes:
    """List the types of resources"""
    return _all(call.query, resource_types(postern.foundation.public_url))


@endpoint.get("/scim/v2/ResourceTypes/{name}", **declared(NotFound))
def scim_resource_type(call: Call[None, None, ResourceTypePath, ScimHolder], postern: Postern) -> ScimDocument | bytes:
    """Get a type of resources"""
    return _one(call.path.name, resource_types(postern.foundation.public_url))


@endpoint.get("/scim/v2/Schemas", **declared(Forbidden))
def list_scim_schemas(call: Call[None, DiscoveryQuery, None, ScimHolder], postern: Postern) -> ScimDocumentList | bytes:
    """List the schemas

    They name every attribute that is kept.
    """
    return _all(call.query, schemas(postern.foundation.public_url))


@endpoint.get("/scim/v2/Schemas/{urn}", **declared(NotFound))
def scim_schema(call: Call[None, None, SchemaPath, ScimHolder], postern: Postern) -> ScimDocument | bytes:
    """Get a schema"""
    return _one(call.path.urn, schemas(postern.foundation.public_url))


@endpoint.post("/scim/v2/Bulk", **declared(NotImplementedHere))
def scim_bulk(_call: Call[None, None, None, ScimHolder], _postern: Postern) -> ScimDocument:
    """Carry out many operations

    This is not offered, as `ServiceProviderConfig` says.
    """
    raise NotImplementedHere("Bulk operations are not offered: send them one by one")


def _all(asked: DiscoveryQuery, documents: Sequence[Mapping[str, Any]]) -> bytes:
    if asked.filter is not None:
        raise Forbidden("filter: everything is listed here")
    return _encode(list_response(documents, len(documents), 1))


def _one(identifier: str, documents: Sequence[Mapping[str, Any]]) -> bytes:
    found = next((one for one in documents if one["id"] == identifier), None)
    if found is None:
        raise NotFound
    return _encode(found)
