"""The rows of a list as a file of comma-separated values: the columns of the page, in the reader's language."""

from collections.abc import AsyncGenerator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final

import msgspec

from core.domain.formats import table_line
from entrypoints.bootstrap import Postern
from entrypoints.http.machinery.answers import Answer, Headers, Streamed
from entrypoints.http.machinery.endpoints import Endpoint
from entrypoints.http.machinery.limits import PAGE_LOADS, PRIVACY
from entrypoints.http.pages.console.cells import Cell, Column, rows_of
from entrypoints.http.pages.console.declaring import console
from entrypoints.http.pages.console.handlers import stated
from entrypoints.http.pages.console.lists import asked_with, given_in
from entrypoints.http.pages.console.resources import Resource, query_names
from entrypoints.http.pages.console.visit import AnyCall, PageVisit

MOST_ROWS: Final = 10_000
"""Lists without a counter of their own end there, too."""
_AT_ONCE: Final = 100
EXPORT: Final = "~export"
# Without it, spreadsheets take the file for one of their own country's encoding.
_MARK: Final = "\ufeff"


def export_page(resource: Resource) -> Endpoint:
    at = f"{resource.at}/{EXPORT}"
    query = msgspec.defstruct(f"{resource.name}_export", [(one.name, str, "") for one in resource.filters], frozen=True)

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
