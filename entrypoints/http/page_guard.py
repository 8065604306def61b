"""What stands between a browser and every built-in page that does something: refusals become pages, a form must be our own, and no address
guesses at links without end. And the fields of links and forms, read at a cost that is bounded.
"""

from collections.abc import Awaitable, Callable, Mapping
from typing import Final
from urllib.parse import parse_qsl

from quart import Response, request
from werkzeug.exceptions import HTTPException
from werkzeug.wrappers import Response as PlainResponse

from core.domain.errors import BadRequest, Forbidden, Refusal
from entrypoints.http.calls import REQUEST_IN_SCOPE, Request
from entrypoints.http.errors import headers_of, refusal_of, status_of
from entrypoints.http.limits import AUTH, Limiter
from entrypoints.http.pages import Pages

View = Callable[[], Awaitable[Response | PlainResponse]]

LONGEST_FORM: Final = 8 << 10
"""In bytes: twice what two of the longest passwords need with a token, every byte of them percent-encoded."""
# Ours have three. Some programs that look at a mail's links add some of their own.
_MOST_FIELDS: Final = 20
_FOR_NOW: Final = frozenset({429, 500, 503})


class PageGuard:
    def __init__(self, pages: Pages, limiter: Limiter | None, origin: str) -> None:
        self._pages = pages
        self._limiter = limiter
        self._origin = origin

    def guarded(self, view: View, advice: Callable[[Refusal], str]) -> View:
        """`advice` says what a person can do about a refusal; empty when there is nothing to say."""

        async def guarded() -> Response | PlainResponse:
            try:
                if request.method == "POST":
                    require_own_form(asked(), self._origin)
                if self._limiter is not None:
                    await self._limiter.admit((AUTH,), asked().client_address)
                return await view()
            except HTTPException:
                raise  # too long, too slow, no form: the application answers those as everywhere
            except Exception as error:  # noqa: BLE001 - a person gets a page whatever went wrong; `refusal_of` logs what is a fault
                refusal = refusal_of(error)
                return self._refused(refusal, advice(refusal))

        return guarded

    def _refused(self, refusal: Refusal, advice: str) -> Response:
        status = status_of(refusal)
        text = "Please try again later." if status in _FOR_NOW else advice
        page = self._pages.page("outcome.html", status=status, title=refusal.message, text=text, good=False, onward="")
        for name, value in headers_of(refusal):
            page.headers[name.decode()] = value.decode()
        return page


def asked() -> Request:
    """The request that this page answers, as the machinery sees it."""
    found: Request = request.scope[REQUEST_IN_SCOPE]  # type: ignore[typeddict-item]  # the dispatcher's own addition
    return found


def link_fields() -> Mapping[str, str]:
    return _fields(asked().query_string)


async def form_fields() -> Mapping[str, str]:
    """None of what is no form. Quart would make objects of all the fields that somebody sends, and of a form's parts, before we see one."""
    if request.mimetype != "application/x-www-form-urlencoded":
        return {}
    return _fields(await request.get_data(cache=True, as_text=False, parse_form_data=False))


def _fields(encoded: bytes) -> Mapping[str, str]:
    """The first of those with one name. What cannot be decoded is a U+FFFD."""
    try:
        pairs = parse_qsl(encoded.decode("ascii"), keep_blank_values=True, errors="replace", max_num_fields=_MOST_FIELDS)
    except ValueError:  # too many, or not ASCII, which browsers encode
        raise BadRequest("This is not what our own page sends") from None
    return dict(reversed(pairs))


def require_own_form(asked: Request, origin: str) -> None:
    """A form of ours, not one that another site has sent in somebody's name. Browsers say where a form comes from: `Sec-Fetch-Site`, over
    https at least, and `Origin`, which our referrer policy makes `null`. Where they say neither, the form's token, which is in the mail
    alone, has to be enough.
    """
    site = asked.header(b"sec-fetch-site")
    given = asked.header(b"origin")
    own = given in {None, b"null", origin.encode()} if site is None else site == b"same-origin"
    if not own:
        raise Forbidden("This form was not sent from our own page")
