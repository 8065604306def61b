"""Compares each answer, and the headers that were read for it, with the published document. Every test that asks the application by
`Client` makes this comparison too.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import lru_cache
from typing import Any, Final

import msgspec

from entrypoints.http.description import openapi
from entrypoints.http.machinery import dispatch
from entrypoints.http.machinery.calls import headers_by_name
from entrypoints.http.machinery.endpoints import Endpoint, Endpoints
from entrypoints.http.machinery.routing import Router
from tests.http.description.schema_check import faults

Json = dict[str, Any]

# Headers that the machinery reads for all endpoints: about the connection, about the browser, and those that the document describes once.
READ_FOR_ALL: Final = frozenset(
    {
        *("x-request-id", "x-forwarded-for", "traceparent", "origin", "access-control-request-method", "sec-fetch-site", "host", "cookie"),
        *("accept", "accept-language", "content-type", "content-length", "user-agent"),
    }
)
# A person's browser tells its device by cookies. On sign-in pages the code also reads the headers by which other clients tell a device.
OF_DEVICES: Final = frozenset({"x-device-token", "x-device-trust-token"})
# Headers of an answer that concern connections, caches and browsers.
SENT_BY_ALL: Final = frozenset(
    {
        *("content-type", "content-length", "content-language", "vary", "content-security-policy", "cross-origin-opener-policy"),
        *("x-content-type-options", "referrer-policy", "permissions-policy", "strict-transport-security"),
        # The scheme `dpop` describes it.
        "dpop-nonce",
        *("access-control-allow-origin", "access-control-allow-credentials", "access-control-expose-headers"),
    }
)

USED: Final[set[tuple[str, str]]] = set()
"""Which endpoint has read or sent which header that its declaration names."""

_reading: ContextVar[set[str] | None] = ContextVar("_reading", default=None)


class _Headers(dict[bytes, bytes]):
    def get(self, name: bytes, default: Any = None) -> Any:
        reading = _reading.get()
        if reading is not None:
            reading.add(name.decode())
        return super().get(name, default)


def _watched(headers: Sequence[tuple[bytes, bytes]]) -> dict[bytes, bytes]:
    return _Headers(headers_by_name(headers))


dispatch.headers_by_name = _watched  # type: ignore[attr-defined]  # it is not the dispatcher's to give


@contextmanager
def reading() -> Iterator[set[str]]:
    """Collects the names of the headers that are read during the block."""
    names: set[str] = set()
    token = _reading.set(names)
    try:
        yield names
    finally:
        _reading.reset(token)


class Described:
    """The endpoints of one application, and their document."""

    def __init__(self, endpoints: Endpoints) -> None:
        self._router = Router((one.method, one.path, one) for one in endpoints)
        self._document: Json = openapi.document(endpoints, base_url="https://id.example.org", version="1.2.3")
        self._schemas = self._document["components"]["schemas"]

    def endpoint(self, method: str, path: str) -> Endpoint | None:
        """The endpoint for this request. None when there is no such endpoint, or when the document does not describe the endpoint."""
        route, _ = self._router.find(path.encode())
        found = None if route is None else route.targets.get(method)
        return found if found is not None and found.tags else None

    def operation(self, one: Endpoint) -> Json:
        operation: Json = self._document["paths"][one.path][one.method.lower()]
        return operation

    def faults(self, one: Endpoint, read: set[str], status: int, headers: Mapping[str, str], body: bytes) -> Iterator[str]:
        operation = self.operation(one)
        yield from (f"reads {name}" for name in sorted(read - _readable(one, operation)))
        told = operation["responses"].get(str(status))
        if told is None and status < 400:
            yield f"answers {status}"
            return
        told = told or operation["responses"]["default"]
        if "$ref" in told:
            told = self._document["components"]["responses"][told["$ref"].rpartition("/")[2]]
        yield from _faults_of_headers(one, status, told.get("headers", {}), headers)
        yield from self._faults_of_body(told.get("content", {}), headers.get("content-type", ""), body)

    def _faults_of_body(self, content: Json, media_type: str, body: bytes) -> Iterator[str]:
        if not body:
            return
        if media_type not in content:
            yield f"answers with {media_type or 'nothing'}"
        elif media_type.endswith("json"):
            yield from faults(msgspec.json.decode(body), content[media_type]["schema"], self._schemas)


def _readable(one: Endpoint, operation: Json) -> frozenset[str]:
    schemes = {name for scheme in operation["security"] for name in scheme}
    by_scheme = {"x-api-key" if name == "api_key" else "authorization" for name in schemes} | ({"dpop"} & schemes)
    return READ_FOR_ALL | by_scheme | {header.name.lower() for header in one.reads} | (OF_DEVICES if one.is_page else frozenset())


def _faults_of_headers(one: Endpoint, status: int, told: Json, headers: Mapping[str, str]) -> Iterator[str]:
    names = {name.lower(): header.get("required", False) for name, header in told.items()}
    sent = set(headers) - SENT_BY_ALL
    if headers.get("cache-control") == "no-store" or status >= 400:
        sent.discard("cache-control")
    if one.is_page:
        sent -= {"set-cookie", *OF_DEVICES}
    if one.path == "/proxy/check" and status == 200:
        # An organization names further headers, by which its application is told who comes.
        sent = {name for name in sent if not name.startswith("x-")} | (sent & set(names))
    yield from (f"sends {name} with {status}" for name in sorted(sent - set(names)))
    yield from (f"lacks {name} with {status}" for name, required in names.items() if required and name not in headers)


@lru_cache(maxsize=8)
def described(endpoints: Endpoints) -> Described:
    return Described(endpoints)


def require_described(endpoints: Endpoints, method: str, path: str, read: set[str], answer: tuple[int, Mapping[str, str], bytes]) -> None:
    if method == "OPTIONS":
        return
    told = described(endpoints)
    one = told.endpoint("GET" if method == "HEAD" else method, path)
    if one is not None:
        status, headers, body = answer
        USED.update((str(one), header.name) for header in one.reads if header.name.lower() in read)
        USED.update((str(one), header.name) for header in one.sends.get(status, ()) if header.name.lower() in headers)
        found = list(told.faults(one, read, status, headers, b"" if method == "HEAD" else body))
        assert not found, f"{one} is not as it is told: {'; '.join(found)}"
