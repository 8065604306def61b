"""What a search of the console shows: the things that it has found, and the pages of the place whose titles have the text."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from typing import Any, Final

from core.domain.platform.searches import LONGEST_TEXT, ThingKind
from core.frozen import Frozen
from entrypoints.http.machinery.answers import Answer
from entrypoints.http.pages.console.navigation import ConsolePlace, PagePosition, address, offered
from entrypoints.http.pages.console.visit import Head, Page, PageVisit

SHOWN: Final = 10
_ORDER: Final = tuple(ThingKind)


class FoundLine(Frozen):
    name: str
    beside: str
    place: str


class LinesOfKind(Frozen):
    heading: str
    """A text key."""
    lines: Sequence[FoundLine]


def sought_by(query: str) -> str:
    """The text to look for. A longer one than any search takes is cut."""
    return query.strip()[:LONGEST_TEXT].strip()


def groups_of(things: Iterable[Any], places: Mapping[ThingKind, str], path: Mapping[str, str]) -> Sequence[LinesOfKind]:
    """The things by their kind. `places` has the template of the page of each kind, by `id`, `slug` and the names of the path."""
    return [
        LinesOfKind(f"console.found.kind_{kind}", [_line(one, places[kind], path) for one in of_kind])
        for kind, of_kind in groupby(sorted(things, key=lambda one: _ORDER.index(one.kind)), lambda one: one.kind)
    ]


def _line(one: Any, place: str, path: Mapping[str, str]) -> FoundLine:
    values = {"service_slug": one.service_slug or "", "organization_id": one.organization_id or "", "id": one.id, "slug": one.slug or ""}
    above = one.service_slug or ("" if "org_slug" in path else one.organization_name) or ""
    return FoundLine(one.name, above or one.slug or "", address(place, {**path, **values}))


def pages_titled(visit: PageVisit, place: ConsolePlace, wanted: str) -> Sequence[FoundLine]:
    """The pages of the place that the reader may open, and whose name, title or words have the text in the reader's language. Those that
    are called so come before those that only may be called so.
    """
    sought = wanted.casefold()
    called, others = [], []
    for entry in (entry for _, group in place.groups for entry in group):
        for where, tab in offered(entry.pages, visit.call.caller, visit.path):
            line = _page(visit.text(entry.label), visit.text(tab.label), where, alone=len(entry.pages) == 1)
            if sought in f"{line.name} {line.beside} {visit.text(tab.title)}".casefold():
                called.append(line)
            elif sought in visit.text(tab.words).casefold():
                others.append(line)
    return [*called, *others]


def _page(entry: str, tab: str, where: str, *, alone: bool) -> FoundLine:
    return FoundLine(entry, "", where) if alone or entry == tab else FoundLine(tab, entry, where)


def show_found(
    visit: PageVisit,
    position: PagePosition,
    sought: str,
    groups: Sequence[LinesOfKind],
    *,
    complete: bool = True,
    lists: Sequence[Any] = (),
) -> Page:
    """The page of a search. `lists` has label and address of whole lists, which have pages."""
    pages = pages_titled(visit, position.place, sought)
    found = [*groups, *([LinesOfKind("console.found.pages", pages)] if pages and sought else ())]
    page = visit.show(
        "finding/found.html",
        position,
        # The search stands beneath the first page, and in none of its tabs.
        Head(title=visit.text("console.search.title"), crumbs=((visit.text(position.entry.label), visit.here(position.tab.at)),)),
        sought=sought,
        found=[(visit.text(group.heading), group.lines) for group in found],
        most=SHOWN,
        complete=complete,
        pages=() if sought else pages,
        lists=lists,
    )
    return Answer(page, 200)
