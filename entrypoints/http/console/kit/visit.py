"""A visit: one request of a page of the console. Through it, a page calls endpoints of the API as the caller of the page, and shows itself
in the frame of its place.
"""

import inspect
import json
import shlex
from collections.abc import Collection, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, NamedTuple
from urllib.parse import urlencode

import msgspec

from core.domain.errors import NotFound, Refusal
from core.domain.identity.callers import Caller
from core.domain.identity.profiles import Portrait, portrait
from core.domain.languages import CONSOLE_LANGUAGES
from core.domain.tenancy.members import Member
from core.domain.tenancy.roles import Capability
from core.frozen import Frozen, replace
from entrypoints.bootstrap import Postern
from entrypoints.http.console.kit.cells import Column, Tone, mark_of
from entrypoints.http.console.kit.navigation import PagePosition, SideEntry, address, offered
from entrypoints.http.machinery.answers import Answer, NoBody
from entrypoints.http.machinery.browser_cookies import look_of, other_tokens
from entrypoints.http.machinery.browsers import BROWSER, admits, token_for
from entrypoints.http.machinery.callers import MemberRule, SessionRule
from entrypoints.http.machinery.calls import Call
from entrypoints.http.machinery.decoding import convert
from entrypoints.http.machinery.endpoints import Endpoint, parameters
from entrypoints.http.machinery.fields import Line
from entrypoints.http.pages.kit import shipped_pages
from entrypoints.http.pages.kit.declaring import in_words

AnyCall = Call[Any, Any, Any, Any]
Page = Answer[bytes] | Answer[NoBody]
NO_ERRORS: Final[Mapping[str, str]] = MappingProxyType({})
_CONSOLE: Final = "/ui/o"
_ORGANIZATIONS: Final = "/ui/organizations"
_NOTICES: Final = frozenset({"made", "saved", "put_back", "unchanged"})
_BUTTONS: Final[set[str]] = set()


def button(key: str) -> str:
    """The text key of a button. The page after its form says what came of it: the result has a text of its own, named like the button."""
    _BUTTONS.add(key)
    return key


class DoneLink(msgspec.Struct, frozen=True):
    """The query of a page that a form redirects to."""

    done: Line = ""
    fields: Line = ""
    """What was saved, with spaces between the names."""


class ButtonLink(Frozen):
    """A button at the head of a page."""

    label: str
    """In the reader's language."""
    address: str
    kind: str = "primary"


class ActLink(NamedTuple):
    """A button of the head, or a line of its menu."""

    label: str
    """In the reader's language."""
    at: str
    asks: bool
    """Whether a page of its own asks first. Otherwise the button is a form."""
    kind: str = "quiet"


class SideLink(NamedTuple):
    """A line of the side list."""

    at: str
    label: str
    """In the reader's language."""
    is_current: bool
    icon: str
    waiting: int
    """How many things below it wait for somebody's hand."""


class RecordHead(Frozen, kw_only=True):
    """The head of a record that has tabs, the same on each of them."""

    name: str
    mark: Portrait | None = None
    state: tuple[str, Tone] | None = None
    main: ButtonLink | None = None
    known: Sequence[tuple[str, Any]] = ()
    endings: Sequence[ActLink] = ()


class Head(Frozen, kw_only=True):
    """The parts of a page's frame that differ from page to page, in the reader's language."""

    title: str
    state: tuple[str, Tone] | None = None
    """The word beside the title."""
    crumbs: Sequence[tuple[str, str]] = ()
    """The pages above this one, from the second level on: label and address."""
    main: ButtonLink | None = None
    mark: Portrait | None = None
    """The sign before the title."""
    acts: Sequence[ActLink] = ()
    """What one can do: the first two are buttons beside the title, the others lines of the menu."""
    endings: Sequence[ActLink] = ()
    """What ends something: the last lines of the menu."""
    known: Sequence[tuple[str, Any]] = ()
    """What is needed seldom, in the menu: the id to copy, when it was made and changed. Labels and cells."""
    curl: str = ""
    done: str = ""
    """The word in the query of the page, after a form: one of `_NOTICES`, or the text key of a button."""
    done_to: str = ""
    """What the form has done it to, where the title does not say."""
    errors: Mapping[str, str] = NO_ERRORS
    """By the name of the field; errors about no field have the name ""."""


class PageVisit:
    __slots__ = ("call", "path", "postern", "text")

    def __init__(self, call: AnyCall, postern: Postern) -> None:
        self.call = call
        self.postern = postern
        self.path: Mapping[str, str] = call.request.path_values
        self.text = shipped_pages().text(call.language)

    @property
    def person(self) -> Caller:
        caller = self.call.caller
        return caller.caller if isinstance(caller, Member) else caller

    @property
    def capabilities(self) -> Collection[Capability]:
        """Of the caller, in the organization of the page."""
        return self.call.caller.capabilities if isinstance(self.call.caller, Member) else ()

    async def ask(self, endpoint: Endpoint, *, body: Any = None, query: Mapping[str, Any] | None = None, **path: object) -> Any:
        """The endpoint's answer to the caller of the page. `path` has the values that the address of the page lacks. The page's declaration
        names the endpoint, so the endpoint's fresh proof and limits are those of the page. Raises the refusals of the endpoint.
        """
        rule = endpoint.caller
        assert isinstance(rule, MemberRule | SessionRule)  # noqa: S101 - a bug in a page: only such endpoints have pages
        rule.require(self.call.caller)
        place = _place(endpoint, {**self.path, **{name: str(value) for name, value in path.items()}})
        asked = None if endpoint.query_type is None else convert(query or {}, endpoint.query_type)
        result = endpoint.handler(Call(self.call.request, self.call.caller, body, asked, place), self.postern)
        if inspect.isawaitable(result):
            result = await result
        return result.value if isinstance(result, Answer) else result

    def may(self, endpoint: Endpoint) -> bool:
        """Whether the caller of the page may call the endpoint."""
        return admits(endpoint.caller, self.call.caller)

    def reachable(self, columns: Sequence[Column]) -> Sequence[Column]:
        """The columns, without links to pages that the caller may not open."""
        return [one if all(map(self.may, one.of)) else replace(one, link=None) for one in columns]

    def here(self, template: str, **path: object) -> str:
        """The address of another page of this place."""
        return address(template, {**self.path, **path})

    def named(self, template: str, otherwise: str = "") -> str:
        """The name of the thing that the page stands below, by the template of its address. Where the caller may not know the name, the
        last part of the address stands for it, or `otherwise`.
        """
        return self.call.request.named.get(template) or otherwise or self.path[parameters(template)[-1]]

    def curl(self, endpoint: Endpoint, *, body: Any = None, query: Mapping[str, Any] | None = None, **path: object) -> str:
        """The line for a shell that does the same as the page. A secret is never among the values: its place says what belongs there."""
        asked = f"?{urlencode(query)}" if query else ""
        parts = ["curl"]
        if endpoint.method != "GET":
            parts.append(f"-X {endpoint.method}")
        parts += ['-H "Authorization: Bearer $TOKEN"']
        if body is not None:
            parts += ["-H 'Content-Type: application/json'", f"-d {shlex.quote(json.dumps(body, ensure_ascii=False))}"]
        public_url = self.postern.foundation.public_url
        parts.append(shlex.quote(f"{public_url}{address(endpoint.path, {**self.path, **path})}{asked}"))
        return " \\\n  ".join(parts)

    def said(self, refusal: Refusal) -> str:
        """A refusal in the reader's language."""
        return in_words(refusal, self.text)

    def show(self, template: str, position: PagePosition, head: Head, **values: Any) -> bytes:
        caller, person = self.call.caller, self.person
        head = replace(head, crumbs=(*((self.text(one.label), self.here(one.at)) for one in position.above), *head.crumbs))
        tabs = offered(position.beside(head.crumbs), caller, self.path)
        return shipped_pages().page(
            f"console/{template}",
            self.call.language,
            place_name=caller.organization_name if isinstance(caller, Member) else self.text("console.installation"),
            change=position.place.change,
            other_places=self._other_places(),
            scheme=look_of(self.call.request, self.postern.foundation.public_url),
            at_place=self.call.request.path,
            place_mark=mark_of(caller.organization_name, caller.organization) if isinstance(caller, Member) else None,
            governs=person.is_platform_owner and person.impersonator is None,
            search=self.here(position.place.search),
            groups=self._groups(position),
            tabs=[(where, self.text(tab.label), tab is position.tab) for where, tab in tabs],
            **self._headings(position, head, len(tabs)),
            errors=head.errors,
            managed=self.call.request.managed,
            done=self._done(head),
            # Said where a person comes in, and not on each page.
            speaks_otherwise=position.is_first and person.language not in {None, *CONSOLE_LANGUAGES},
            person=person.email.address,
            person_name=person.profile.shown_name or "",
            person_portrait=portrait(person.user, person.profile, person.email),
            impersonating=person.impersonator is not None,
            form_token=token_for(BROWSER, self.call.request, self.postern),
            several=bool(other_tokens(self.call.request, self.postern.foundation.public_url)),
            now=self.postern.foundation.clock.now(),
            **values,
        )

    def _headings(self, position: PagePosition, head: Head, tabs: int) -> Mapping[str, Any]:
        """`heading` is the title above the tabs: of the record, or of the entry. `crumbs` stand above it, and `within` above the title of
        the page itself, which needs none where the tab says it. `above` is the head beside `heading`: a tab adds what it has to the head
        of its record. A page below a tab has a head of its own beside its title, and shows no more of the record than what it is.
        """
        if position.record and self.call.request.named.get(position.record):
            at, named = self.here(position.record), self.named(position.record)
            places = [where for _, where in head.crumbs]
            level = places.index(at) if at in places else len(places)
            is_first = self.call.request.template == position.tab.at
            tab = () if is_first else ((self.text(position.tab.label), self.here(position.tab.at)),)
            record = self.call.request.heads.get(position.record) or RecordHead(name=named)
            if is_first or head.title == named:
                above = replace(
                    head,
                    mark=head.mark or record.mark,
                    state=head.state or record.state,
                    main=head.main or record.main,
                    known=head.known or record.known,
                    endings=tuple(dict.fromkeys((*head.endings, *record.endings))),
                )
            else:
                above = Head(title=named, mark=record.mark, state=record.state)
            return {
                "head": head,
                "above": above,
                "heading": named,
                # A crumb that says the heading again leads nowhere else.
                "crumbs": [one for one in head.crumbs[:level] if one[0] != named],
                "within": () if head.title == named else (*tab, *head.crumbs[level + 1 :]),
                "subtitle": "" if head.title == named else head.title,
                "is_said": is_first,
            }
        if tabs > 1 and not position.tabs:
            label = self.text(position.entry.label)
            return {"head": head, "above": head, "heading": label, "crumbs": (), "within": (), "subtitle": head.title, "is_said": True}
        return {"head": head, "above": head, "heading": head.title, "crumbs": head.crumbs, "within": (), "subtitle": "", "is_said": False}

    def _done(self, head: Head) -> str:
        """What the last form has done. The word stands in the address, so it may be anything. What it was done to is what the head says, or
        the page's title, which on the page of a record is the record's name.
        """
        if head.done in _BUTTONS:
            result = head.done.removeprefix("console.").replace(".", "_")
            return self.text(f"console.result.{result}", called=head.done_to or head.title)
        if head.done == "saved" and head.done_to:
            return self.text("console.done.saved_it", called=head.done_to)
        return self.text(f"console.done.{head.done}") if head.done in _NOTICES else ""

    def _groups(self, position: PagePosition) -> Sequence[tuple[str, Sequence[SideLink]]]:
        """The side list. An entry leads to the first of its tabs that the caller may open."""
        groups = []
        for heading, entries in position.place.groups:
            opened = [(offered(entry.tabs, self.call.caller, self.path), entry) for entry in entries]
            group = [
                SideLink(tabs[0][0], self.text(entry.label), entry is position.entry, entry.drawing, self._waiting(entry))
                for tabs, entry in opened
                if tabs
            ]
            if group:
                groups.append((self.text(heading) if heading else "", group))
        return groups

    def _waiting(self, entry: SideEntry) -> int:
        frame = self.call.request.frame
        return 0 if frame is None else sum(frame.todos.get(todo, 0) for todo in entry.todos)

    def _other_places(self) -> Sequence[tuple[str, str]]:
        """The other organizations that the person looks after: name and address."""
        frame, own = self.call.request.frame, self.path.get("org_slug", "")
        places = () if frame is None else frame.places
        return [(one.name, f"{_ORGANIZATIONS if one.waits else _CONSOLE}/{one.slug}") for one in places if one.slug != own]


def _place(endpoint: Endpoint, values: Mapping[str, str]) -> Any:
    if endpoint.path_type is None:
        return None
    try:
        return convert({name: values[name] for name in parameters(endpoint.path)}, endpoint.path_type)
    except Refusal:
        # A value that does not fit its type names nothing.
        raise NotFound from None
