"""`page.get` and `page.post` declare pages as endpoints are declared: the callers, the limits, the fields of link and form, and the policy
of scripts and sources. A page's refusals are pages, too.
"""

from collections.abc import Callable, Mapping
from datetime import datetime
from math import ceil
from typing import Any, Final, NamedTuple, Required, TypedDict
from urllib.parse import urlencode

from typing_extensions import Unpack

from core.domain.branding import POSTERN
from core.domain.errors import MethodNotAllowed, NotFound, RateLimited, Refusal, SecondFactorRequired, TermsRequired
from core.domain.identity.flows import FlowOver
from core.domain.identity.proofs import StepUp
from core.domain.identity.registering import MailsHeldBack
from core.domain.identity.risk_policies.verdicts import KeptOut
from core.domain.languages import DEFAULT, Language
from core.domain.rate_limits import RateLimit
from entrypoints.http.machinery.accepts import Accepts, Form
from entrypoints.http.machinery.answers import SELF, PagePolicy
from entrypoints.http.machinery.browsers import ACCOUNTS, HOME, SECOND_FACTOR, SIGN_IN, TERMS, OtherAccount, PageOutOfDate
from entrypoints.http.machinery.callers import CallerRule
from entrypoints.http.machinery.endpoints import Endpoint, Handler, Statement, declare
from entrypoints.http.machinery.errors import ErrorShape, NotAsDeclared, Refused, message_of, status_of
from entrypoints.http.pages.kit import HTML, shipped_pages
from ports.texts import Text


class WayOn(NamedTuple):
    """A button on a page that leads no further by itself, such as a refusal."""

    place: str
    label: str = "common.continue"
    """The text key of the button."""


class Advised(NamedTuple):
    text: str = ""
    """The text key of the advice."""
    onward: WayOn | None = None
    names_request: bool = False
    """Whether the text names the request by its id in the log: `{request}`."""


TO_SIGN_IN: Final = WayOn(SIGN_IN, "password.sign_in")
TO_ACCOUNT: Final = WayOn(HOME, "common.to_account")
"""A person who is not signed in meets the sign-in page on the way."""
TO_CONFIRM_ADDRESS: Final = WayOn("/ui/confirm-address", "confirm_address.page")
"""For people whose address only a directory has vouched for."""

Advice = Callable[[Refused], str | Advised]
"""The advice for a refusal. A text without a button tells the person where to go on: at the application that sent them, or with somebody's
help.
"""

PLAIN: Final = PagePolicy()
"""A page to read: it loads our styles and images, and has no script and no form."""
WITH_FORM: Final = PagePolicy(scripts=(SELF,), form_action=(SELF,))
"""A page with a form that is sent to us. Our script only adds comfort."""

WITH_SUGGESTIONS: Final = PagePolicy(scripts=(SELF,), connections=(SELF,), form_action=(SELF,))
"""`WITH_FORM`, for a page whose script asks us what somebody who types may look for."""

IN_POPUP: Final = PagePolicy(scripts=(SELF,), form_action=(SELF,), opener="unsafe-none")
"""The policy of a page between an application and its answer, otherwise like `WITH_FORM`. The application may have opened the page in a
pop-up, and the window of the application must be able to reach it.
"""

WITH_PASSKEYS: Final = PagePolicy(scripts=(SELF,), connections=(SELF,), form_action=(SELF,))
"""`WITH_FORM`, for a page whose script asks us for a challenge."""

ASKS_AGAIN: Final = WITH_PASSKEYS
"""`WITH_FORM`, for a page whose script asks us how things stand by now."""

IN_POPUP_WITH_PASSKEYS: Final = PagePolicy(scripts=(SELF,), connections=(SELF,), form_action=(SELF,), opener="unsafe-none")

IN_POPUP_WITH_PUZZLE: Final = PagePolicy(scripts=(SELF,), workers=(SELF,), form_action=(SELF,), opener="unsafe-none")
"""`IN_POPUP`, for a page that may ask for a puzzle: a worker of our own script computes it."""

IN_POPUP_WITH_BOTH: Final = PagePolicy(scripts=(SELF,), connections=(SELF,), workers=(SELF,), form_action=(SELF,), opener="unsafe-none")
"""`IN_POPUP_WITH_PUZZLE`, for an address that may also answer with the page that takes passkeys."""

_SET_UP_FIRST: Final = Advised("two_step.required_advice", WayOn(SECOND_FACTOR))
_ACCEPT_FIRST: Final = Advised("terms.advice", WayOn(TERMS, "terms.page"))
# A refusal of too many requests itself says when to try again.
_FOR_NOW: Final = {429: Advised("", TO_ACCOUNT), 500: Advised("common.later", TO_ACCOUNT), 503: Advised("common.later", TO_ACCOUNT)}
_ONLY_FOR_FORMS: Final = Advised("refusals.method_not_allowed_advice", TO_ACCOUNT)


class PageStatement(TypedDict, total=False):
    """The parts of a declaration besides method and path."""

    caller: Required[CallerRule]
    limit: Required[RateLimit | tuple[RateLimit, ...]]
    """`PAGE_LOADS` for a page that looks something up; `UNLIMITED` for a page that is always the same; for a form, the limit of the thing
    that it tries.
    """
    attempt: RateLimit
    """For a form that allows guessing: only its failures count."""
    step_up: StepUp
    """For a page that needs a fresh proof. A page of its own asks for the proof, and leads back to this address."""
    policy: PagePolicy
    """The scripts, sources and forms that the page may use; `PLAIN` by default."""
    advice: Advice
    """The advice about a refusal: a text key and a button. If empty, the page of the refusal has a button that leads to the account pages.
    """
    accepts: Accepts
    """The kind of form, if it needs more than 8 KiB or 20 fields."""
    foreign: bool
    """Whether other sites may send the form, as a protocol requires; then the handler must change nothing. Otherwise the form must be ours.
    """
    refuses: tuple[type[Refusal], ...]
    speaks: tuple[Language, ...]
    """The languages of the page, where it has not all of ours."""
    translated: bool
    """Whether the page is in its reader's language; true by default."""
    status: int
    """The status of the answer to a form that always leads elsewhere."""
    also: Mapping[int, Any]
    """Further statuses that are no refusals, for a page in the API description."""
    tags: tuple[str, ...]
    """The page's chapter in the API description, only for a page that is part of the API."""


class PageErrors:
    """Answers refusals with pages."""

    media_type = HTML
    kind = None

    def __init__(self, advice: Advice) -> None:
        self._advice = advice

    def value(self, refused: Refused, _at: datetime, language: Language = DEFAULT, request_id: str = "") -> bytes:
        return refused_page(refused, self._advised(refused), language, request_id)

    def _advised(self, refused: Refused) -> Advised:
        if isinstance(refused, FlowOver | PageOutOfDate | OtherAccount):
            return _stale(refused)
        if isinstance(refused, KeptOut | SecondFactorRequired | TermsRequired):
            return _closed(refused)
        if for_now := _FOR_NOW.get(status_of(refused)):
            return for_now
        if isinstance(refused, MethodNotAllowed):
            return _ONLY_FOR_FORMS
        advised = self._advice(refused)
        if isinstance(advised, Advised):
            return advised
        return Advised(advised, None if advised else TO_ACCOUNT)


def _stale(refused: FlowOver | PageOutOfDate | OtherAccount) -> Advised:
    if isinstance(refused, OtherAccount):
        return Advised("accounts.changed", WayOn(f"{ACCOUNTS}?{urlencode({'to': refused.place})}", "accounts.choose"))
    if isinstance(refused, PageOutOfDate) and refused.place:
        return Advised("stale.again", WayOn(refused.place))
    return Advised("stale.text", WayOn(SIGN_IN))


def _closed(refused: KeptOut | SecondFactorRequired | TermsRequired) -> Advised:
    if isinstance(refused, KeptOut):
        return Advised("risk_rules.kept_out", WayOn(f"/ui/organizations/{refused.slug}/risk-rules", "risk_rules.title"))
    return _ACCEPT_FIRST if isinstance(refused, TermsRequired) else _SET_UP_FIRST


def in_words(refused: Refused, text: Text) -> str:
    """The text of a refusal on a page, in the reader's language."""
    kind = refused if isinstance(refused, type) else type(refused)
    if issubclass(kind, NotAsDeclared):
        # The message names a field of the API, which means nothing to a person.
        return text("refusals.not_as_declared")
    if kind is NotFound and message_of(refused) == NotFound.text:
        return text("refusals.no_such_page")
    if isinstance(refused, RateLimited):
        minutes = max(1, ceil(refused.retry_after / 60))
        if isinstance(refused, MailsHeldBack):
            return text("refusals.mails_held_back", count=minutes)
        return text("refusals.rate_limited", count=minutes)
    if isinstance(refused, type):
        return text(f"refusals.{refused.code.lower()}")
    return text(f"refusals.{refused.words}", **refused.values)


def refused_page(refused: Refused, advised: Advised, language: Language, request_id: str = "") -> bytes:
    text = shipped_pages().text(language)
    onward, label = ("", "") if advised.onward is None else (advised.onward.place, text(advised.onward.label))
    named = {"request": request_id} if advised.names_request else {}
    explained = shipped_pages().paragraphs(advised.text, language, POSTERN, **named) if advised.text else ""
    # Whoever asks for help names the request, and an operator finds its story in the log.
    request = request_id if status_of(refused) in _FOR_NOW else ""
    return shipped_pages().said(in_words(refused, text), explained, language, good=False, onward=onward, label=label, request=request)


class DeclarePage:
    """`@page.get("/ui/reset-password", caller=ANYONE, limit=PAGE_LOADS)` turns the handler below it into a page. The handler answers with
    HTML.
    """

    def get(self, path: str, **stated: Unpack[PageStatement]) -> Callable[[Handler], Endpoint]:
        return _declare("GET", path, stated)

    def post(self, path: str, **stated: Unpack[PageStatement]) -> Callable[[Handler], Endpoint]:
        """The body is a form, and it must come from our own page (`machinery/browser_cookies.py`)."""
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
        "speaks": stated.get("speaks", ()),
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
