"""The places of the console: an organization, and the installation. A place has a side list of entries, and an entry has tabs. A tab may
lead to further pages.

A tab is shown to those whom the rule of its page admits. An entry without a tab is left out.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple
from urllib.parse import quote

from core.domain.platform.todos import AnyTodo
from core.frozen import Frozen
from entrypoints.http.machinery.browsers import admits
from entrypoints.http.machinery.callers import CallerRule


class Tab(Frozen):
    label: str
    """A text key."""
    at: str
    """The template of the page's address."""
    rule: CallerRule
    """The rule of the endpoint that the page offers."""
    title: str = ""
    """The text key of the page's title. Empty for a tab of a record, which has the record's name."""
    beneath: tuple["Tab", ...] = ()
    """Pages that stand in no row of tabs. The page of this tab leads to them."""

    @property
    def words(self) -> str:
        """The text key of what people may call the page, and of what it was called. It stands beside the title."""
        return f"{self.title.removesuffix('title')}words" if self.title.endswith(".title") else f"{self.title}_words"


class SideEntry(Frozen):
    label: str
    """A text key."""
    tabs: tuple[Tab, ...]
    icon: str = ""
    """The name of its drawing in `look/icons.html`. By default the last step of the label."""
    todos: tuple[AnyTodo, ...] = ()
    """What waits for somebody's hand below the entry."""

    @property
    def drawing(self) -> str:
        return self.icon or self.label.rpartition(".")[2]

    @property
    def pages(self) -> tuple[Tab, ...]:
        """The tabs, each with the pages that it leads to."""
        return tuple(one for tab in self.tabs for one in (tab, *tab.beneath))


class ConsolePlace(Frozen):
    groups: tuple[tuple[str, tuple[SideEntry, ...]], ...]
    """Each group with the text key of its heading. The first group needs none."""
    change: str
    """The address of the list of places."""
    search: str
    """The template of the address of the search."""
    settings: Tab | None = None
    """The page with the settings of the process, in the place that has one."""


class SubjectPage(NamedTuple):
    """A page or card that people ask for, and that is neither a tab of its place nor a resource."""

    title: str
    """A text key. The words stand beside it, with `_words` at the end of the key."""
    at: str
    """The template of the address."""
    rule: CallerRule
    position: "PagePosition"


class UnnamedAction(NamedTuple):
    """What one can do with a person or an application, before anybody has said with which."""

    title: str
    """A text key, with `{called}`. The words stand beside it, with `_words` at the end of the key."""
    at: str
    """The template of the page that does it."""
    position: "PagePosition"
    weakens: bool = False
    """Whether it weakens, ends or deletes something: then its words alone lead to it."""


class PagePosition(Frozen):
    """The position of a page: its place, entry and tab. A record below the entry, such as an application, may have tabs of its own."""

    place: ConsolePlace
    entry: SideEntry
    tab: Tab
    tabs: tuple[Tab, ...] = ()
    record: str = ""
    """The template of the address of that record. Its name heads all pages below it."""

    @property
    def above(self) -> tuple[Tab, ...]:
        """The tab that leads to the page, where the page is none itself."""
        return tuple(one for one in self.entry.tabs if self.tab in one.beneath)

    @property
    def is_first(self) -> bool:
        """Whether the page is where people come into the place."""
        _, (first, *_) = self.place.groups[0]
        return self.entry is first and self.tab is first.tabs[0] and not self.tabs

    def beside(self, crumbs: Sequence[object]) -> tuple[Tab, ...]:
        """The tabs that the page shows. A page with crumbs stands below the tabs of its entry, and shows only those of its record."""
        return self.tabs or (() if crumbs else self.entry.tabs)


def address(template: str, values: Mapping[str, object]) -> str:
    """The address of a page, from its template."""
    return template.format_map({name: quote(str(value), safe="") for name, value in values.items()})


def offered(tabs: Sequence[Tab], caller: Any, values: Mapping[str, object]) -> Sequence[tuple[str, Tab]]:
    """The tabs that the caller may open, with their addresses."""
    return [(address(tab.at, values), tab) for tab in tabs if admits(tab.rule, caller)]
