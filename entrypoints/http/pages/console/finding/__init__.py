"""Ask: what somebody types in the search of a place, and what it shows: what one can do, the pages of the place and the guides, and the
things that it has found.

What was typed comes by a form that carries the form token, and the answer is the page itself. So it stands in no address, no history and no
log. A link with `?q=` only fills the field: somebody else may have written the link, so nothing is looked for until the reader presses.
"""

from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from typing import Annotated, Any, Final, NamedTuple

import msgspec

from core.domain.federation.explained_errors import ExplainedError, explained_in
from core.domain.platform.searches import LONGEST_TEXT, ThingKind
from core.frozen import Frozen
from entrypoints.bootstrap import Postern
from entrypoints.http.machinery.accepts import Form
from entrypoints.http.machinery.answers import Answer
from entrypoints.http.machinery.browsers import BROWSER, BoundForm, admits, token_for
from entrypoints.http.machinery.limits import SUGGESTIONS
from entrypoints.http.pages import shipped_pages
from entrypoints.http.pages.console.finding.subjects import (
    SUBJECTS,
    KnownSubject,
    SubjectKind,
    TypedQuestion,
    found_among,
    has_whole,
    plain_words,
    question_of,
    says_an_address,
)
from entrypoints.http.pages.console.navigation import ConsolePlace, PagePosition, Tab, address
from entrypoints.http.pages.console.visit import AnyCall, Head, Page, PageVisit

SHOWN: Final = 10
SUGGESTED: Final = 8
MOST_SUGGESTED: Final = 10
"""With somebody or something that the text names, and what one does with it."""
TYPED: Final = Form(limit=32 << 10)
"""The form of what was typed. Whoever pastes more than this has pasted something else."""
SUGGESTING: Final[Mapping[str, Any]] = {"limit": (SUGGESTIONS,), "accepts": TYPED, "framed": False}
"""How a page is declared that suggests: it asks for no frame, and has a limit of its own."""
_ORDER: Final = tuple(ThingKind)
_DOCUMENTS: Final = frozenset({SubjectKind.GUIDE, SubjectKind.DOCUMENTATION})
LONGEST_TYPED: Final = 1024
"""In characters. A longer text is refused before anything reads it."""
_MOST_PAGES: Final = 25


class AskedForm(BoundForm, frozen=True, kw_only=True):
    q: Annotated[str, msgspec.Meta(max_length=LONGEST_TYPED)] = ""
    """What somebody typed. It may be anything, such as an error or a list of email addresses."""


class FoundLine(Frozen):
    name: str
    beside: str
    place: str


class LinesOfKind(Frozen):
    heading: str
    """A text key."""
    lines: Sequence[FoundLine]
    is_whole: bool = False
    """Whether there are no more than these."""


class ActionLine(Frozen):
    """Something that one can do. Its page asks for the fresh proof and the confirmation that it always asks for."""

    label: str
    """In the reader's language."""
    at: str
    fields: tuple[tuple[str, str], ...] = ()
    """What the form of that page is filled with. It goes there by a form with the token, and never in the address."""
    beside: str = ""


class NamedLine(Frozen):
    """Somebody or something that the text names, and what people do with it most."""

    heading: str
    """A text key."""
    line: FoundLine
    acts: Sequence[ActionLine]
    is_sure: bool
    """Whether the text means it for certain. A word of the console may be a name, too."""


class ErrorPlace(NamedTuple):
    """Where one changes what an error is about: a page of the place, and what stands there beneath the record that one chooses."""

    tab: Tab
    beneath: tuple[str, ...] = ()
    """Text keys."""


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


class AskedPage(NamedTuple):
    """The page of what a text asks for, and the name in the text, which is nobody's."""

    template: str
    name: str


async def subjects_for(visit: PageVisit, place: ConsolePlace, sought: str, asked: AskedPage | None = None) -> Sequence[KnownSubject]:
    """What the text asks for among what needs no look into the database, and the reader may open. What answers best comes first: the page
    that is asked for, where the name is no word of the console.
    """
    known = await SUBJECTS.of(place, visit.call.language)
    found = found_among(known, typed_question(visit, sought), visit.call.caller)
    if asked is None or not known.lacks(plain_words(asked.name).split()):
        return found
    first = [one for one in known.each if one.template == asked.template and one.opens_for(visit.call.caller)]
    return [*first, *(one for one in found if one not in first)]


def typed_question(visit: PageVisit, sought: str) -> TypedQuestion:
    return question_of(sought, visit.text("console.search.small_words"), visit.text("console.search.placeless_words"))


def lines_of(visit: PageVisit, subjects: Iterable[KnownSubject]) -> Sequence[FoundLine]:
    """One line an address: several subjects may stand on one page. A guide's address has no part of the path."""
    found: dict[tuple[str, str], FoundLine] = {}
    for one in subjects:
        line = FoundLine(one.title, one.beside, visit.here(one.at) if "{" in one.at else one.at)
        found.setdefault((line.place, line.name), line)
    return [*found.values()]


def error_in(query: str) -> ExplainedError | None:
    """An error of OAuth in what was typed, if there is one."""
    return next(iter(explained_in(query)), None)


def error_lines(visit: PageVisit, query: str, places: Mapping[str, ErrorPlace]) -> Sequence[ActionLine]:
    """The error in words, and the page that has what to change, if the reader may open it."""
    if (error := error_in(query)) is None:
        return ()
    lines = [ActionLine(visit.text("console.search.explain", error=error.name), f"/docs/errors#{error.anchor}")]
    place = places.get(error.name)
    if place is not None and admits(place.tab.rule, visit.call.caller):
        way = " → ".join(dict.fromkeys(visit.text(one) for one in (place.tab.title, *place.beneath)))
        lines.append(ActionLine(visit.text("console.search.mend", page=way), visit.here(place.tab.at)))
    return lines


async def show_asked(
    call: AnyCall,
    postern: Postern,
    place: ConsolePlace,
    actions: Sequence[ActionLine],
    errors: Mapping[str, ErrorPlace],
    *,
    named: Sequence[NamedLine] = (),
    asked: AskedPage | None = None,
) -> Page:
    """What suits what somebody has typed so far: a part of a page, without its frame."""
    visit = PageVisit(call, postern)
    sought = sought_by(call.body.q)
    subjects = lines_of(visit, await subjects_for(visit, place, sought, None if named else asked)) if sought else ()
    page = shipped_pages().page(
        "console/finding/suggestions.html",
        call.language,
        lines=_suggested([*error_lines(visit, call.body.q, errors), *actions], named, subjects),
        sought=sought,
        form_token=token_for(BROWSER, call.request, postern),
    )
    return Answer(page, 200)


def _suggested(actions: Sequence[ActionLine], named: Sequence[NamedLine], subjects: Sequence[FoundLine]) -> Sequence[ActionLine]:
    """What the text means for certain, then the pages, then what may be a name. One line an address."""
    sure = [one for one in named if one.is_sure]
    unsure = [_as_action(one.line) for one in named if not one.is_sure]
    # Of several of one name, somebody chooses first.
    several = len(sure) > 1
    # Where no act is asked for, the rest of the sentence may mean a page: "bob got no invitation".
    page = subjects[:1] if sure and not several and not actions else ()
    lines = [
        *actions,
        *(_as_action(one.line) for one in sure),
        *map(_as_action, page),
        *(() if several or not sure else sure[0].acts),
        *map(_as_action, subjects[: SUGGESTED - len(unsure[:2])]),
        *unsure,
        *(act for one in sure for act in one.acts if several),
    ]
    once: dict[tuple[object, ...], ActionLine] = {}
    for one in lines:
        # Two actions may lead to one list, in which one chooses.
        once.setdefault((one.at, one.label, one.fields), one)
    return [*once.values()][: MOST_SUGGESTED if sure else SUGGESTED]


def _as_action(line: FoundLine) -> ActionLine:
    return ActionLine(line.name, line.place, beside=line.beside)


async def show_found(
    visit: PageVisit,
    position: PagePosition,
    sought: str,
    groups: Sequence[LinesOfKind],
    *,
    pressed: bool = True,
    actions: Sequence[ActionLine] = (),
    named: Sequence[NamedLine] = (),
    asked: AskedPage | None = None,
    complete: bool = True,
    lists: Sequence[tuple[str, str]] = (),
) -> Page:
    """The page of a search. `lists` has label and address of whole lists, which have pages. Without a press, the field is filled alone.
    `asked` comes first if nothing that the text names exists.
    """
    found: Sequence[LinesOfKind] = ()
    sure = [one for one in named if one.is_sure]
    if pressed and sought:
        subjects = await subjects_for(visit, position.place, sought, None if named or actions else asked)
        own = lines_of(visit, [one for one in subjects if one.kind not in _DOCUMENTS])[:_MOST_PAGES]
        documents = lines_of(visit, [one for one in subjects if one.kind in _DOCUMENTS])[:SHOWN]
        parts = [
            LinesOfKind("console.found.pages", own, is_whole=True),
            LinesOfKind("console.found.documents", documents, is_whole=True),
        ]
        if subjects and subjects[0].kind in _DOCUMENTS:
            # Whoever asks for nginx comes for its guide, and pages that name it among others come after.
            parts.reverse()
        first, second = parts
        shown = {one.line.place for one in sure}
        unsure = [LinesOfKind(one.heading, [one.line], is_whole=True) for one in named if not one.is_sure]
        groups = _joined([*unsure, *groups], shown)
        # Of "ada", the person called so comes before pages with "adaptive" among their words. Whoever types an address means somebody.
        begins_only = bool(subjects) and not has_whole(typed_question(visit, sought), subjects[0])
        names_first = (begins_only and not named) or says_an_address(sought)
        found = [one for one in ((*groups, first, second) if names_first else (first, *groups, second)) if one.lines]
    page = visit.show(
        "finding/found.html",
        position,
        # The search stands beneath the first page, and in none of its tabs.
        Head(title=visit.text("console.search.title"), crumbs=((visit.text(position.entry.label), visit.here(position.tab.at)),)),
        sought=sought,
        pressed=pressed,
        actions=actions,
        named=[(visit.text(heading), [*some]) for heading, some in groupby(sure, lambda one: one.heading)],
        found=[(visit.text(group.heading), group.lines, not group.is_whole and len(group.lines) >= SHOWN) for group in found],
        most=SHOWN,
        complete=complete,
        pages=() if sought else await _all_pages(visit, position.place),
        lists=lists if pressed else (),
    )
    return Answer(page, 200)


def _joined(groups: Iterable[LinesOfKind], shown: set[str]) -> Sequence[LinesOfKind]:
    """One group a kind, without what stands above."""
    lines: dict[str, dict[str, FoundLine]] = {}
    for group in groups:
        lines.setdefault(group.heading, {}).update({one.place: one for one in group.lines if one.place not in shown})
    whole = {group.heading: group.is_whole for group in groups}
    return [LinesOfKind(heading, [*some.values()], is_whole=whole[heading]) for heading, some in lines.items()]


async def _all_pages(visit: PageVisit, place: ConsolePlace) -> Sequence[FoundLine]:
    """All pages of the place that the reader may open."""
    return [
        FoundLine(one.title, one.beside, visit.here(one.at))
        for one in (await SUBJECTS.of(place, visit.call.language)).each
        if one.kind is SubjectKind.PAGE and one.opens_for(visit.call.caller)
    ]
