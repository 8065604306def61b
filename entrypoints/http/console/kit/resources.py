"""A resource: a list, a record, forms and an end, from one declaration.

`Resource(…)` says which endpoints it stands for, which columns and facts it shows and which fields its forms ask for; `pages(…)` makes its
pages. Each page calls its endpoint, so the rule, the limits, the use case and the refusals are those of the API. A declaration that cannot
say something leaves it to a screen, made by hand beside it.

The texts of a resource are in its section of the catalogue, `console.<name>`: `title`, `new`, `empty_title`, `empty_text`, `end`,
`end_title`, `end_text`, and those that its parts name.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from operator import attrgetter
from typing import Any, Final

import msgspec

from core.domain.errors import BadRequest, NotFound
from core.frozen import Frozen
from entrypoints.http.console.kit.cells import Column, Words
from entrypoints.http.console.kit.forms import Choices, InputKind, Shape
from entrypoints.http.console.kit.navigation import PagePosition
from entrypoints.http.console.kit.undo import Undoable
from entrypoints.http.console.kit.visit import ButtonLink, PageVisit
from entrypoints.http.machinery.endpoints import Endpoint
from ports.texts import Text

ON_A_PAGE: Final = 50
ON_A_PAGE_OF_LOG: Final = 25
# How far the page of a record looks for it in a paged list.
_MOST_PAGES: Final = 20
LARGEST_PAGE: Final = 100
Counts = Callable[[PageVisit, Any], Awaitable[Sequence[tuple[str, int]]]]


class Filter(Frozen):
    """A filter of a list, by a field of the endpoint's query."""

    name: str
    label: str
    """A text key."""
    choices: Choices | None = None
    """Without choices, the filter is a field to write into."""
    is_moment: bool = False
    """Whether the filter is a date and a time, in UTC."""
    found: Callable[[PageVisit, str], Awaitable[str]] | None = None
    """Finds what the endpoint takes by what people write, where the two differ. Raises `BadRequest`."""


class Making(Frozen):
    """A form that makes a thing."""

    shape: Shape
    secret: str = ""
    """The field of the answer with the secret, which a page shows once. Empty if the thing has none."""
    explained: str = ""
    """The text key of the sentence above the button. A form without a field needs one."""
    faults: Callable[[Any], Sequence[BadRequest]] | None = None
    """All that is wrong with a body, where the endpoint says the first fault alone."""
    key: Callable[[Any], Any] | None = None
    """The new thing's value of the resource's parameter, from the answer; by default as from a row."""
    begins: Callable[[PageVisit], Mapping[str, str]] = lambda _visit: {}
    """The texts with which the form begins, where they depend on the visit."""
    filled: Callable[[Any], Any] = lambda form: form
    """The form that was sent, with what its other fields say already."""
    says: bool = False
    """Whether the notice afterwards has words of its own: `console.result.<name of the resource>_new`, with `{called}`."""


class Section(Frozen):
    """A form on the record's page that changes some of its fields. `name` is a part of its address and of its text `section_<name>`."""

    name: str
    shape: Shape
    whole: bool = False
    """Whether the endpoint sets all fields at once. Otherwise the form sends those that were changed."""
    undone: bool = True
    """Whether a change can be put back."""
    says: bool = False
    """Whether the notice afterwards has words of its own: `console.result.<name of the resource>_section_<name>`, with `{called}`."""
    folds: bool = False
    """Whether the form folds the inputs that can wait."""
    fixed: Callable[[Any], Mapping[str, Any]] = lambda _record: {}
    """Values of the body that the endpoint wants in each call, from the record: the digest of what the page has shown. None for nothing."""
    secret: str = ""
    """The field of the answer with a secret, which a page shows once."""


class Act(Frozen):
    """A button on the record's page. Its texts are `act_<name>`, and with `asks` also `ask_<name>_title` and `ask_<name>_text`."""

    name: str
    endpoint: Endpoint
    asks: bool = False
    """Whether a page of its own asks first."""
    shape: Shape | None = None
    """The form of that page, such as for a reason. An act with a form always asks first."""
    asks_for: Callable[[Any], bool] = lambda _record: True
    """Whether the inputs of the form are of use for this record."""
    secret: str = ""
    """The field of the answer with a secret, which a page shows once."""
    kind: str = "quiet"
    shows: Callable[[Any], bool] = lambda _record: True
    """Whether the button is of use for this record."""
    said: Callable[[Any, Text], tuple[bool, str]] | None = None
    """For an act that tries something: whether it worked, and what came of it. The words of another server are in English. The record's
    page shows both.
    """
    leaves: bool = False
    """Whether the thing is gone from the list afterwards, so that the list follows."""
    facts: tuple[Column, ...] = ()
    """What the page that asks shows of the record."""
    on_row: bool = False
    """Whether the list has the button, too."""
    given: Callable[[Any], Any] | None = None
    """The body, where it follows from the record. A record that the act is of no use for any more leaves everything as it is."""
    seen: Callable[[Any], str] | None = None
    """For an act on exactly what the page shows: the digest of it. The form carries it to the only field that the endpoint needs. There is
    no button for a record that the act is of no use for.
    """
    later: Callable[[Any, Text], str] | None = None
    """For an act that is of no use yet: from when on, or after what. Whoever follows an older link to its page reads it there."""
    template: str = "question.html"
    """The template of that page, for an act that shows more than facts."""
    more: Callable[[PageVisit, Any], Awaitable[Mapping[str, Any]]] | None = None
    """What the template shows beside."""


class Ending(Frozen):
    """The end of a thing."""

    endpoint: Endpoint
    typed: Callable[[Any], str] | None = None
    """The part of the record that the person has to type, for what cannot be brought back."""
    counts: Counts | None = None
    """The things that end with it: text keys with `{count}`, and the counts."""
    query: Mapping[str, Any] | None = None


class EndLink(Frozen):
    """A line at the end of the menu of a record: an end that has a page of its own elsewhere."""

    label: str
    """A text key."""
    at: str
    """The template of the page's address."""
    endpoint: Endpoint
    shows: Callable[[Any], bool] = lambda _record: True
    """Whether it is of use for this record."""


class Bulk(Frozen):
    """An act for several rows that were ticked in the list. It is an act of the record as well, so it shares the texts `act_<name>`,
    `ask_<name>_title` and `ask_<name>_text`; with several rows they are `bulk_<name>_title`, with `{count}`, and `bulk_<name>_text`.
    """

    name: str
    endpoint: Endpoint
    kind: str = "danger"
    shows: Callable[[Any], bool] = lambda _row: True
    """Whether the row can be ticked."""


class Resource(Frozen, kw_only=True):
    name: str
    texts: str = ""
    """The section of its texts, for one of several resources that share them. By default the name."""
    position: PagePosition
    at: str
    """The template of the list's address."""
    listed: Endpoint
    page: str = ""
    """The template of the page's address, for one of several pages of the same record; `crumbs` then has all pages above it. By default
    the record stands below the list.
    """
    rows: str = ""
    """The field of the list's answer with the rows. Empty if the answer is the rows."""
    columns: tuple[Column, ...]
    """The first column leads to the record."""
    filters: tuple[Filter, ...] = ()
    query: Mapping[str, Any] | None = None
    """Values of the endpoint's query that the list always asks with."""
    parameter: str = ""
    """The name of one thing in addresses, as its endpoint has it. Empty if things have no page."""
    is_single: bool = False
    """Whether there is one thing at most, such as a mail server. Its record stands at `at`, without a list. A thing that is not there yet
    is None: the page then has the texts of an empty list, and forms that make it.
    """
    key: Callable[[Any], Any] = attrgetter("id")
    """A row's value of the parameter."""
    called: Callable[[Any], str] = attrgetter("name")
    """The name of a thing, as people say it."""
    record: Endpoint | None = None
    """Without it, the record's page finds the thing in the list: whole lists, and lists of which people open the newest."""
    of_record: Callable[[Any], Any] = lambda answer: answer
    """The thing in the answer of `record`."""
    state: tuple[Callable[[Any], Any], Words] | None = None
    """The word beside the title of the record."""
    facts: tuple[Column, ...] = ()
    """By default the columns."""
    making: Making | None = None
    sections: tuple[Section, ...] = ()
    acts: tuple[Act, ...] = ()
    ending: Ending | None = None
    end_links: tuple[EndLink, ...] = ()
    bulks: tuple[Bulk, ...] = ()
    exported: bool = False
    """Whether the list can be stored as a file."""
    in_file: tuple[Column, ...] = ()
    """The columns of the file. By default those of the list."""
    is_log: bool = False
    """Whether the list says what happened. Nobody reads a log to its end, so a page shows few rows."""
    below: tuple[tuple[str, str, Endpoint], ...] = ()
    """Pages below the record: the text key, the template of the address, and the endpoint that the page offers."""
    beneath: tuple[tuple[str, str, Endpoint], ...] = ()
    """Pages that the list leads to, with its filters in their query: the text key, the template of the address, and the endpoint."""
    elsewhere: Callable[[PageVisit], Sequence[tuple[str, str]]] = lambda _visit: ()
    """Text keys and values of what somebody enters in another system. The list and the page of a new secret show it, to be copied."""
    main: Callable[[PageVisit], ButtonLink | None] | None = None
    """The main action of the list, where it is another than a form of `making`."""
    crumbs: Callable[[PageVisit], Sequence[tuple[str, str]]] = lambda _visit: ()
    """The pages above the list."""
    titled: Callable[[PageVisit, Any], str] | None = None
    """The title of the record's page, where the name of the thing is none."""
    instead: Callable[[PageVisit], Awaitable[str]] | None = None
    """The address of another page that has the same thing, if one does. The record's page leads there."""
    folded: Callable[[Sequence[Any]], Sequence[Any]] | None = None
    """Puts like rows of the list together, unless a filter chooses among them."""
    template: str = "record.html"
    """The template of the record's page, for a record that shows more than facts."""
    shown_above: tuple[str, ...] = ()
    """The fields whose present values the template itself shows."""
    more: Callable[[PageVisit, Any], Awaitable[Mapping[str, Any]]] | None = None
    """What the template shows beside."""
    beginning: Callable[[PageVisit], Awaitable[Mapping[str, Any]]] | None = None
    """The same, while there is no record yet."""
    also: tuple[Endpoint, ...] = ()
    """The endpoints that `more` asks."""
    undone: tuple[Undoable, ...] = ()
    """Forms on pages of their own, whose changes the record's page puts back."""

    @property
    def one(self) -> str:
        """The template of the record's address."""
        return self.page or (self.at if self.is_single else f"{self.at}/{{{self.parameter}}}")

    @property
    def on_a_page(self) -> int:
        """How many rows a page of the list shows."""
        return ON_A_PAGE_OF_LOG if self.is_log else ON_A_PAGE

    @property
    def undoables(self) -> Sequence[Undoable]:
        """The forms whose changes can be put back. A form that sets everything at once, with a secret, could not say the secret."""
        return (
            *(
                self.undoable(one)
                for one in self.sections
                if one.undone and not (one.whole and any(part.kind is InputKind.SECRET for part in one.shape.inputs))
            ),
            *self.undone,
        )

    def undoable(self, section: Section) -> Undoable:
        return Undoable(
            name=section.name,
            page=self.one,
            at=f"{self.one}/{section.name}",
            shape=section.shape,
            find=self.find,
            position=self.position,
            whole=section.whole,
            fixed=section.fixed,
        )

    def call(self, visit: PageVisit, record: Any) -> str:
        """The title of the record's page."""
        if self.titled is not None:
            return self.titled(visit, record)
        return self.text(visit, "title") if self.is_single else self.called(record)

    def text(self, visit: PageVisit, name: str, **values: object) -> str:
        return visit.text(self.key_of(name), **values)

    def key_of(self, name: str) -> str:
        """The text key of this part."""
        return f"console.{self.texts or self.name}.{name.replace('-', '_')}"

    def rows_in(self, answer: Any) -> Sequence[Any]:
        rows: Sequence[Any] = attrgetter(self.rows)(answer) if self.rows else answer
        return rows

    def above(self, visit: PageVisit) -> Sequence[tuple[str, str]]:
        """The pages above a record."""
        if self.is_single or self.page:
            return self.crumbs(visit)
        return (*self.crumbs(visit), (self.text(visit, "title"), visit.here(self.at)))

    async def find(self, visit: PageVisit) -> Any:
        """The thing that the address names. Raises `NotFound`."""
        if self.is_single:
            try:
                return self.of_record(await visit.ask(self.listed))
            except NotFound:
                # Beneath a record, it is the record that is not there.
                if set(visit.path) - {"org_slug"}:
                    raise
                return None
        if self.record is not None:
            return self.of_record(await visit.ask(self.record))
        wanted = visit.path[self.parameter]
        for number in range(1, 1 + (_MOST_PAGES if self.is_paged else 1)):
            paging = {"page": number, "limit": LARGEST_PAGE} if self.is_paged else {}
            rows = self.rows_in(await visit.ask(self.listed, query={**(self.query or {}), **paging}))
            for row in rows:
                if str(self.key(row)) == wanted:
                    return row
            if self.is_paged and len(rows) < LARGEST_PAGE:
                break
        raise NotFound

    @property
    def is_paged(self) -> bool:
        return "page" in query_names(self.listed)


def query_names(listed: Endpoint) -> set[str]:
    """The names in the query of the endpoint."""
    return set() if listed.query_type is None else {one.name for one in msgspec.structs.fields(listed.query_type)}


class FoundByWords:
    """The resources of which pages were made. A search finds each of them, and what one can do with it, by its words."""

    def __init__(self) -> None:
        self.resources: Final[list[Resource]] = []

    def add(self, resource: Resource) -> None:
        if not any(one is resource for one in self.resources):
            self.resources.append(resource)


found_by_words: Final = FoundByWords()
