"""The bodies of SCIM: resources, lists and changes."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Annotated, Any, Final, Literal

import msgspec
from msgspec import UNSET, UnsetType

from core.domain.errors import PreconditionFailed, Refusal
from core.domain.federation.scim.filters import LONGEST_FILTER, Comparable, Filter, parse_filter
from core.domain.federation.scim.protocol import (
    LONGEST_TEXT,
    InvalidFilter,
    InvalidPath,
    InvalidSyntax,
    InvalidValue,
    Mutability,
    NoTarget,
    PatchOperation,
)
from core.domain.federation.scim.resources import DEFAULT_COUNT, MOST_LISTED, WantedAttributes, wanted
from entrypoints.http.machinery.accepts import ScimJson
from entrypoints.http.machinery.answers import AnswerHeader, RequestHeader
from entrypoints.http.machinery.callers import DIRECTORY
from entrypoints.http.machinery.calls import Request
from entrypoints.http.machinery.endpoints import Statement
from entrypoints.http.machinery.errors import SCIM
from entrypoints.http.machinery.fields import Line, Word, bounded, example
from entrypoints.http.machinery.limits import SCIM as BY_TOKEN
from entrypoints.http.machinery.limits import UNLIMITED
from ports.federation.scim import SORTABLE, Order

MEDIA_TYPE = "application/scim+json"
PATCH_SCHEMA = "urn:ietf:params:scim:api:messages:2.0:PatchOp"
SEARCH_SCHEMA = "urn:ietf:params:scim:api:messages:2.0:SearchRequest"
LIST_SCHEMA = "urn:ietf:params:scim:api:messages:2.0:ListResponse"
_LONGEST_BODY = 2 << 20
_ID = "0199d3a0-0000-7000-8000-000000000001"
_MOMENT = "2026-03-01T09:30:00Z"
_ETAG = 'W/"3694e05e9dff590f3694e05e9dff590f"'


IF_MATCH: Final = RequestHeader(
    "If-Match", "The expected version of the resource. If the current version differs, the response is 412.", _ETAG
)
IF_NONE_MATCH: Final = RequestHeader(
    "If-None-Match", "The version that you have. If it is the current version, the response is 304.", _ETAG
)
ETAG: Final = AnswerHeader("ETag", "The version of the resource, to send as `If-Match` or `If-None-Match`.", _ETAG)


def declared(
    *refuses: type[Refusal],
    status: int = 200,
    also: Mapping[int, Any] | None = None,
    reads: tuple[RequestHeader, ...] = (),
    sends: Mapping[int, tuple[AnswerHeader, ...]] | None = None,
) -> Statement:
    """The common part of the statements of all SCIM endpoints."""
    return {
        "reads": reads,
        "sends": sends or {},
        "caller": DIRECTORY,
        "limit": UNLIMITED,
        "counts": (BY_TOKEN,),
        "refuses": refuses,
        "status": status,
        "also": also or {},
        "errors": SCIM,
        "produces": MEDIA_TYPE,
        "accepts": ScimJson(_LONGEST_BODY),
        "tags": ("scim",),
    }


CHANGE_REFUSALS = (PreconditionFailed, InvalidSyntax, InvalidPath, NoTarget, InvalidValue, Mutability)
SEARCH_REFUSALS = (InvalidFilter, InvalidPath, InvalidValue)


# Limits for the documentation only. The domain checks the texts.
ScimText = Annotated[str, bounded({"maxLength": LONGEST_TEXT})]
FilterText = Annotated[str, bounded({"maxLength": LONGEST_FILTER})]


class ShownAttributes(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The choice of attributes for the answer."""

    attributes: Annotated[Line, example("userName,active")] | None = None
    """The attributes to return, separated by commas. `id` and `schemas` are always returned."""
    excluded_attributes: Annotated[Line, example("members")] | None = None
    """The attributes to omit, separated by commas."""

    @property
    def wanted(self) -> WantedAttributes:
        return wanted(self.attributes, self.excluded_attributes)


class ScimQuery(ShownAttributes, frozen=True, kw_only=True, rename="camel"):
    """The resources to list."""

    start_index: Annotated[int, example(1)] = 1
    """The index of the first resource to return, starting at 1."""
    count: Annotated[int, example(100)] = DEFAULT_COUNT
    """The maximum number of resources to return. Values above 1000 are treated as 1000 (RFC 7644)."""
    filter: Annotated[Line, example('userName eq "ada@example.org"')] | None = None
    """The filter. `eq` works for each attribute that can be compared. `co`, `sw` and `ew` work for `userName` and `emails`. Combine
    comparisons with `and`, `or` and `not ( )`.
    """
    sort_by: Annotated[Line, example("userName")] | None = None
    """The attribute to sort by."""
    sort_order: Annotated[Word, example("ascending")] | None = None
    """`ascending` or `descending`."""


class ScimSearchBody(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The query parameters of a list, as a body."""

    schemas: Annotated[Sequence[Line], example([SEARCH_SCHEMA])] = ()
    """The schema of this request."""
    start_index: Annotated[int, example(1)] | None = None
    """The index of the first resource to return, starting at 1."""
    count: Annotated[int, example(100)] | None = None
    """The maximum number of resources to return. Values above 1000 are treated as 1000 (RFC 7644)."""
    filter: Annotated[FilterText, example('userName eq "ada@example.org"')] | None = None
    """The filter, as in the query of the list endpoint."""
    sort_by: Annotated[ScimText, example("userName")] | None = None
    """The attribute to sort by."""
    sort_order: Annotated[ScimText, example("ascending")] | None = None
    """`ascending` or `descending`."""
    attributes: Annotated[Sequence[Line], example(["userName"])] | None = None
    """The attributes to return."""
    excluded_attributes: Annotated[Sequence[Line], example(["members"])] | None = None
    """The attributes to omit."""

    @property
    def wanted(self) -> WantedAttributes:
        require_schema(self.schemas, SEARCH_SCHEMA)
        return wanted(self.attributes, self.excluded_attributes)


class ScimOperation(msgspec.Struct, frozen=True, kw_only=True):
    """One PATCH operation."""

    op: Annotated[Word, example("replace")]
    """`add`, `replace` or `remove`, case-insensitive."""
    path: Annotated[Line, example("active")] | None = None
    """The path of the attribute. If omitted, the value contains the attributes by name."""
    value: Annotated[Any, example(False)] = None
    """The value to set, add or remove."""


class ScimPatchBody(msgspec.Struct, frozen=True, kw_only=True):
    """The PATCH operations. Either all operations are applied, or none."""

    schemas: Annotated[Sequence[Line], example([PATCH_SCHEMA])] = ()
    """The schema of this request."""
    operations: Sequence[ScimOperation] = msgspec.field(name="Operations")
    """The operations, in order."""

    def listed(self) -> Sequence[PatchOperation]:
        require_schema(self.schemas, PATCH_SCHEMA)
        return [PatchOperation(one.op, one.path, one.value) for one in self.operations]


class ScimMeta(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The metadata of a resource. Excluded attributes are absent."""

    resource_type: Annotated[Literal["User", "Group"], example("User")] | UnsetType = UNSET
    """`User` or `Group`."""
    created: Annotated[datetime, example(_MOMENT)] | UnsetType = UNSET
    """When the directory or the organization added the resource."""
    last_modified: Annotated[datetime, example(_MOMENT)] | UnsetType = UNSET
    """When the resource was last changed."""
    location: Annotated[str, example(f"https://id.example.org/scim/v2/Users/{_ID}")] | UnsetType = UNSET
    """The URL of the resource."""
    version: Annotated[str, example(_ETAG)] | UnsetType = UNSET
    """The version of the resource, to send as `If-Match` or `If-None-Match`."""


def meta_example(kind: str) -> msgspec.Meta:
    place = f"https://id.example.org/scim/v2/{kind}s/{_ID}"
    return example({"resourceType": kind, "created": _MOMENT, "lastModified": _MOMENT, "location": place, "version": _ETAG})


class ScimList(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A page of resources."""

    schemas: Annotated[Sequence[str], example([LIST_SCHEMA])]
    """The schema of this response."""
    total_results: Annotated[int, example(1)]
    """The total number of matching resources."""
    start_index: Annotated[int, example(1)]
    """The index of the first resource on this page."""
    items_per_page: Annotated[int, example(1)]
    """The number of resources on this page."""


def require_schema(given: Sequence[str], wanted_schema: str) -> None:
    """An empty list is fine, since some clients leave it out. Raises `InvalidSyntax` if the list lacks the wanted schema."""
    if given and wanted_schema.lower() not in {one.lower() for one in given}:
        raise InvalidSyntax(f"schemas: expected {wanted_schema}")


def filter_of(text: str | None, comparable: Comparable) -> Filter | None:
    return parse_filter(text, comparable) if text else None


def order_of(by: str | None, direction: str | None) -> Order:
    """Raises `InvalidPath`, `InvalidValue`."""
    word = (direction or "ascending").lower()
    if word not in {"ascending", "descending"}:
        raise InvalidValue("sortOrder: ascending or descending")
    if not by:
        return Order()
    name = next((one for one in SORTABLE if one.lower() == by.lower().removeprefix("urn:ietf:params:scim:schemas:core:2.0:user:")), None)
    if name is None:
        raise InvalidPath(f"sortBy: one of {', '.join(SORTABLE)}")
    return Order(name, word == "descending")


def count_of(count: int | None) -> int:
    return DEFAULT_COUNT if count is None else min(max(count, 0), MOST_LISTED)


def start_of(start: int | None) -> int:
    return 1 if start is None else max(start, 1)


def version_of(request: Request) -> str | None:
    """The version in `If-Match`."""
    return request.says(IF_MATCH)


def known_version(request: Request) -> str | None:
    """The version in `If-None-Match`."""
    return request.says(IF_NONE_MATCH)
