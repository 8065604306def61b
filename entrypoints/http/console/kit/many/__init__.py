"""One act for several rows of a list: the list has boxes to tick, a page names the chosen rows and asks, and a page says what became of
each. Every row goes to the endpoint by itself, so the endpoint's own rule decides about each.

The rows of a list as a file of comma-separated values: the columns of the page, in the reader's language.
"""

from collections.abc import AsyncGenerator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final
from urllib.parse import parse_qsl

import msgspec

from core.domain.errors import NotFound, RateLimited, Refusal
from core.domain.formats import table_line
from entrypoints.bootstrap import Postern
from entrypoints.http.console.kit.cells import Cell, Column, rows_of
from entrypoints.http.console.kit.declaring import console, stated
from entrypoints.http.console.kit.lists import asked_with, given_in, page_of_list
from entrypoints.http.console.kit.resources import Bulk, Resource, query_names
from entrypoints.http.console.kit.visit import NO_ERRORS, AnyCall, Head, Page, PageVisit
from entrypoints.http.machinery.answers import Answer, Headers, Streamed
from entrypoints.http.machinery.browsers import BoundForm
from entrypoints.http.machinery.endpoints import Endpoint
from entrypoints.http.machinery.errors import status_of
from entrypoints.http.machinery.fields import Line, Lines
from entrypoints.http.machinery.limits import PAGE_LOADS, PRIVACY

_SURE: Final = "yes"
_MOST_ASKED: Final = 20
Outcome = tuple[str, bool, str]
"""The name of a row, whether the act is done, and why it is not."""


class BulkForm(BoundForm, frozen=True, kw_only=True):
    chosen: Sequence[Lines] = ()
    """The rows' values of the resource's parameter."""
    asked: Lines = ""
    """The query of the list where the rows were chosen, which finds their names again."""
    sure: Line = ""


def bulk_page(resource: Resource, bulk: Bulk) -> Endpoint:
    at, endpoint = f"{resource.at}/~{bulk.name}", bulk.endpoint

    async def handler(call: AnyCall, postern: Postern) -> Page:
        visit, form = PageVisit(call, postern), call.body
        wanted = set(form.chosen[: resource.on_a_page])
        rows = [row for row in await _rows(resource, visit, form.asked) if str(resource.key(row)) in wanted] if wanted else []
        if not rows:
            error = visit.text("console.bulk.gone" if wanted else "console.bulk.nothing_chosen")
            return Answer(_shown(resource, bulk, visit, form, [], errors={"": error}), 409 if wanted else 400)
        if form.sure != _SURE:
            return Answer(_shown(resource, bulk, visit, form, rows), 200)
        outcomes = await _done(resource, bulk, visit, rows)
        return Answer(_shown(resource, bulk, visit, form, rows, outcomes=outcomes), 200)

    return console.post(at, of=endpoint, also=(resource.listed,))(
        stated(handler, f"{bulk.name}_many_of_{resource.name}", at, body=BulkForm)
    )


async def _rows(resource: Resource, visit: PageVisit, asked: str) -> Sequence[Any]:
    """The rows of the page of the list where the choice was made."""
    try:
        query = page_of_list(resource, dict(parse_qsl(asked, max_num_fields=_MOST_ASKED)))
    except ValueError:
        raise NotFound from None
    return resource.rows_in(await visit.ask(resource.listed, query={**query, **(resource.query or {})}))


async def _done(resource: Resource, bulk: Bulk, visit: PageVisit, rows: Sequence[Any]) -> Sequence[Outcome]:
    outcomes = list[Outcome]()
    for number, row in enumerate(rows):
        called = resource.called(row)
        try:
            await visit.ask(bulk.endpoint, **{resource.parameter: resource.key(row)})
        except NotFound:
            # Somebody else was quicker.
            outcomes.append((called, True, ""))
        except RateLimited as refusal:
            outcomes += [(resource.called(one), False, visit.said(refusal)) for one in rows[number:]]
            break
        except Refusal as refusal:
            if status_of(refusal) >= 500:
                raise
            outcomes.append((called, False, visit.said(refusal)))
        else:
            outcomes.append((called, True, ""))
    return outcomes


def _shown(
    resource: Resource,
    bulk: Bulk,
    visit: PageVisit,
    form: BulkForm,
    rows: Sequence[Any],
    *,
    outcomes: Sequence[Outcome] = (),
    errors: Mapping[str, str] = NO_ERRORS,
) -> bytes:
    if len(rows) == 1:
        title = resource.text(visit, f"ask_{bulk.name}_title", called=resource.called(rows[0]))
    else:
        title = resource.text(visit, f"bulk_{bulk.name}_title", count=len(rows))
    of_one: dict[str, Any] = {resource.parameter: "…"}
    return visit.show(
        "many/bulk.html",
        resource.position,
        Head(
            title=resource.text(visit, f"act_{bulk.name}") if outcomes or not rows else title,
            crumbs=resource.above(visit),
            curl=visit.curl(bulk.endpoint, **of_one) if rows and not outcomes else "",
            errors=errors,
        ),
        explained=resource.text(visit, f"ask_{bulk.name}_text" if len(rows) == 1 else f"bulk_{bulk.name}_text"),
        names=[resource.called(row) for row in rows],
        chosen=[str(resource.key(row)) for row in rows],
        asked=form.asked,
        missing=len(set(form.chosen)) - len(rows) if rows else 0,
        outcomes=outcomes,
        action=visit.here(f"{resource.at}/~{bulk.name}"),
        back=visit.here(resource.at),
        button=resource.text(visit, f"act_{bulk.name}"),
    )


MOST_ROWS: Final = 10_000
"""Lists without a counter of their own end there, too."""
_AT_ONCE: Final = 100
EXPORT: Final = "~export"
# Without it, spreadsheets take the file for one of their own country's encoding.
_MARK: Final = "\ufeff"


def export_page(resource: Resource) -> Endpoint:
    at = f"{resource.at}/{EXPORT}"
    query = msgspec.defstruct(f"{resource.name}_export", [(one.name, Line, "") for one in resource.filters], frozen=True)

    async def handler(call: AnyCall, postern: Postern) -> Any:
        visit = PageVisit(call, postern)
        pages = _pages(resource, visit, {**await asked_with(resource, visit, given_in(resource, call.query)), **(resource.query or {})})
        # The first page is asked for before the answer begins, so that a refusal is a page.
        first = await anext(pages)
        return Answer(
            Streamed(_parts(resource.in_file or resource.columns, visit, first, pages)), 200, attachment(visit, f"{resource.name}.csv")
        )

    declared = console.get(at, of=resource.listed, limit=(PAGE_LOADS, PRIVACY))
    return declared(stated(handler, f"export_{resource.name}", at, query=query))


def attachment(visit: PageVisit, name: str, media_type: str = "text/csv; charset=utf-8") -> Headers:
    """The headers of a file that a browser stores."""
    place = visit.path.get("org_slug", "postern")
    return (
        (b"content-type", media_type.encode()),
        (b"content-disposition", f'attachment; filename="{place}-{name}"'.encode("ascii", "ignore")),
    )


def marked(text: str) -> bytes:
    """The beginning of the file."""
    return (_MARK + text).encode()


async def _pages(resource: Resource, visit: PageVisit, query: Mapping[str, Any]) -> AsyncGenerator[Sequence[Any], None]:
    """The rows of the list, page by page, as the endpoint answers them."""
    names = query_names(resource.listed)
    is_paged, shown, after = bool(names & {"page", "offset", "after"}), 0, ""
    while shown < MOST_ROWS:
        paging = {"limit": _AT_ONCE, "page": shown // _AT_ONCE + 1, "offset": shown} | ({"after": after} if after else {})
        answer = await visit.ask(resource.listed, query={**query, **{name: value for name, value in paging.items() if name in names}})
        rows = resource.rows_in(answer)
        yield rows
        shown += len(rows)
        following = getattr(answer, "next", None)
        if not is_paged or len(rows) < _AT_ONCE or ("after" in names and following is None):
            return
        after = str(following)


async def _parts(
    columns: Sequence[Column], visit: PageVisit, first: Sequence[Any], pages: AsyncGenerator[Sequence[Any], None]
) -> AsyncGenerator[bytes, None]:
    labels = [str(visit.text(column.label)) for column in columns]
    heads = list[str]()
    for column, label in zip(columns, labels, strict=True):
        heads += [label] if column.beside is None else [label, str(visit.text("console.list.beside", label=label))]
    yield marked(table_line(heads))
    rows = first
    while True:
        cells = rows_of(columns, rows, visit.text, visit.path)
        yield "".join(table_line(_texts(columns, row)) for row in cells).encode()
        try:
            rows = await anext(pages)
        except StopAsyncIteration:
            return


def _texts(columns: Sequence[Column], row: Sequence[Cell]) -> Sequence[str]:
    pairs = [(text_of_cell(cell), cell.beside if column.beside is not None else None) for column, cell in zip(columns, row, strict=True)]
    return [text for pair in pairs for text in pair if text is not None]


def text_of_cell(cell: Cell) -> str:
    if cell.kind == "none":
        return ""
    if isinstance(cell.value, datetime):
        return cell.value.astimezone(UTC).isoformat(timespec="seconds")
    if cell.kind == "list":
        return "; ".join(str(item) for item in cell.value)
    return str(cell.value)
