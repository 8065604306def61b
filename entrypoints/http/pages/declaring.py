"""Pages are declared as endpoints are, with `page.get` and `page.post`: who may call, the limits, the fields of link and form, and what the
page itself may run and load. A page's refusals are pages, too.
"""

from collections.abc import Callable
from datetime import datetime
from typing import Final, Required, TypedDict

from typing_extensions import Unpack

from core.domain.errors import NotFound, Refusal
from core.domain.rate_limits import RateLimit
from entrypoints.http.machinery.accepts import Form
from entrypoints.http.machinery.callers import CallerRule
from entrypoints.http.machinery.endpoints import Endpoint, Handler, Statement, declare
from entrypoints.http.machinery.error_shapes import ErrorShape, Refused, message_of
from entrypoints.http.machinery.errors import NotAsDeclared, status_of
from entrypoints.http.machinery.headers import SELF, PagePolicy
from entrypoints.http.pages import HTML, shipped_pages

Advice = Callable[[Refused], str]

PLAIN: Final = PagePolicy()
"""A page to read: it loads our styles and images, and has no script and no form."""
WITH_FORM: Final = PagePolicy(form_action=(SELF,))
"""A page whose form is sent back to us."""

_FOR_NOW: Final = frozenset({429, 500, 503})


class PageStatement(TypedDict, total=False):
    """What a declaration says besides method and path."""

    caller: Required[CallerRule]
    limit: Required[RateLimit | tuple[RateLimit, ...]]
    """`PAGE_LOADS` for a page that looks something up, `UNLIMITED` for one that is always the same; for a form, the
    limit of what it tries.
    """
    policy: PagePolicy
    """What the page may run, load and send; `PLAIN` by default."""
    advice: Advice
    """What a person can do about a refusal; empty when there is nothing to say."""
    accepts: Form
    """The kind of form, where 8 KiB or 20 fields are not enough."""
    refuses: tuple[type[Refusal], ...]
    tags: tuple[str, ...]
    """Only for a page that is part of the API: its chapter in the description."""


class PageErrors:
    """Tells a refusal as a page."""

    media_type = HTML
    kind = None

    def __init__(self, advice: Advice) -> None:
        self._advice = advice

    def value(self, refused: Refused, _at: datetime) -> bytes:
        text = "Please try again later." if status_of(refused) in _FOR_NOW else self._advice(refused)
        return shipped_pages().outcome(_title(refused), text, good=False)


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
    }
    return declare(method, path, statement, stated.get("policy", PLAIN))


def _no_advice(_refused: Refused) -> str:
    return ""


def _title(refused: Refused) -> str:
    kind = refused if isinstance(refused, type) else type(refused)
    if issubclass(kind, NotAsDeclared):
        # The message names a field, which means nothing to a person.
        return "This link or form is not complete"
    if kind is NotFound and message_of(refused) == NotFound.text:
        return "There is no page at this address"
    return message_of(refused)


page: Final = DeclarePage()
NO_SUCH_PAGE: Final[ErrorShape] = PageErrors(lambda _: "Your mail program may have cut the link off: copy all of it.")
