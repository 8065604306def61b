"""How pages of the console are declared, their handlers, and what their frame says.

What the frame of a page says beside the page: the places to change to, and how much of each entry needs a hand.

It is asked before the page, in one statement. Who may not decide is shown no counts.

Handlers that are made for a declaration. They state their types as handlers made by hand do.

`console.get` and `console.post` declare pages of the console. A page names the endpoint that it offers, and takes caller, limits, fresh
proof and refusals from the endpoint's declaration. `console.name` declares the name of a thing, for the pages below it.
"""

import inspect
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from functools import cache, wraps
from typing import Any, Final, NamedTuple

import msgspec

from core.domain.errors import Forbidden, NotFound
from core.domain.languages import CONSOLE_LANGUAGES
from core.domain.platform.todos import FrameFacts
from core.domain.tenancy.members import Member
from entrypoints.bootstrap import Postern
from entrypoints.http.console.kit.navigation import PagePosition, SubjectPage, UnnamedAction
from entrypoints.http.console.kit.visit import Page, PageVisit, RecordHead
from entrypoints.http.machinery.accepts import Form
from entrypoints.http.machinery.answers import PagePolicy
from entrypoints.http.machinery.browsers import admits, in_browser
from entrypoints.http.machinery.callers import CallerRule
from entrypoints.http.machinery.calls import Call
from entrypoints.http.machinery.endpoints import Endpoint, Handler, parameters
from entrypoints.http.machinery.fields import Word
from entrypoints.http.machinery.limits import PAGE_LOADS, PAGE_STEPS
from entrypoints.http.pages.kit.declaring import WITH_SUGGESTIONS, page
from entrypoints.http.routes.configuration.kinds import ObjectKind
from entrypoints.http.routes.configuration.registry import kind_offered, mark_of
from entrypoints.http.routes.platform.todos import list_todos


async def frame_facts(visit: PageVisit) -> FrameFacts:
    caller, frames = visit.call.caller, visit.postern.platform.frames
    if not isinstance(caller, Member):
        return await frames.of_platform_owner(caller)
    return await frames.of_member(caller, decides=caller.organization_is_active and visit.may(list_todos))


# Cached, since hundreds of pages stand below the same things.
@cache
def _path_type(names: tuple[str, ...]) -> Any:
    return msgspec.defstruct("ConsolePath", [(name, Word) for name in names], frozen=True)


def stated(handler: Any, name: str, at: str, *, body: Any = None, query: Any = None) -> Any:
    """`at` is the template of the page's address: the endpoint that the page offers converts the values into its own types."""
    path: Any = _path_type(parameters(at))
    handler.__name__ = handler.__qualname__ = name.replace("-", "_")
    handler.__annotations__ = {"call": Call[body, query, path, Any], "postern": Postern, "return": Page}
    return handler


# An API may have a hundred scopes, in rows of five fields.
LONG_FORM: Final = Form(limit=64 << 10, most_fields=600)


def _marked(handler: Handler, kind: ObjectKind) -> Handler:
    """The page says whether a configuration document manages its object: a change by hand lasts until the document is applied again."""

    @wraps(handler)
    async def marked(call: Any, postern: Postern) -> Any:
        call.request.managed = await mark_of(postern, kind, call.request.path_values)
        answer = handler(call, postern)
        return await answer if inspect.isawaitable(answer) else answer

    return marked


def _framed(handler: Handler) -> Handler:
    """The frame of the page says more than the page asks for."""

    @wraps(handler)
    async def framed(call: Any, postern: Postern) -> Any:
        call.request.frame = await frame_facts(PageVisit(call, postern))
        answer = handler(call, postern)
        return await answer if inspect.isawaitable(answer) else answer

    return framed


def _needing(handler: Handler, rules: Sequence[CallerRule]) -> Handler:
    """The page opens for those alone whom each of these rules admits."""

    @wraps(handler)
    async def needing(call: Any, postern: Postern) -> Any:
        if not all(admits(rule, call.caller) for rule in rules):
            raise Forbidden
        answer = handler(call, postern)
        return await answer if inspect.isawaitable(answer) else answer

    return needing


class _ThingName(NamedTuple):
    beneath: str
    """The beginning of the templates of the pages that say the name."""
    at: str
    find: Callable[[PageVisit], Awaitable[str | RecordHead]]


def _naming(handler: Handler, things: Sequence[_ThingName]) -> Handler:
    """The page names the things that it stands below as people call them, where its caller may know."""

    @wraps(handler)
    async def naming(call: Any, postern: Postern) -> Any:
        visit = PageVisit(call, postern)
        named: dict[str, str] = {}
        heads: dict[str, RecordHead] = {}
        for one in things:
            # Whether the thing is gone is for the page to say: a form may have been sent twice.
            with suppress(Forbidden, NotFound):
                found = await one.find(visit)
                if isinstance(found, RecordHead):
                    heads[one.at] = found
                named[one.at] = found.name if isinstance(found, RecordHead) else found
        call.request.named, call.request.heads = named, heads
        answer = handler(call, postern)
        return await answer if inspect.isawaitable(answer) else answer

    return naming


class Console:
    """The pages of the console, and the endpoints that each page offers."""

    def __init__(self) -> None:
        self.offers: dict[str, tuple[Endpoint, ...]] = {}
        """By the page, as `GET /ui/o/{org_slug}/people`."""
        self._rules: dict[str, tuple[CallerRule, ...]] = {}
        self.subjects: list[SubjectPage] = []
        self.unnamed_actions: list[UnnamedAction] = []
        self._things: list[_ThingName] = []

    def name(self, at: str, find: Callable[[PageVisit], Awaitable[str | RecordHead]], *, beneath: str = "") -> None:
        """Pages beneath the thing at this address say its name, and show its head if it has one for all of them. `beneath` is for a thing
        whose own forms find it by themselves.
        """
        self._things.append(_ThingName(f"{beneath or at}/", at, find))

    def asked_for(self, title: str, at: str, rule: CallerRule, position: PagePosition) -> None:
        """A search finds this page by its title, and by the words beside the title."""
        self.subjects.append(SubjectPage(title, at, rule, position))

    def rules_of(self, at: str) -> tuple[CallerRule, ...]:
        """The rules of the page at this address, each of which has to admit whoever opens it. Empty where no page is declared."""
        return self._rules.get(f"GET {at}", ())

    def get(
        self, path: str, *, of: Endpoint | CallerRule, also: Sequence[Endpoint] = (), policy: PagePolicy = WITH_SUGGESTIONS, **stated: Any
    ) -> Callable[[Handler], Endpoint]:
        """A page that shows what the endpoint `of` answers, or the form for it. `also` has further endpoints that the page offers. A page
        that no endpoint stands for names its rule. A page that is nothing without further endpoints names them as `needs`: it opens only
        for those who may call them, and nobody else is led to it.
        """
        return self._declared(page.get, path, of, also, {"limit": PAGE_LOADS, "policy": policy, **stated})

    def post(
        self, path: str, *, of: Endpoint | CallerRule, also: Sequence[Endpoint] = (), policy: PagePolicy = WITH_SUGGESTIONS, **stated: Any
    ) -> Callable[[Handler], Endpoint]:
        """A form that calls the endpoint `of`. An answer without a frame is `framed=False`."""
        limits = of.limits if isinstance(of, Endpoint) else ()
        if isinstance(of, Endpoint) and of.attempt is not None:
            stated["attempt"] = of.attempt
        return self._declared(page.post, path, of, also, {"limit": (PAGE_STEPS, *limits), "policy": policy, "accepts": LONG_FORM, **stated})

    def part(self, path: str, *, of: Endpoint, also: Sequence[Endpoint] = ()) -> Callable[[Handler], Endpoint]:
        """A part of a page, which the page's script asks for again and again: without the frame, so that each time costs the look-up of the
        caller and no more than the part itself asks.
        """
        return self._declared(page.get, path, of, also, {"limit": PAGE_LOADS, "framed": False})

    def _declared(
        self, declare: Any, path: str, of: Endpoint | CallerRule, also: Sequence[Endpoint], stated: dict[str, Any]
    ) -> Callable[[Handler], Endpoint]:
        offered = (of, *also) if isinstance(of, Endpoint) else tuple(also)
        rule = of.caller if isinstance(of, Endpoint) else of
        if isinstance(of, Endpoint):
            stated.setdefault("refuses", of.stated_refusals)
            if of.step_up is not None:
                stated["step_up"] = of.step_up

        needs: Sequence[Endpoint] = stated.pop("needs", ())
        needed = tuple(one.caller for one in needs)
        stated["speaks"] = CONSOLE_LANGUAGES
        is_framed = stated.pop("framed", True)
        kind = kind_offered(of, path) if isinstance(of, Endpoint) else None

        above = [one for one in self._things if f"{path}/".startswith(one.beneath) and path != one.at]

        def declared(handler: Handler) -> Endpoint:
            opened = _needing(handler, needed) if needed else handler
            marked = opened if kind is None else _marked(opened, kind)
            named = _naming(marked, above) if above and is_framed else marked
            shown: Endpoint = declare(path, caller=in_browser(rule), **stated)(_framed(named) if is_framed else named)
            self.offers[str(shown)] = (*offered, *needs)
            self._rules[str(shown)] = (rule, *needed)
            return shown

        return declared


console: Final = Console()


def opens(visit: PageVisit, at: str) -> bool:
    """Whether the caller may open the page at this address, by the page's own rules."""
    rules = console.rules_of(at)
    return bool(rules) and all(admits(rule, visit.call.caller) for rule in rules)


def led_to(visit: PageVisit, at: str, **path: object) -> str:
    """The address of the page, for those who may open it. Empty for others."""
    return visit.here(at, **path) if opens(visit, at) else ""


def offers() -> Mapping[str, tuple[Endpoint, ...]]:
    """The endpoints that each page of the console offers."""
    return console.offers
