"""A search among everything that a directory manages (RFC 7644 section 3.4.3): people first, then groups."""

from collections.abc import Sequence
from typing import Any, Final

import msgspec

from core.domain.federation.scim.filters import OF_GROUPS, OF_USERS, Comparable, Filter, parse_filter
from core.domain.federation.scim.protocol import InvalidFilter
from core.domain.federation.scim.resources import list_response
from core.domain.federation.scim.tokens import ScimHolder
from core.usecases.federation.scim.users import Search
from entrypoints.bootstrap import Postern
from entrypoints.http.machinery.calls import Call
from entrypoints.http.machinery.endpoints import endpoint
from entrypoints.http.routes.federation.scim_bodies import SEARCH_REFUSALS, ScimList, ScimSearchBody, count_of, declared, order_of, start_of
from entrypoints.http.routes.federation.scim_groups import found_groups
from entrypoints.http.routes.federation.scim_users import encoded_users

_encode: Final = msgspec.json.Encoder().encode


class ScimResourceList(ScimList, frozen=True, kw_only=True, rename="camel"):
    """A page of users and groups."""

    resources: Sequence[dict[str, Any]] = msgspec.field(name="Resources")
    """The users and groups on this page."""


@endpoint.post("/scim/v2/.search", **declared(*SEARCH_REFUSALS))
async def search_scim(call: Call[ScimSearchBody, None, None, ScimHolder], postern: Postern) -> ScimResourceList | bytes:
    """Search users and groups

    A filter on an attribute that only one kind of resource has finds only that kind.
    """
    asked, holder, want = call.body, call.caller, call.body.wanted
    start, count = start_of(asked.start_index), count_of(asked.count)
    order = order_of(asked.sort_by, asked.sort_order)
    of_users, of_groups = _read(asked.filter, OF_USERS), _read(asked.filter, OF_GROUPS)
    if isinstance(of_users, InvalidFilter) and isinstance(of_groups, InvalidFilter):
        raise of_users
    resources: list[Any] = []
    total = 0
    if not isinstance(of_users, InvalidFilter):
        found = await postern.federation.scim_users.list(holder, Search(of_users, order, start, count))
        resources, total = await encoded_users(found.items, want, holder, postern), found.total
    if not isinstance(of_groups, InvalidFilter):
        places = range(max(start - total, 1), max(start + count - total, 1))
        groups, of_kind = await found_groups(holder, of_groups, want, places, postern)
        resources = [*resources, *groups]
        total += of_kind
    return _encode(list_response(resources, total, start))


def _read(text: str | None, comparable: Comparable) -> Filter | InvalidFilter | None:
    try:
        return parse_filter(text, comparable) if text else None
    except InvalidFilter as refusal:
        return refusal
