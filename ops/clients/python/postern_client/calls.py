"""How a call becomes a request, and when it is tried again."""

from __future__ import annotations

import json
import time
from base64 import b64encode
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime
from itertools import count
from types import TracebackType
from typing import Any, ClassVar, Literal, Protocol, Self, TypeVar, cast
from urllib.parse import quote, quote_plus, urlencode

import anyio
import httpx

from .failures import ApiError, NotReached, TimedOut, UnexpectedAnswer
from .records import UNSET, decode, encode

T = TypeVar("T")
Page = TypeVar("Page")
Item = TypeVar("Item")
Token = str | Callable[[], str]
Prove = Callable[[str, str, str | None], str]
Credential = Literal["token", "bound_token", "api_key", "client"]

# What may be sent twice: the second time changes nothing more.
_REPEATABLE = frozenset({"GET", "PUT", "DELETE"})
_TRY_LATER = frozenset({429, 503})


def path(template: str, *parts: str) -> str:
    for part in parts:
        # A URL is normalized on its way: `..` would name another endpoint.
        if part in {"", ".", ".."}:
            raise ValueError(f"{part!r} cannot be a part of a path")
    return template.format(*(quote(part, safe="") for part in parts))


@dataclass(frozen=True, kw_only=True)
class Call:
    method: str
    path: str
    credentials: Sequence[Credential] = ()
    """What the operation takes, the first that the client has."""
    query: Mapping[str, object] = field(default_factory=dict)
    headers: Mapping[str, object] = field(default_factory=dict)
    body: Mapping[str, object] | None = None
    is_form: bool = False
    may_be_empty: bool = False
    content: bytes | None = None
    content_type: str = "application/json"

    def encoded(self) -> tuple[bytes | None, str]:
        """The body, and its type."""
        if self.body is None:
            return self.content, self.content_type
        if self.is_form:
            return _pairs(self.body).encode(), "application/x-www-form-urlencoded"
        body = encode(self.body)
        return None if not body and self.may_be_empty else json.dumps(body).encode(), "application/json"


class _Connection:
    """What the blocking client and the asynchronous one have in common."""

    _errors: ClassVar[Mapping[str, type[ApiError]]] = {}
    _user_agent: ClassVar[str] = "postern-client"

    def __init__(
        self,
        base_url: str,
        *,
        token: Token | None = None,
        api_key: str | None = None,
        client: tuple[str, str] | None = None,
        prove: Prove | None = None,
        timeout: float = 30,
        retries: int = 2,
        longest_wait: float = 30,
    ) -> None:
        self._base_url = base_url.rstrip("/")
        self._token, self._api_key, self._client, self._prove = token, api_key, client, prove
        self._timeout, self._retries, self._longest_wait = timeout, retries, longest_wait

    def _request(self, call: Call) -> httpx.Request:
        content, content_type = call.encoded()
        address = f"{self._base_url}{call.path}"
        headers = {"Accept": "application/json", "User-Agent": self._user_agent, **self._credential(call, address)}
        if self._prove is not None and "DPoP" in call.headers:
            headers["DPoP"] = self._prove(call.method, address, None)
        headers |= {name: str(value) for name, value in call.headers.items() if value is not UNSET}
        if content is not None:
            headers["Content-Type"] = content_type
        query = _pairs(call.query)
        url = f"{address}{'?' if query else ''}{query}"
        return httpx.Request(
            call.method, url, headers=headers, content=content, extensions={"timeout": httpx.Timeout(self._timeout).as_dict()}
        )

    def _credential(self, call: Call, address: str) -> Mapping[str, str]:
        for one in call.credentials:
            if one == "token" and self._token is not None:
                token = self._token if isinstance(self._token, str) else self._token()
                if self._prove is None or "bound_token" not in call.credentials:
                    return {"Authorization": f"Bearer {token}"}
                return {"Authorization": f"DPoP {token}", "DPoP": self._prove(call.method, address, token)}
            if one == "api_key" and self._api_key is not None:
                return {"X-Api-Key": self._api_key}
            if one == "client" and self._client is not None:
                pair = ":".join(quote_plus(part) for part in self._client)
                return {"Authorization": f"Basic {b64encode(pair.encode()).decode()}"}
        return {}

    def _wait(self, call: Call, response: httpx.Response, tries: int) -> float | None:
        """The seconds before the next try. None if there is none."""
        wait = _retry_after(response)
        if response.status_code not in _TRY_LATER or call.method not in _REPEATABLE or tries > self._retries:
            return None
        return wait if wait is not None and wait <= self._longest_wait else None

    def _read(self, response: httpx.Response, answer: Any) -> Any:
        if not response.is_success:
            raise self._refusal(response)
        if answer is None:
            return None
        if answer is str:
            return response.text
        try:
            return decode(answer, response.json())
        except (ValueError, TypeError) as error:
            raise UnexpectedAnswer(f"{response.status_code} {response.headers.get('Content-Type', 'of no type')}: {error}") from error

    def _refusal(self, response: httpx.Response) -> ApiError:
        try:
            told = response.json()
        except ValueError:
            told = {}
        body: dict[str, Any] = told if isinstance(told, dict) else {}
        code = str(body.get("error_code", ""))
        return self._errors.get(code, ApiError)(
            str(body.get("error_description") or body.get("error") or response.reason_phrase),
            status=response.status_code,
            code=code,
            retry_after=_retry_after(response),
            request_id=response.headers.get("X-Request-Id"),
            body=body,
        )


def _pairs(values: Mapping[str, object]) -> str:
    """As in a query or a form, where nothing is null. A list is its name once for each value."""
    given = [(name, one) for name, value in values.items() for one in (value if isinstance(value, list) else [value])]
    return urlencode([(name, _in_text(one)) for name, one in given if one is not UNSET and one is not None])


def _in_text(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return value.isoformat() if isinstance(value, datetime | date) else str(value)


def _retry_after(response: httpx.Response) -> float | None:
    told = response.headers.get("Retry-After", "")
    return float(told) if told.isdecimal() else None


class Caller(_Connection):
    """Calls that block. It may be shared between threads."""

    def __init__(
        self,
        base_url: str,
        *,
        token: Token | None = None,
        api_key: str | None = None,
        client: tuple[str, str] | None = None,
        prove: Prove | None = None,
        timeout: float = 30,
        retries: int = 2,
        longest_wait: float = 30,
        http: httpx.Client | None = None,
    ) -> None:
        """`token` is an access token or a management key, or what gives one; `api_key` is a service's; `client` are a service's id and
        secret. A call sends what its operation takes. `prove` makes a proof of your key (DPoP) for a method, an address and a token: then
        `token` is bound to the key, and so are the tokens that you ask for. `timeout`, `longest_wait` are seconds. `http` is a client of
        yours, with proxies or certificates; you close it.
        """
        super().__init__(
            base_url, token=token, api_key=api_key, client=client, prove=prove, timeout=timeout, retries=retries, longest_wait=longest_wait
        )
        self._http = http or httpx.Client()
        self._closes = http is None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, raised: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        if self._closes:
            self._http.close()

    def _call(self, call: Call, answer: type[T]) -> T:
        return cast("T", self._done(call, answer))

    def _do(self, call: Call) -> None:
        self._done(call, None)

    def _done(self, call: Call, answer: Any) -> Any:
        for tries in count(1):
            try:
                response = self._http.send(self._request(call), follow_redirects=False)
            except httpx.TimeoutException as error:
                raise TimedOut(f"{call.method} {call.path}: no answer in {self._timeout} s") from error
            except httpx.TransportError as error:
                raise NotReached(f"{call.method} {call.path}: {error}") from error
            wait = self._wait(call, response, tries)
            if wait is None:
                return self._read(response, answer)
            time.sleep(wait)
        raise AssertionError


class AsyncCaller(_Connection):
    """Calls for asyncio and Trio."""

    def __init__(
        self,
        base_url: str,
        *,
        token: Token | None = None,
        api_key: str | None = None,
        client: tuple[str, str] | None = None,
        prove: Prove | None = None,
        timeout: float = 30,
        retries: int = 2,
        longest_wait: float = 30,
        http: httpx.AsyncClient | None = None,
    ) -> None:
        """As of `Postern`; `http` is an asynchronous client of yours."""
        super().__init__(
            base_url, token=token, api_key=api_key, client=client, prove=prove, timeout=timeout, retries=retries, longest_wait=longest_wait
        )
        self._http = http or httpx.AsyncClient()
        self._closes = http is None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, raised: BaseException | None, trace: TracebackType | None) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        if self._closes:
            await self._http.aclose()

    async def _call(self, call: Call, answer: type[T]) -> T:
        return cast("T", await self._done(call, answer))

    async def _do(self, call: Call) -> None:
        await self._done(call, None)

    async def _done(self, call: Call, answer: Any) -> Any:
        for tries in count(1):
            try:
                response = await self._http.send(self._request(call), follow_redirects=False)
            except httpx.TimeoutException as error:
                raise TimedOut(f"{call.method} {call.path}: no answer in {self._timeout} s") from error
            except httpx.TransportError as error:
                raise NotReached(f"{call.method} {call.path}: {error}") from error
            wait = self._wait(call, response, tries)
            if wait is None:
                return self._read(response, answer)
            await anyio.sleep(wait)
        raise AssertionError


class HasNext(Protocol):
    @property
    def next(self) -> str | None: ...


Following = TypeVar("Following", bound=HasNext)


def by_after(fetch: Callable[[str | None], Following], items: Callable[[Following], Sequence[Item]]) -> Iterator[Item]:
    after: str | None = None
    while True:
        page = fetch(after)
        yield from items(page)
        after = page.next
        if after is None:
            return


def by_number(fetch: Callable[[int], Page], items: Callable[[Page], Sequence[Item]], *, first: int, step: int, size: int) -> Iterator[Item]:
    """Pages by their number, or by the number of their first entry. The last page is not full."""
    for number in count(first, step):
        page = items(fetch(number))
        yield from page
        if len(page) < size:
            return


async def by_after_async(
    fetch: Callable[[str | None], Awaitable[Following]], items: Callable[[Following], Sequence[Item]]
) -> AsyncIterator[Item]:
    after: str | None = None
    while True:
        page = await fetch(after)
        for item in items(page):
            yield item
        after = page.next
        if after is None:
            return


async def by_number_async(
    fetch: Callable[[int], Awaitable[Page]], items: Callable[[Page], Sequence[Item]], *, first: int, step: int, size: int
) -> AsyncIterator[Item]:
    for number in count(first, step):
        page = items(await fetch(number))
        for item in page:
            yield item
        if len(page) < size:
            return
