"""The discovery documents of SCIM, which clients read first."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Final, Literal

import msgspec
from msgspec import UNSET, UnsetType

from core.domain.errors import Forbidden, NotFound, NotImplementedHere
from core.domain.federation.scim.groups import ScimGrouping
from core.domain.federation.scim.mappings import ScimMapping
from core.domain.federation.scim.resources import list_response, resource_types, schemas, service_provider_config
from core.domain.federation.scim.tokens import ScimHolder
from core.domain.tenancy.profile_fields import FieldWriter, ProfileField
from entrypoints.bootstrap import Postern
from entrypoints.http.machinery.answers import NoBody
from entrypoints.http.machinery.calls import Call
from entrypoints.http.machinery.endpoints import endpoint
from entrypoints.http.machinery.fields import Line, example
from entrypoints.http.routes.federation.scim_bodies import ScimList, declared

_BASE: Final = "https://id.example.org/scim/v2"
_encode: Final = msgspec.json.Encoder().encode


class ScimDocumentMeta(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The metadata of a document."""

    resource_type: Literal["ServiceProviderConfig", "ResourceType", "Schema"]
    """The type of the document."""
    location: Annotated[str, example(f"{_BASE}/ServiceProviderConfig")]
    """The URL of the document."""


class ScimSupport(msgspec.Struct, frozen=True, kw_only=True):
    """Whether a feature is supported."""

    supported: Annotated[bool, example(True)]
    """Whether the feature is supported."""


class ScimBulkSupport(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The support for bulk operations."""

    supported: Annotated[bool, example(False)]
    """Always false."""
    max_operations: Annotated[int, example(0)]
    """The maximum number of operations per request: always 0."""
    max_payload_size: Annotated[int, example(0)]
    """The maximum size of a request in bytes: always 0."""


class ScimFilterSupport(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The support for filters."""

    supported: Annotated[bool, example(True)]
    """Always true."""
    max_results: Annotated[int, example(1000)]
    """The maximum number of resources per page."""


class ScimAuthenticationScheme(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """An authentication scheme for directories."""

    type: Annotated[str, example("oauthbearertoken")]
    """The type of the scheme, as in RFC 7643."""
    name: Annotated[str, example("SCIM token")]
    """The display name of the scheme."""
    description: Annotated[str, example("A token of the organization, sent as a Bearer token (RFC 6750).")]
    """A description of the scheme."""
    spec_uri: Annotated[str, example("https://www.rfc-editor.org/info/rfc6750")]
    """The URL of the specification."""
    primary: Annotated[bool, example(True)]
    """Whether this is the preferred scheme."""


class ScimServiceProviderConfig(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The supported features (RFC 7643 section 5)."""

    schemas: Annotated[Sequence[str], example(["urn:ietf:params:scim:schemas:core:2.0:ServiceProviderConfig"])]
    """The schema of this document."""
    patch: ScimSupport
    """Support for PATCH."""
    bulk: ScimBulkSupport
    """Support for bulk operations."""
    filter: ScimFilterSupport
    """Support for filters."""
    change_password: Annotated[ScimSupport, example({"supported": False})]
    """Support for password changes."""
    sort: ScimSupport
    """Support for sorting."""
    etag: ScimSupport
    """Support for resource versions (`ETag`)."""
    authentication_schemes: Sequence[ScimAuthenticationScheme]
    """The supported authentication schemes."""
    meta: ScimDocumentMeta
    """The metadata of this document."""


class ScimResourceType(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A resource type (RFC 7643 section 6)."""

    schemas: Annotated[Sequence[str], example(["urn:ietf:params:scim:schemas:core:2.0:ResourceType"])]
    """The schema of this document."""
    id: Annotated[str, example("User")]
    """`User` or `Group`."""
    name: Annotated[str, example("User")]
    """The same as `id`."""
    endpoint: Annotated[str, example("/Users")]
    """The path of the resources, relative to `/scim/v2`."""
    description: Annotated[str, example("A person whom the directory manages in the organization.")]
    """A description of the resource type."""
    schema: Annotated[str, example("urn:ietf:params:scim:schemas:core:2.0:User")]
    """The base schema of the resources."""
    schema_extensions: Annotated[Sequence[dict[str, Any]], example([])]
    """The schema extensions. One contains the organization's own fields, if the directory can write any. The enterprise extension is
    present if any of its attributes is mapped to a field.
    """
    meta: Annotated[ScimDocumentMeta, example({"resourceType": "ResourceType", "location": f"{_BASE}/ResourceTypes/User"})]
    """The metadata of this document."""


class _Attribute(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    name: Annotated[str, example("userName")]
    """The name of the attribute."""
    type: Literal["string", "boolean", "decimal", "complex", "reference"]
    """The data type of the attribute."""
    multi_valued: Annotated[bool, example(False)]
    """Whether the attribute has a list of values."""
    description: Annotated[str, example("The e-mail address that the person signs in with.")]
    """A description of the attribute."""
    required: Annotated[bool, example(True)]
    """Whether requests must contain the attribute. For an attribute of a response: whether it is always present."""
    mutability: Literal["readWrite", "readOnly", "immutable"]
    """Whether a directory can change the attribute."""
    returned: Literal["default"]
    """Always `default`: responses contain the attribute unless you exclude it."""
    case_exact: Annotated[bool, example(False)] | UnsetType = UNSET
    """Whether values are case-sensitive. Only present for strings and references."""
    uniqueness: Annotated[Literal["none", "server"], example("server")] | UnsetType = UNSET
    """`server` if the value must be unique among resources. Only present for strings."""
    canonical_values: Sequence[str] | UnsetType = UNSET
    """The allowed values, if there are only a few."""
    reference_types: Sequence[str] | UnsetType = UNSET
    """The resource types that a reference can point to."""


class ScimSubAttribute(_Attribute, frozen=True, kw_only=True, rename="camel"):
    """A sub-attribute."""


class ScimAttribute(_Attribute, frozen=True, kw_only=True, rename="camel"):
    """An attribute that Postern stores."""

    sub_attributes: Sequence[ScimSubAttribute] | UnsetType = UNSET
    """The sub-attributes of a `complex` attribute."""


class ScimSchema(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A schema: the attributes of a resource type (RFC 7643 section 7)."""

    schemas: Annotated[Sequence[str], example(["urn:ietf:params:scim:schemas:core:2.0:Schema"])]
    """The schema of this document."""
    id: Annotated[str, example("urn:ietf:params:scim:schemas:core:2.0:User")]
    """The URN of the schema."""
    name: Annotated[str, example("User")]
    """`User`, `Group`, `EnterpriseUser`, or `Fields` for the organization's own fields."""
    description: Annotated[str, example("A person")]
    """A description of the resources that have this schema."""
    attributes: Sequence[ScimAttribute]
    """The attributes that Postern stores. Other attributes that you send are ignored."""
    meta: Annotated[
        ScimDocumentMeta,
        example({"resourceType": "Schema", "location": f"{_BASE}/Schemas/urn:ietf:params:scim:schemas:core:2.0:User"}),
    ]
    """The metadata of this document."""


class ScimResourceTypeList(ScimList, frozen=True, kw_only=True, rename="camel"):
    """All resource types."""

    resources: Sequence[ScimResourceType] = msgspec.field(name="Resources")
    """The resource types."""


class ScimSchemaList(ScimList, frozen=True, kw_only=True, rename="camel"):
    """All schemas."""

    resources: Sequence[ScimSchema] = msgspec.field(name="Resources")
    """The schemas."""


class DiscoveryQuery(msgspec.Struct, frozen=True, kw_only=True):
    """The query, which must be empty."""

    filter: Line | None = None
    """Rejected. The response always lists everything (RFC 7644 section 4)."""


class ResourceTypePath(msgspec.Struct, frozen=True):
    name: Annotated[Line, example("User")]
    """`User` or `Group`."""


class SchemaPath(msgspec.Struct, frozen=True):
    urn: Annotated[Line, example("urn:ietf:params:scim:schemas:core:2.0:User")]
    """The URN of the schema."""


@endpoint.get("/scim/v2/ServiceProviderConfig", **declared())
def get_scim_service_provider_config(_call: Call[None, None, None, ScimHolder], postern: Postern) -> ScimServiceProviderConfig | bytes:
    """Get the SCIM service provider configuration

    Returns the supported features. Filters, sorting, PATCH and resource versions are supported. Bulk operations and password changes are
    not supported.
    """
    return _encode(service_provider_config(postern.foundation.public_url))


@endpoint.get("/scim/v2/ResourceTypes", **declared(Forbidden))
async def list_scim_resource_types(call: Call[None, DiscoveryQuery, None, ScimHolder], postern: Postern) -> ScimResourceTypeList | bytes:
    """List SCIM resource types

    Returns the types User and Group (RFC 7644 section 4), with the paths of their lists and the schemas of their attributes.
    """
    return _all(call.query, resource_types(*await _described(call.caller, postern)))


@endpoint.get("/scim/v2/ResourceTypes/{name}", **declared(NotFound))
async def get_scim_resource_type(call: Call[None, None, ResourceTypePath, ScimHolder], postern: Postern) -> ScimResourceType | bytes:
    """Get a SCIM resource type

    The name is `User` or `Group`.
    """
    return _one(call.path.name, resource_types(*await _described(call.caller, postern)))


@endpoint.get("/scim/v2/Schemas", **declared(Forbidden))
async def list_scim_schemas(call: Call[None, DiscoveryQuery, None, ScimHolder], postern: Postern) -> ScimSchemaList | bytes:
    """List SCIM schemas

    Returns the schemas with every attribute that Postern stores.
    """
    return _all(call.query, schemas(*await _described(call.caller, postern)))


@endpoint.get("/scim/v2/Schemas/{urn}", **declared(NotFound))
async def get_scim_schema(call: Call[None, None, SchemaPath, ScimHolder], postern: Postern) -> ScimSchema | bytes:
    """Get a SCIM schema

    For the URN of a schema, see the list of schemas, or `schemas` of a resource.
    """
    return _one(call.path.urn, schemas(*await _described(call.caller, postern)))


@endpoint.post("/scim/v2/Bulk", **declared(NotImplementedHere))
def run_scim_bulk(_call: Call[None, None, None, ScimHolder], _postern: Postern) -> NoBody:
    """Run SCIM bulk operations

    Bulk operations are not supported, as `ServiceProviderConfig` states.
    """
    raise NotImplementedHere("Bulk operations are not offered: send them one by one")


async def _described(holder: ScimHolder, postern: Postern) -> tuple[str, ScimGrouping, Sequence[ProfileField], ScimMapping]:
    """The address, the kind of groups, the unmapped fields that the directory may write, and the mapped ones: what the documents show."""
    mapped = {field.key for field in holder.mapping.values()}
    fields = await postern.tenancy.profile_fields.written_by(holder.organization, FieldWriter.DIRECTORY)
    groups = (await postern.federation.scim_teams.settings(holder)).groups
    return postern.foundation.public_url, groups, [one for one in fields if one.key not in mapped], holder.mapping


def _all(asked: DiscoveryQuery, documents: Sequence[Mapping[str, Any]]) -> bytes:
    if asked.filter is not None:
        raise Forbidden("filter: everything is listed here")
    return _encode(list_response(documents, len(documents), 1))


def _one(identifier: str, documents: Sequence[Mapping[str, Any]]) -> bytes:
    found = next((one for one in documents if one["id"] == identifier), None)
    if found is None:
        raise NotFound
    return _encode(found)
