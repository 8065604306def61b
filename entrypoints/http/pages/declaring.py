"""Pages are declared as endpoints are, with `page.get` and `page.post`: who may call, the limits, the fields of link and form, and what the
page itself may run and load. A page's refusals are pages, too.
"""

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, Final, NamedTuple, Required, TypedDict

from typing_extensions import Unpack

from core.domain.errors import MethodNotAllowed, Refusal, SecondFactorRequired
from core.domain.identity.flows import FlowOver
from core.domain.identity.proofs import StepUp
from core.domain.languages import DEFAULT, Language
from core.domain.rate_limits import RateLimit
from entrypoints.http.machinery.accepts import Accepts, Form
from entrypoints.http.machinery.browsers import HOME, SECOND_FACTOR, SIGN_IN, PageOutOfDate
from entrypoints.http.machinery.callers import CallerRule
from entrypoints.http.machinery.endpoints import Endpoint, Handler, Statement, declare
from entrypoints.http.machinery.error_shapes import ErrorShape, Refused
from entrypoints.http.machinery.errors import status_of
from entrypoints.http.machinery.headers import SELF, PagePolicy
from entrypoints.http.pages import HTML, shipped_pages
from entrypoints.http.pages.refusals import in_words


class WayOn(NamedTuple):
    """A button that leads on from a page that cannot."""

    place: str
    label: str = "common.continue"
    """The key of its text."""


class Advised(NamedTuple):
    text: str = ""
    """The key of the text."""
    onward: WayOn | None = None
    names_request: bool = False
    """The text names the request, by the id that it has in the log: `{request}`."""


TO_SIGN_IN: Final = WayOn(SIGN_IN, "password.sign_in")
TO_ACCOUNT: Final = WayOn(HOME, "common.to_account")
"""Whoever is not signed in is asked to on the way."""

Advice = Callable[[Refused], str | Advised]
"""A text without a way says where the person goes on: with the application that sent them, or with somebody else."""

PLAIN: Final = PagePolicy()
"""A page to read: it loads our styles and images, and has no script and no form."""
WITH_FORM: Final = PagePolicy(scripts=(SELF,), form_action=(SELF,))
"""A page whose form is sent back to us. Our script adds comfort to it."""

IN_POPUP: Final = PagePolicy(scripts=(SELF,), form_action=(SELF,), opener="unsafe-none")
"""The same for a page between an application and its answer. The application may have opened it in a pop-up, which must stay in reach of
the window that opened it.
"""

WITH_PASSKEYS: Final = PagePolicy(scripts=(SELF,), connections=(SELF,), form_action=(SELF,))
"""`WITH_FORM`, for a page whose script asks us for a challenge."""

IN_POPUP_WITH_PASSKEYS: Final = PagePolicy(scripts=(SELF,), connections=(SELF,), form_action=(SELF,), opener="unsafe-none")

_SET_UP_FIRST: Final = Advised("two_step.required_advice", WayOn(SECOND_FACTOR))
_FOR_NOW: Final = frozenset({429, 500, 503})
_LATER: Final = Advised("common.later")
_ONLY_FOR_FORMS: Final = Advised("refusals.method_not_allowed_advice", TO_ACCOUNT)


class PageStatement(TypedDict, total=False):
    """What a declaration says besides method and path."""

    caller: Required[CallerRule]
    limit: Required[RateLimit | tuple[RateLimit, ...]]
    """`PAGE_LOADS` for a page that looks something up, `UNLIMITED` for one that is always the same; for a form, the
    limit of what it tries.
    """
    attempt: RateLimit
    """For a form with which somebody may guess: only its failures count."""
    step_up: StepUp
    """For a page that needs a fresh proof: it is asked for on a page of its own, which leads back to this address."""
    policy: PagePolicy
    """What the page may run, load and send; `PLAIN` by default."""
    advice: Advice
    """What a person can do about a refusal: the key of its text, and the way on. Empty when there is nothing to say: then it leads to the
    account.
    """
    accepts: Accepts
    """The kind of form, where 8 KiB or 20 fields are not enough."""
    foreign: bool
    """Other sites may send the form, since a protocol wants it so; then the page must change nothing. Otherwise the form must be ours."""
    refuses: tuple[type[Refusal], ...]
    translated: bool
    """True by default: the page speaks its reader's language."""
    status: int
    """Of the answer to a form that always leads elsewhere."""
    also: Mapping[int, Any]
    """Other statuses that are no refusals, for a page that is described."""
    tags: tuple[str, ...]
    """Only for a page that is part of the API: its chapter in the description."""


class PageErrors:
    """Tells a refusal as a page."""

    media_type = HTML
    kind = None

    def __init__(self, advice: Advice) -> None:
        self._advice = advice

    def value(self, refused: Refused, _at: datetime, language: Language = DEFAULT, request_id: str = "") -> bytes:
        return refused_page(refused, self._advised(refused), language, request_id)

    def _advised(self, refused: Refused) -> Advised:
        if isinstance(refused, FlowOver | PageOutOfDate):
            return _stale(refused)
        if isinstance(refused, SecondFactorRequired):
            return _SET_UP_FIRST
        if status_of(refused) in _FOR_NOW:
            return _LATER
        if isinstance(refused, MethodNotAllowed):
            return _ONLY_FOR_FORMS
        advised = self._advice(refused)
        if isinstance(advised, Advised):
            return advised
        return Advised(advised, None if advised else TO_ACCOUNT)


def _stale(refused: FlowOver | PageOutOfDate) -> Advised:
    if isinstance(refused, PageOutOfDate) and refused.place:
        return Advised("stale.again", WayOn(refused.place))
    return Advised("stale.text", WayOn(SIGN_IN))


def refused_page(refused: Refused, advised: Advised, language: Language, request_id: str = "") -> bytes:
    text = shipped_pages().text(language)
    onward, label = ("", "") if advised.onward is None else (advised.onward.place, text(advised.onward.label))
    named = {"request": request_id} if advised.names_request else {}
    explained = text(advised.text, **named) if advised.text else ""
    return shipped_pages().said(in_words(refused, text), explained, language, good=False, onward=onward, label=label)


class DeclarePage:
    """`@page.get("/ui/reset-password", caller=ANYONE, limit=PAGE_LOADS)`: makes a page of the handler below it, which answers with HTML."""

    def get(self, path: str, **stated: Unpack[PageStatement]) -> Callable[[Handler], Endpoint]:
        return _declare("GET", path, stated)

    def post(self, path: str, **stated: Unpack[PageStatement]) -> Callable[[Handler], Endpoint]:
        """The body is a form, which must come from our own page (`own_forms.py`)."""
        return _declare("POST", path, stated)


def _declare(method: str, path: str, stated: PageStatement) -> Callable[[Handler], Endpoint]:
    statement: Statement = {
        "caller": stated["caller"],
        "limit": stated["limit"],
        "accepts": stated.get("accepts", Form()),
        "errors": PageErrors(stated.get("advice", _no_advice)),
        "refuses": stated.get("refuses", ()),
        "produces": HTML,
        "tags": stated.get("tags", ()),
        "translated": stated.get("translated", True),
        "foreign": stated.get("foreign", False),
        "status": stated.get("status", 200),
        "also": stated.get("also", {}),
    }
    if "attempt" in stated:
        statement["attempt"] = stated["attempt"]
    if "step_up" in stated:
        statement["step_up"] = stated["step_up"]
    return declare(method, path, statement, stated.get("policy", PLAIN))


def _no_advice(_refused: Refused) -> str:
    return ""


page: Final = DeclarePage()
NO_SUCH_PAGE: Final[ErrorShape] = PageErrors(lambda _: Advised("refusals.no_such_page_advice", TO_ACCOUNT))
