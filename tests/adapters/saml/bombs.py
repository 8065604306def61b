"""Documents that cost minutes, gigabytes or files of the machine where they are read carelessly."""

import time
import zlib
from base64 import b64encode
from collections.abc import Awaitable, Callable
from typing import Final
from urllib.parse import urlencode

from tests.http.client import Received

_LAUGHS: Final = "".join(f'<!ENTITY a{one} "{f"&a{one - 1};" * 10}">' for one in range(1, 10))
_ENTITIES: Final = f'<!DOCTYPE r [<!ENTITY a0 "lol">{_LAUGHS}]>'
_BLOWN_UP: Final = f'<!DOCTYPE r [<!ENTITY a0 "{"x" * 50_000}">]>'
_FILE: Final = '<!DOCTYPE r [<!ENTITY a9 SYSTEM "file:///etc/passwd">]>'
_ELSEWHERE: Final = '<!DOCTYPE r [<!ENTITY % d SYSTEM "http://127.0.0.1:9/evil.dtd"> %d;]>'


def _inside(document: str, more: str) -> str:
    """The document with this before the end of its root."""
    body, closing, name = document.rpartition("</")
    return f"{body}{more}{closing}{name}"


# How a document is spoiled.
BOMBS: Final[dict[str, Callable[[str], str]]] = {
    "entities within entities": lambda document: _ENTITIES + _inside(document, "<a>&a9;</a>"),
    "one entity many times": lambda document: _BLOWN_UP + _inside(document, f"<a>{'&a0;' * 1_000}</a>"),
    "a file": lambda document: _FILE + _inside(document, "<a>&a9;</a>"),
    "a document type of somewhere else": lambda document: _ELSEWHERE + document,
    "a document type alone": lambda document: "<!DOCTYPE r>" + document,
    "ten thousand elements": lambda document: _inside(document, "<a/>" * 10_000),
    "elements within elements": lambda document: _inside(document, "<a>" * 5_000 + "</a>" * 5_000),
    "thousands of attributes": lambda document: _inside(document, "<a " + " ".join(f"b{one}=''" for one in range(6_000)) + "/>"),
}


def in_address(document: str, name: str = "SAMLRequest") -> str:
    packing = zlib.compressobj(9, zlib.DEFLATED, -15)
    return urlencode({name: b64encode(packing.compress(document.encode()) + packing.flush()).decode()})


def packed_zeros(name: str = "SAMLRequest") -> str:
    """Twenty megabytes in twenty kilobytes."""
    return in_address(f"<a>{' ' * (20 << 20)}</a>", name)


# Metadata of a federation are as large as these, so they are read, and what is no part of them is left out.
LARGE: Final = ("ten thousand elements", "thousands of attributes")


async def refused(ask: Callable[[], Awaitable[Received]]) -> None:
    assert (await bounded(ask)).status in {400, 413}


async def bounded(ask: Callable[[], Awaitable[Received]]) -> Received:
    """The answer, which costs little and tells nothing. Measures processor time, since a busy machine must not fail the test."""
    began = time.process_time()
    answer = await ask()
    took = time.process_time() - began
    assert b"root:" not in answer.body
    assert b"lollol" not in answer.body
    assert took < 1
    return answer
