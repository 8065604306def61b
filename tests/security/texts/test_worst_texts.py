"""The worst text of its size in every text of a request: none costs the process more than 5 milliseconds.

What a text costs is the processor time of the thread that serves everybody, beyond that of the same request with a text of one letter: the
least of five tries, or of thirty on a busy machine.
"""

from collections.abc import Mapping, Sequence
from functools import partial
from math import ceil
from typing import Final
from urllib.parse import quote

import msgspec
import pytest

from entrypoints.bootstrap import Postern
from entrypoints.http.machinery.accepts import Form, FormOrJson
from entrypoints.http.machinery.callers import ANYONE
from entrypoints.http.machinery.endpoints import Endpoint
from tests.http import conftest as http
from tests.http.people import People
from tests.security.texts.declared import ALL, DeclaredText, built, declared_texts, texts_of
from tests.security.texts.walk import MOST_MS, Request, TextWalk

database_url, postern, people = http.database_url, http.postern, http.people

SHARES: Final = 8
"""The walk's parts, for processes beside each other."""

# Each is repeated, or cut, to the size. The marks stand first, because a text may be cut before it is read.
MARKS: Final = ("\u0344", "\u0f73")
REPEATED: Final[Mapping[str, str]] = {
    "ligatures": "\ufdfa",
    "folding": "\u0390",
    "ideographs": "\u9f98\u9750\u3002",
    "addresses": "a@a.",
    "words": "a-b_c d,",
    "brackets": "[({<\"'\\",
    "links": "https://www.a.",
    "encoded": "=?a?=%25&#",
    "spaces": " \t\u3000",
    "braces": "{a}",
    "digits": "1.1:0/",
    "invisible": "\u202e\u200d",
    "mixed": "\ufdfa\u0390 a@a.[({<\"'\\https://www.=?%25&# \t\u3000{a}1.1:0/a-b_c,\u202e",
}


def kinds(longest: int | None) -> Sequence[str]:
    """What a text of a bound is tried with. A short one has no room for what takes long."""
    if longest is not None and longest <= 200:
        return "marks", "mixed"
    return ("marks", "ligatures", "folding", "addresses", "mixed") if longest is not None and longest <= 2048 else ("marks", *REPEATED)


def worst(kind: str, size: int) -> str:
    """A text of this many characters."""
    if kind == "marks":
        return f"a{MARKS[0] * (size * 3 // 5)}{MARKS[1] * size}"[:size]
    return (REPEATED[kind] * (size // len(REPEATED[kind]) + 1))[:size]


_ROOM_LEFT: Final = 64
"""In bytes, of a body."""


def size_of(text: DeclaredText, one: str, beside: int) -> int:
    """How many such characters the field takes: those of its bound, as far as the body or the head has room for them `beside` the other
    fields.
    """
    endpoint = text.endpoint
    # Of a sample, whose characters are of several widths.
    is_quoted = text.part != "body" or isinstance(endpoint.accepts, Form | FormOrJson)
    width = ceil(len(quote(one, safe="") if is_quoted else msgspec.json.encode(one)[1:-1]) / len(one))
    room = 15 << 10
    if text.part == "body":
        limit = getattr(endpoint.accepts, "limit", None)
        limit = limit or (8 << 10 if isinstance(endpoint.accepts, Form) else 64 << 10)
        room = max(limit - beside - _ROOM_LEFT, 1)
    fitting = room // width
    return fitting if text.longest is None else min(text.longest, fitting)


@pytest.fixture
async def walk(postern: Postern, people: People) -> TextWalk:
    found = TextWalk(postern, people)
    await found.begin()
    return found


MAKES_A_KEY_PAIR: Final = "POST /ui/o/{org_slug}/directories/{provider_id}/connection/certificate body certificate"
"""A field that asks for a new key pair if it is blank. A thread makes that, which takes tens of milliseconds."""
WALKED: Final = [one for one in declared_texts() if one.longest is None or one.longest > 0]


@pytest.mark.parametrize("share", range(SHARES))
async def test_the_worst_text_in_every_field(walk: TextWalk, share: int, capsys: pytest.CaptureFixture[str]) -> None:
    slow: list[str] = []
    sent = 0
    of = {str(one): number % SHARES for number, one in enumerate(ALL)}
    texts = [one for one in WALKED if of[str(one.endpoint)] == share]
    looked_at = None
    for one in texts:
        if one.endpoint.method != "GET":
            await walk.stay_signed_in()
        if one.endpoint is not looked_at:
            looked_at = one.endpoint
            await walk.look_at(looked_at)
        beside = len(walk.request(one.endpoint, one, "y")[3])
        for name in kinds(one.longest):
            if name == "spaces" and str(one) == MAKES_A_KEY_PAIR:
                continue
            text = worst(name, size_of(one, "".join(MARKS) if name == "marks" else REPEATED[name], beside))
            request = walk.request(one.endpoint, one, text)
            took = await walk.beyond(request, partial(walk.request, one.endpoint, one, "y"))
            sent += 1
            if took > MOST_MS:
                slow.append(f"{one}: {len(text)} of {name}: {took:.1f} ms")
    with capsys.disabled():
        print(  # noqa: T201 - the figures of the walk
            f"\n{len(texts)} of {len(WALKED)} texts, {sent} requests, by status {dict(sorted(walk.met.items()))}"
        )
    await walk.require_world()
    assert not slow, "\n".join(slow)


# Read of every request, whatever it asks for.
READ_ALWAYS: Final = (
    *("user-agent", "accept-language", "accept", "cookie", "origin", "referer", "content-type", "x-request-id", "x-forwarded-for"),
    *("authorization", "x-api-key", "if-match", "dpop", "traceparent", "sec-fetch-site", "forwarded", "host"),
)


async def test_the_worst_text_in_every_header_and_cookie(walk: TextWalk) -> None:
    slow = []
    pages = [one for one in ALL if one.path in {"/api/user", "/ui", "/ui/sign-in", "/api/auth/login", "/scim/v2/Users", "/oauth/par"}]
    declared = [(one, header.name.lower()) for one in ALL for header in one.reads]
    cookies = ("postern_session", "postern_flow", "postern_device", "postern_device_trust", "postern_setup", "postern_look")
    tried = [*((one, name) for one in pages for name in READ_ALWAYS), *declared]
    tried += [(one, f"cookie __Host-{name}") for one in pages for name in cookies]
    for one, header in tried:
        name, _, cookie = header.partition(" ")
        for kind in ("marks", *REPEATED):
            # Latin-1 carries the bytes of UTF-8, as many as a head has room for.
            raw = worst(kind, 15 << 10).encode()[: 15 << 10].decode("latin-1")
            value = f"{cookie}={raw}" if cookie else f"Bearer {raw}" if name == "authorization" else raw

            def with_header(value: str, one: Endpoint = one, name: str = name) -> Request:
                method, target, headers, body = walk.request(one, None, "x")
                return method, target, [*((key, given) for key, given in headers if key != name), (name, value)], body

            took = await walk.beyond(with_header(value), partial(with_header, "x"))
            if took > MOST_MS:
                slow.append(f"{one} {header}: {kind}: {took:.1f} ms")
    assert len(tried) > 100
    assert not slow, "\n".join(slow)


def test_the_walk_reaches_what_it_walks() -> None:
    """A field that stands nowhere in its own request would make the walk blind."""
    for one in declared_texts():
        kind = {"path": one.endpoint.path_type, "query": one.endpoint.query_type, "body": one.endpoint.body_type}[one.part]
        assert "WORST" in msgspec.json.encode(built(kind, one.steps, "WORST")).decode(), one
    assert sum(1 for _ in texts_of(next(one for one in ALL if one.caller is ANYONE and one.path == "/api/auth/login"))) > 2
