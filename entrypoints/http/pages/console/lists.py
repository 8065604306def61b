"""The page of a resource's list."""

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from core.frozen import replace
from entrypoints.bootstrap import Postern
from entrypoints.http.machinery.answers import Answer
from entrypoints.http.machinery.endpoints import Endpoint
from entrypoints.http.pages.console.cells import Column, rows_of
from entrypoints.http.pages.console.declaring import console
from entrypoints.http.pages.console.handlers import stated
from entrypoints.http.pages.console.places import address
from entrypoints.http.pages.console.resources import Resource
from entrypoints.http.pages.console.visit import AnyCall, Head, Link, Page, Visit

ON_A_PAGE: Final = 50
_LONGEST_NUMBER: Final = 5
Query = Mapping[str, str]


def list_page(resource: Resource) -> Endpoint:
    fields = [(name, str, "") for name in ("done", "page", "after", *(one.name for one in resource.filters))]
    query = msgspec.defstruct(f"{resource.name}_query", fields, frozen=True)
    columns = _columns(resource)

    async def handler(call: AnyCall, postern: Postern) -> Page:
        visit = Visit(call, postern)
        given = {one.name: text for one in resource.filters if (text := getattr(call.query, one.name).strip())}
        paging = _paging(resource.listed, call.query)
        answer = await visit.ask(resource.listed, query={**given, **(resource.query or {}), **_part(resource.listed, paging)})
        rows = resource.rows_in(answer)
        older, newer = _around(answer, len(rows), paging)
        head = Head(
            title=resource.text(visit, "title"),
            crumbs=resource.crumbs(visit),
            main=_new(resource, visit),
            curl=visit.curl(resource.listed, query=given),
            done=call.query.done,
        )
        filters = [(one, given.get(one.name, ""), None if one.choices is None else await one.choices(visit)) for one in resource.filters]
        page = visit.show(
            "list.html",
            resource.spot,
            head,
            columns=columns,
            rows=rows_of(columns, rows, visit.text, visit.path),
            filters=filters,
            filtered=bool(given),
            at=visit.here(resource.at),
            empty=(resource.text(visit, "empty_title"), resource.text(visit, "empty_text")),
            older=None if older is None else {**given, **older},
            newer=None if newer is None else {**given, **newer},
        )
        return Answer(page, 200)

    return console.get(resource.at, of=resource.listed)(stated(handler, f"show_{resource.name}", resource.at, query=query))


def _new(resource: Resource, visit: Visit) -> Link | None:
    if resource.main is not None:
        return resource.main(visit)
    if resource.making is None or not visit.may(resource.making.shape.endpoint):
        return None
    return Link(resource.text(visit, "new"), visit.here(f"{resource.at}/~new"))


def _columns(resource: Resource) -> tuple[Column, ...]:
    first, *others = resource.columns
    if resource.parameter and first.link is None:
        first = replace(first, link=lambda row, path: address(resource.one, {**path, resource.parameter: resource.key(row)}))
    return (first, *others)


def _paging(listed: Endpoint, query: Any) -> Query:
    """The part of the page's query that says which part of the list it shows."""
    known = _names(listed)
    if "after" in known:
        return {"after": query.after} if query.after else {}
    if not {"page", "offset"} & known:
        return {}
    number = query.page if query.page.isascii() and query.page.isdecimal() and len(query.page) <= _LONGEST_NUMBER else "1"
    return {"page": str(max(int(number), 1))}


def _part(listed: Endpoint, paging: Query) -> Mapping[str, Any]:
    """The same for the endpoint's query."""
    known = _names(listed)
    part: dict[str, Any] = {"limit": ON_A_PAGE} if "limit" in known else {}
    if "offset" in known:
        return {**part, "offset": (int(paging["page"]) - 1) * ON_A_PAGE}
    return {**part, **paging}


def _names(listed: Endpoint) -> set[str]:
    return set() if listed.query_type is None else {one.name for one in msgspec.structs.fields(listed.query_type)}


def _around(answer: Any, shown: int, paging: Query) -> tuple[Query | None, Query | None]:
    """The queries of the pages with the entries behind and before these."""
    number = int(paging.get("page", "1"))
    following = getattr(answer, "next", None)
    if following is not None:
        older: Query | None = {"after": str(following)}
    else:
        older = {"page": str(number + 1)} if "page" in paging and shown >= ON_A_PAGE else None
    if "after" in paging:
        return older, {}
    return older, ({"page": str(number - 1)} if number > 1 else None)
