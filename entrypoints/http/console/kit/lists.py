"""The page of a resource's list."""

from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Any, Final
from urllib.parse import urlencode

import msgspec

from core.domain.errors import Refusal
from core.frozen import replace
from entrypoints.bootstrap import Postern
from entrypoints.http.console.kit.cells import Cell, Column, RowAct, rows_of
from entrypoints.http.console.kit.declaring import console, stated
from entrypoints.http.console.kit.navigation import address
from entrypoints.http.console.kit.resources import LARGEST_PAGE, Act, Resource, found_by_words, query_names
from entrypoints.http.console.kit.sent_forms import explained
from entrypoints.http.console.kit.visit import NO_ERRORS, AnyCall, ButtonLink, Head, Page, PageVisit
from entrypoints.http.machinery.answers import Answer
from entrypoints.http.machinery.endpoints import Endpoint
from entrypoints.http.machinery.errors import status_of
from entrypoints.http.machinery.fields import Line

_LONGEST_NUMBER: Final = 5
_WITHOUT_SECONDS: Final = len("2026-11-23T04:00")
_LONGEST_MOMENT: Final = len("2026-11-23T04:00:00.000")
_LATEST: Final = 5
_ACTS: Final = Column("console.acts", "acts", lambda _row: None)
Query = Mapping[str, str]
LatestRows = tuple[Sequence[Column], Sequence[Sequence[Cell]], str]
"""The columns, the rows, and the address of the list with all of them."""


def list_page(resource: Resource) -> Endpoint:
    query = query_of(resource)

    async def handler(call: AnyCall, postern: Postern) -> Page:
        visit = PageVisit(call, postern)
        head, values, status = await listed(resource, visit, call.query)
        return Answer(visit.show("list.html", resource.position, head, **values), status)

    found_by_words.add(resource)
    return console.get(resource.at, of=resource.listed)(stated(handler, f"show_{resource.name}", resource.at, query=query))


def query_of(resource: Resource) -> type[msgspec.Struct]:
    """The query of the list's page."""
    fields = [(name, Line, "") for name in ("done", "page", "after", *(one.name for one in resource.filters))]
    return msgspec.defstruct(f"{resource.name}_query", fields, frozen=True)


async def listed(resource: Resource, visit: PageVisit, query: Any) -> tuple[Head, Mapping[str, Any], int]:
    """The head of a list's page, what `list.html` shows, and the status. `query` is that of the page."""
    given = given_in(resource, query)
    paging = _paging(resource, query.page, query.after)
    errors, status = NO_ERRORS, 200
    try:
        asked = {**await asked_with(resource, visit, given), **(resource.query or {}), **_part(resource, paging)}
        answer = await visit.ask(resource.listed, query=asked)
        rows, is_full = _shown_of(resource, resource.rows_in(answer), paging)
    except Refusal as problem:
        # A filter that the endpoint does not take stays in its form.
        if not given or status_of(problem) != HTTPStatus.BAD_REQUEST:
            raise
        answer, rows, is_full = None, (), False
        errors, status = explained(visit, problem)
    older, newer = _around(answer, paging, is_full=is_full)
    if resource.folded is not None and not given:
        rows = resource.folded(rows)
    main = new_of(resource, visit)
    head = Head(
        title=resource.text(visit, "title"),
        crumbs=resource.crumbs(visit),
        # An empty list has the button itself.
        main=main if rows or given else None,
        curl=visit.curl(resource.listed, query=given),
        done=query.done,
        errors=errors,
    )
    columns = visit.reachable(_columns(resource))
    shown = rows_of(columns, rows, visit.text, visit.path)
    if acts := [act for act in resource.acts if act.on_row and visit.may(act.endpoint)]:
        columns = [*columns, _ACTS]
        shown = [[*cells, _acts_on(resource, visit, acts, row)] for cells, row in zip(shown, rows, strict=True)]
    bulks = [bulk for bulk in resource.bulks if visit.may(bulk.endpoint)]
    values = {
        "columns": columns,
        "rows": shown,
        "filters": [(one, given.get(one.name, ""), None if one.choices is None else await one.choices(visit)) for one in resource.filters],
        "filtered": given,
        "at": visit.here(resource.at),
        "bulks": [(resource.text(visit, f"act_{bulk.name}"), visit.here(f"{resource.at}/~{bulk.name}"), bulk.kind) for bulk in bulks],
        "picks": [
            (str(resource.key(row)), resource.called(row)) if any(bulk.shows(row) for bulk in bulks) else None for row in rows if bulks
        ],
        "asked": urlencode({**given, **paging}),
        "export": f"{visit.here(resource.at)}/~export{f'?{urlencode(given)}' if given else ''}" if resource.exported and rows else "",
        "beneath": [
            (visit.text(label), f"{visit.here(where)}{f'?{urlencode(given)}' if given else ''}")
            for label, where, of in resource.beneath
            if visit.may(of)
        ],
        "elsewhere": resource.elsewhere(visit),
        "main": main,
        "empty": (resource.text(visit, "empty_title"), resource.text(visit, "empty_text")),
        "older": None if older is None else {**given, **older},
        "newer": None if newer is None else {**given, **newer},
    }
    return head, values, status


def _acts_on(resource: Resource, visit: PageVisit, acts: Sequence[Act], row: Any) -> Cell:
    at = visit.here(resource.one, **{resource.parameter: resource.key(row)})
    buttons = [
        RowAct(resource.text(visit, f"act_{act.name}"), f"{at}/{act.name}", act.asks, resource.called(row))
        for act in acts
        if act.shows(row)
    ]
    return Cell("acts", buttons) if buttons else Cell("none", "")


def given_in(resource: Resource, query: Any) -> Query:
    """The filters that a query has, without those left empty."""
    return {one.name: text for one in resource.filters if (text := getattr(query, one.name).strip())}


async def asked_with(resource: Resource, visit: PageVisit, given: Query) -> Query:
    """The filters as the endpoint takes them. A browser sends a date and a time without an offset, and often without seconds."""
    found = {one.name: await one.found(visit, given[one.name]) for one in resource.filters if one.found is not None and one.name in given}
    given = {**given, **found}
    moments = {one.name for one in resource.filters if one.is_moment}
    return {name: _moment(text) if name in moments and len(text) <= _LONGEST_MOMENT else text for name, text in given.items()}


def _moment(text: str) -> str:
    return f"{text}{':00' if len(text) == _WITHOUT_SECONDS else ''}Z"


def page_of_list(resource: Resource, query: Query) -> Mapping[str, Any]:
    """The endpoint's query for the part of the list that a query of the page shows. It may hold anything."""
    filters = {name: text for name, text in query.items() if name in query_names(resource.listed) - {"page", "after", "offset", "limit"}}
    return {**filters, **_part(resource, _paging(resource, query.get("page", ""), query.get("after", "")))}


def new_of(resource: Resource, visit: PageVisit) -> ButtonLink | None:
    if resource.main is not None:
        return resource.main(visit)
    if resource.making is None or not visit.may(resource.making.shape.endpoint):
        return None
    return ButtonLink(resource.text(visit, "new"), visit.here(f"{resource.at}/~new"))


async def latest_of(resource: Resource, visit: PageVisit, columns: Sequence[Column] = (), **filters: object) -> LatestRows:
    """The newest rows of a list, for the page of the record that they are about; of a whole list, its first."""
    shown, given = columns or _columns(resource), {name: str(value) for name, value in filters.items()}
    limit = {"limit": _LATEST} if "limit" in query_names(resource.listed) else {}
    answer = await visit.ask(resource.listed, query={**given, **limit})
    rows = rows_of(visit.reachable(shown), resource.rows_in(answer)[:_LATEST], visit.text, visit.path)
    return shown, rows, f"{visit.here(resource.at)}{f'?{urlencode(given)}' if given else ''}"


def _columns(resource: Resource) -> tuple[Column, ...]:
    first, *others = resource.columns
    if resource.parameter and first.link is None:
        first = replace(first, link=lambda row, path: address(resource.one, {**path, resource.parameter: resource.key(row)}))
    return (first, *others)


def _paging(resource: Resource, page: str, after: str) -> Query:
    """The part of the page's query that says which part of the list it shows."""
    known = query_names(resource.listed)
    if "after" in known:
        return {"after": after} if after else {}
    if not {"page", "offset"} & known and not resource.is_log:
        return {}
    number = page if page.isascii() and page.isdecimal() and len(page) <= _LONGEST_NUMBER else "1"
    return {"page": str(max(int(number), 1))}


def _part(resource: Resource, paging: Query) -> Mapping[str, Any]:
    """The same for the endpoint's query."""
    known = query_names(resource.listed)
    most = LARGEST_PAGE if _is_cut_here(resource) else resource.on_a_page
    part: dict[str, Any] = {"limit": most} if "limit" in known else {}
    if "offset" in known:
        return {**part, "offset": (int(paging["page"]) - 1) * resource.on_a_page}
    return {**part, **{name: value for name, value in paging.items() if name in known}}


def _is_cut_here(resource: Resource) -> bool:
    """Whether the page cuts the log into pages: its endpoint has none, and answers what there is, or the newest."""
    return resource.is_log and not {"page", "offset", "after"} & query_names(resource.listed)


def _shown_of(resource: Resource, rows: Sequence[Any], paging: Query) -> tuple[Sequence[Any], bool]:
    """The rows of this page, and whether there may be a page behind it."""
    if not _is_cut_here(resource):
        return rows, len(rows) >= resource.on_a_page
    last = int(paging["page"]) * resource.on_a_page
    return rows[last - resource.on_a_page : last], len(rows) > last


def _around(answer: Any, paging: Query, *, is_full: bool) -> tuple[Query | None, Query | None]:
    """The queries of the pages with the entries behind and before these."""
    number = int(paging.get("page", "1"))
    following = getattr(answer, "next", None)
    if following is not None:
        older: Query | None = {"after": str(following)}
    else:
        older = {"page": str(number + 1)} if "page" in paging and is_full else None
    if "after" in paging:
        return older, {}
    return older, ({"page": str(number - 1)} if number > 1 else None)
