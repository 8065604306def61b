"""The worst text of its size in every text of a request: none costs the process more than 5 milliseconds.

What a text costs is the processor time of the thread that serves everybody, beyond that of the same request with a text of one letter: the
least of five tries, or of thirty on a busy machine.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from math import ceil
from time import process_time, thread_time
from typing import Any, Final
from urllib.parse import quote, urlencode

import msgspec
import pytest

from core.domain.identity.flows import form_token
from core.domain.secrets import Token
from entrypoints.bootstrap import Postern
from entrypoints.http.machinery.accepts import Form, FormOrJson, FormWithFile, ScimJson
from entrypoints.http.machinery.browsers import IN_FLOW
from entrypoints.http.machinery.callers import ANYONE
from entrypoints.http.machinery.endpoints import Endpoint, parameters
from tests.http import conftest as http
from tests.http.client import Client, Pairs
from tests.http.people import BASE_URL, People
from tests.http.signing_in import unlimited
from tests.security.credentials import SET_UP, Kind, Wallet
from tests.security.texts.declared import ALL, DeclaredText, built, declared_texts, texts_of

database_url, postern, people = http.database_url, http.postern, http.people

MOST_MS: Final = 5.0
TRIES: Final = 5
# A busy machine makes single tries longer, and none shorter than its work.
MOST_TRIES: Final = 30
_LARGE: Final = 16 << 10
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


class Cost(msgspec.Struct, frozen=True):
    milliseconds: float
    what: str


class TextWalk:
    """Sends requests with the credentials of whoever may send them."""

    def __init__(self, client: Client, credentials: dict[str, Pairs], renewed: Callable[[str], Awaitable[Pairs]]) -> None:
        self._client = client
        self._credentials = credentials
        self._renewed = renewed
        self.statuses: dict[int, int] = {}

    async def stay_signed_in(self) -> None:
        """Some of what the walk sends signs out."""
        for name, place, good in (("browser", "/ui/profile", 200), ("owner", "/api/user", 200)):
            if (await self._client.get(place, headers=self._credentials[name])).status != good:
                self._credentials[name] = await self._renewed(name)

    def headers(self, one: Endpoint) -> Pairs:
        if one.path.startswith("/ui/setup"):
            return self._credentials["setup"]
        if one.is_page:
            return self._credentials["flow" if one.caller is IN_FLOW else "browser"]
        if one.path.startswith("/scim"):
            return self._credentials["directory"]
        if one.path.startswith(("/oauth", "/auth")):
            return self._credentials["secret-as-password"]
        if one.path.startswith(("/api/service", "/access")):
            return self._credentials["key"]
        return self._credentials["owner"]

    def _token(self, one: Endpoint) -> str:
        (cookie,) = self._cookies(one)[:1] or ("",)
        if one.path.startswith("/ui/setup"):
            return form_token(Token(cookie), "setup")
        return form_token(Token(cookie), "flow " if one.caller is IN_FLOW else "session")

    def _cookies(self, one: Endpoint) -> Sequence[str]:
        return [value.partition("=")[2] for name, value in self.headers(one) if name == "cookie"]

    def request(self, one: Endpoint, text: DeclaredText | None, value: str) -> tuple[str, str, Pairs, bytes]:
        """Method, target, headers and body of the least request in which the text stands."""
        named = {name: _NAMED.get(name, "x") for name in parameters(one.path)}
        query: Any = built(one.query_type, (), "x") if one.query_type is not None else {}
        body: Any = None
        if one.body_type is not None and one.body_type is not bytes:
            body = built(one.body_type, (), "x")
        if text is not None and text.part == "path":
            named[text.steps[0]] = value
        elif text is not None and text.part == "query":
            query = built(one.query_type, text.steps, value)
        elif text is not None:
            body = built(one.body_type, text.steps, value)
        path = one.path
        for name, known in named.items():
            path = path.replace(f"{{{name}}}", quote(known, safe=""))
        target = f"{path}?{urlencode(query, doseq=True)}" if query else path
        headers = list(self.headers(one))
        if one.is_page and one.method != "GET":
            headers += [("origin", BASE_URL), ("sec-fetch-site", "same-origin")]
        return one.method, target, headers, self._encoded(one, text, body, headers)

    def _encoded(self, one: Endpoint, text: DeclaredText | None, body: Any, headers: list[tuple[str, str]]) -> bytes:
        if body is None:
            return b""
        if one.is_page and isinstance(body, dict) and (text is None or text.steps != ("form_token",)):
            body["form_token"] = self._token(one)
        match one.accepts:
            case Form() | FormOrJson():
                headers.append(("content-type", "application/x-www-form-urlencoded"))
                return urlencode(body, doseq=True).encode()
            case FormWithFile():
                headers.append(("content-type", "multipart/form-data; boundary=b"))
                parts = "".join(f'--b\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{value}\r\n' for name, value in body.items())
                return f"{parts}--b--\r\n".encode()
            case ScimJson():
                headers.append(("content-type", "application/scim+json"))
            case _:
                headers.append(("content-type", "application/json"))
        # Raw, as a hostile sender writes it: two bytes a mark, where an escape takes six.
        return msgspec.json.encode(body)

    async def cost(self, request: tuple[str, str, Pairs, bytes]) -> float:
        """In milliseconds: of this thread. One of a few threads reads a large body, in slices between which others work, and may take 5 ms
        for each 100 KB; what it takes beyond counts, too.
        """
        method, target, headers, body = request
        here, everywhere = thread_time(), process_time()
        sent = await self._client._speak(method, target, headers, [body], leaves=False)
        took, in_all = (thread_time() - here) * 1000, (process_time() - everywhere) * 1000
        if len(body) >= _LARGE:
            took = max(took, in_all - MOST_MS * len(body) / 100_000)
        status = sent[0]["status"]
        assert status < 500 or status == 501, (method, target[:200], status)
        self.statuses[status] = self.statuses.get(status, 0) + 1
        return took

    async def least(self, request: tuple[str, str, Pairs, bytes], tries: int = TRIES) -> float:
        return min([await self.cost(request) for _ in range(tries)])

    async def beyond(self, worst_one: tuple[str, str, Pairs, bytes], plain: tuple[str, str, Pairs, bytes]) -> float:
        """What the text costs beyond a text of one letter. Most cost so little that one try tells."""
        if (first := await self.cost(worst_one)) <= MOST_MS:
            return first
        least = min(first, await self.least(worst_one, TRIES - 1))
        least_plain = await self.least(plain)
        for _ in range(MOST_TRIES - TRIES):
            if least - least_plain <= MOST_MS:
                break
            least = min(least, await self.cost(worst_one))
        return least - least_plain


_NAMED: Final[Mapping[str, str]] = {
    "org_slug": "acme",
    "service_slug": "shop",
    "link_id": SET_UP,
    **dict.fromkeys(
        ("user_id", "role_id", "request_id", "key_id", "domain_id", "device_id", "session_id", "passkey_id", "webhook_id"), SET_UP
    ),
}
_FORM_ROOM: Final = 1 << 10
"""What the other fields of a form may take."""


def size_of(text: DeclaredText, one: str) -> int:
    """How many such characters the field takes: those of its bound, as far as the body or the head has room for them."""
    endpoint = text.endpoint
    # Of a sample, whose characters are of several widths.
    is_quoted = text.part != "body" or isinstance(endpoint.accepts, Form | FormOrJson)
    width = ceil(len(quote(one, safe="") if is_quoted else msgspec.json.encode(one)[1:-1]) / len(one))
    room = 15 << 10
    if text.part == "body":
        limit = getattr(endpoint.accepts, "limit", None)
        limit = limit or (8 << 10 if isinstance(endpoint.accepts, Form) else 64 << 10)
        room = max(limit - _FORM_ROOM, 1)
    fitting = room // width
    return fitting if text.longest is None else min(text.longest, fitting)


@pytest.fixture
async def walk(postern: Postern, people: People) -> TextWalk:
    wallet = Wallet(postern, people)

    async def headers(name: str) -> Pairs:
        return await wallet.headers(_KINDS[name])

    # One person for all doors: the owner of the organization also governs the platform.
    people.change("update users set is_platform_owner = true where id = (select user_id from memberships where role = 'owner' limit 1)")
    return TextWalk(unlimited(postern), {name: await headers(name) for name in _KINDS}, headers)


_KINDS: Final[Mapping[str, Kind]] = {
    "owner": Kind("owner in the platform", "o", "p"),
    "browser": Kind("owner in a browser", "o", "p", in_browser=True),
    **{name: Kind(name) for name in ("flow", "setup", "directory", "secret-as-password", "key")},
}


WALKED: Final = [one for one in declared_texts() if one.longest is None or one.longest > 0]


@pytest.mark.parametrize("share", range(SHARES))
async def test_the_worst_text_in_every_field(walk: TextWalk, share: int, capsys: pytest.CaptureFixture[str]) -> None:
    slow: list[str] = []
    sent = 0
    texts = WALKED[share::SHARES]
    for one in texts:
        if one.endpoint.method != "GET":
            await walk.stay_signed_in()
        for name in kinds(one.longest):
            text = worst(name, size_of(one, "".join(MARKS) if name == "marks" else REPEATED[name]))
            request = walk.request(one.endpoint, one, text)
            took = await walk.beyond(request, walk.request(one.endpoint, one, "x"))
            sent += 1
            if took > MOST_MS:
                slow.append(f"{one}: {len(text)} of {name}: {took:.1f} ms")
    with capsys.disabled():
        print(  # noqa: T201 - the figures of the walk
            f"\n{len(texts)} of {len(WALKED)} texts, {sent} requests, by status {dict(sorted(walk.statuses.items()))}"
        )
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

            def with_header(value: str, one: Endpoint = one, name: str = name) -> tuple[str, str, Pairs, bytes]:
                method, target, headers, body = walk.request(one, None, "x")
                return method, target, [*((key, given) for key, given in headers if key != name), (name, value)], body

            took = await walk.beyond(with_header(value), with_header("x"))
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
