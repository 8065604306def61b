"""Pages as they are shown on another host."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final
from urllib.parse import urlencode

from core.domain.errors import Refusal
from core.domain.identity.browser_sessions import origins
from core.domain.languages import DEFAULT, Language
from core.domain.services.proxies import OWN_PATH
from core.frozen import replace
from entrypoints.http.machinery.answers import Answer
from entrypoints.http.machinery.error_shapes import ErrorShape, Refused
from entrypoints.http.pages import HTML, shipped_pages
from entrypoints.http.pages.declaring import PLAIN, Advised, WayOn, refused_page
from entrypoints.http.pages.refusals import in_words

SIGN_IN_HERE: Final = f"{OWN_PATH}/sign-in"
SIGN_OUT_HERE: Final = f"{OWN_PATH}/sign-out"
_ASSETS: Final = b'="/assets/'
_OWN_ASSETS: Final = b'="' + OWN_PATH.encode() + _ASSETS[2:]


def sign_in_at(place: str) -> str:
    """The address on the application's host that begins a sign-in, and leads back to this path."""
    return f"{SIGN_IN_HERE}?{urlencode({'to': place})}"


def said_here(
    name: str,
    language: Language,
    *,
    good: bool,
    onward: str,
    label: str = "common.continue",
    status: int = 200,
    headers: tuple[tuple[bytes, bytes], ...] = (),
    values: Mapping[str, Any] | None = None,
    frames: Sequence[str] = (),
    beside: bool = False,
) -> Answer[bytes]:
    """The page of an outcome, by the texts `proxied.<name>` and `proxied.<name>_text`. It loads pages of other applications in `frames`,
    and leads on in a new tab `beside` it where that counts.
    """
    pages = shipped_pages()
    text = pages.text(language)
    told = values or {}
    title, explained = text(f"proxied.{name}", **told), text(f"proxied.{name}_text", **told)
    content = pages.said(title, explained, language, good=good, onward=onward, label=text(label), frames=frames, beside=beside)
    policy = replace(PLAIN, frames=origins(frames)) if frames else None
    return Answer(here(content), status, (*headers, (b"content-type", HTML.encode())), policy)


def here(content: bytes) -> bytes:
    return content.replace(_ASSETS, _OWN_ASSETS)


class _RefusedHere:
    """Refusals on the application's host."""

    media_type = HTML
    kind = None

    def value(self, refused: Refused, _at: datetime, language: Language = DEFAULT, request_id: str = "") -> bytes:
        return here(refused_page(refused, Advised("proxied.ask", WayOn("/")), language, request_id))


REFUSED_HERE: Final[ErrorShape] = _RefusedHere()


def words_of(refusal: Refusal, language: Language) -> str:
    return in_words(refusal, shipped_pages().text(language))
