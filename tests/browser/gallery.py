"""The states of all pages, served: each under its number and a language, with the policy of a page that has a form and our script."""

import re
from collections.abc import Sequence
from typing import Any, Final, Protocol
from urllib.parse import parse_qs

from core.domain.languages import Language
from entrypoints.http.machinery.answers import PagePolicy, answer_headers
from entrypoints.http.pages.kit import HTML, shipped_pages
from entrypoints.http.pages.kit.declaring import WITH_FORM
from tests.http.running_server import Handler, Receive, Send
from tests.pictures import checked_png

_POLICY: Final[PagePolicy] = WITH_FORM
_ACTS_AT_ONCE: Final = re.compile(rb' data-(?:leave|offered|upgrade)(?:="[^"]*")?')


def place(number: int, language: Language = Language.ENGLISH) -> str:
    return f"/{number}?language={language}"


class Shown(Protocol):
    """What can stand in the gallery."""

    def page(self, language: Language, /) -> bytes: ...


def gallery(states: Sequence[Shown]) -> Handler:
    async def handle(scope: Any, _receive: Receive, send: Send) -> None:
        _, *asset, name = scope["path"].split("/")
        status = 200
        if asset == ["logos"]:
            # A digest says what the picture is like: the height in tens, and a colour.
            content, media_type = checked_png(int(name[:2]) * 10, f"#{name[2:8]}"), "image/png"
        elif asset == [".well-known"]:
            # A browser asks which other sites share our passkeys: none.
            status, content, media_type = 404, b"", HTML
        elif asset:
            found = shipped_pages().asset(asset[-1], name)
            assert found is not None, f"a page asks for {scope['path']}"
            content, media_type = found
        else:
            language = Language(parse_qs(scope["query_string"].decode())["language"][0])
            # The page must stay, so that it can be looked at, and must fetch no challenge.
            content, media_type = _ACTS_AT_ONCE.sub(b"", states[int(name)].page(language)), HTML
        await send({"type": "http.response.start", "status": status, "headers": answer_headers([], media_type.encode(), policy=_POLICY)})
        await send({"type": "http.response.body", "body": content})

    return handle
