"""The ways in which lists are read. Each operation that lists says its way in `x-paging`, so that a client needs one loop for each way."""

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from entrypoints.http.machinery.endpoints import Endpoint

# The ways, each with its explanation. A new list that has no bound uses `after`: such a list skips and repeats nothing while entries come
# and go.
WAYS: Final[Mapping[str, str]] = {
    "after": "The answer has `next`, which the next request sends as `after`. On the last page `next` is null.",
    "page": "The request names a `page`, beginning with 1, and the entries on a page as `limit`. The last page is not full.",
    "offset": "The request names the entries to skip as `offset`, and the entries of the answer as `limit`.",
    "limit": "The answer has the first entries, as many as `limit`, and nothing asks for the rest.",
    "scim": "The request names the first entry as `startIndex`, beginning with 1, and the entries as `count` (RFC 7644 section 3.4.2.4).",
    "token": "The answer has `page.next_token`, which the next request sends as `page.token`. On the last page it is empty.",
    "whole": "One answer is the whole list. If only the last entries are kept, the description of the operation says so.",
}
# The fields of a request that tell the way. The first way with all its fields is the way of the list.
_FIELDS: Final[Mapping[str, frozenset[str]]] = {
    "after": frozenset({"after", "limit"}),
    "page": frozenset({"page", "limit"}),
    "token": frozenset({"page", "subject"}),
    "offset": frozenset({"offset", "limit"}),
    "limit": frozenset({"limit"}),
    "scim": frozenset({"startIndex", "count"}),
    "whole": frozenset(),
}
_LISTS: Final = ("list_", "search_")


def way_of_paging(one: Endpoint) -> str | None:
    """The way in which the list of this endpoint is read. None for an endpoint that lists nothing."""
    if not one.handler.__name__.startswith(_LISTS):
        return None
    asked = _fields(one.query_type) | _fields(one.body_type)
    return next(way for way, fields in _FIELDS.items() if fields <= asked)


def _fields(kind: Any) -> frozenset[str]:
    if not (isinstance(kind, type) and issubclass(kind, msgspec.Struct)):
        return frozenset()
    return frozenset(field.encode_name for field in msgspec.structs.fields(kind))
