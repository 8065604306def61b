"""The way of a request through a declared endpoint, straight from the server's ASGI call: find the route, hold the limits, admit the
caller, decode, handle, encode. What is not declared goes to the pages, which are Quart's.

No task, no nursery and no middleware on the way; constant parts of an answer are made at the start.
"""

import logging
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextvars import ContextVar
from time import perf_counter
from typing import Any, Final, Protocol

import msgspec
import structlog
import trio
from structlog.contextvars import STRUCTLOG_KEY_PREFIX

from adapters.postgres.driver import RoundTrips, round_trips
from core.domain.errors import MethodNotAllowed, NotFound, Overloaded, Refusal, Unavailable
from entrypoints.http.addresses import ClientAddresses
from entrypoints.http.answers import Answer, NoBody
from entrypoints.http.callers import ANYONE
from entrypoints.http.calls import GONE, REQUEST_IN_SCOPE, Call, Request, RequestServices, headers_by_name
from entrypoints.http.cors import CrossOrigin
from entrypoints.http.decoding import BodyReader, ClientGone, QueryReader, Receive, convert
from entrypoints.http.endpoints import Endpoint
from entrypoints.http.errors import BodyTimeout, ErrorBody, headers_of, refusal_of, status_of
from entrypoints.http.headers import JSON, HeaderList, api_headers
from entrypoints.http.limits import Limiter
from entrypoints.http.routing import Route, Router

Send = Callable[[Any], Awaitable[None]]
Answered = tuple[int, HeaderList, bytes]

_METHODS: Final = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
_OTHER_METHOD: Final = "OTHER"
_BODILESS: Final = frozenset({204, 304})
# In seconds: a body that takes longer was not sent in one go with its head.
_PROMPT: Final = 0.1
_REQUEST_ID: Final = re.compile(rb"[A-Za-z0-9._-]{1,128}")
# What structlog's `merge_contextvars` adds to every line of this request; `bind_contextvars` does the same at seven times the cost.
_logged_request_id: Final[ContextVar[str]] = ContextVar(f"{STRUCTLOG_KEY_PREFIX}request_id")
_encode: Final = msgspec.json.Encoder().encode


class Pages(Protocol):
    """What is not a declared endpoint."""

    def find(self, path: str) -> tuple[str, tuple[str, ...]] | None:
        """The page's path template and its methods. None when there is no such page."""

    async def serve(self, scope: Any, receive: Receive, send: Send) -> None: ...


class Dispatcher:
    def __init__(
        self,
        endpoints: Sequence[Endpoint],
        services: RequestServices,
        pages: Pages,
        *,
        addresses: ClientAddresses,
        cross_origin: CrossOrigin,
        limiter: Limiter | None,
        common_headers: HeaderList,
        body_limit: int,
        deadline: float,
        most_requests: int,
    ) -> None:
        self._services = services
        self._metrics = services.metrics
        self._pages = pages
        self._addresses = addresses
        self._cross_origin = cross_origin
        self._limiter = limiter
        self._deadline = deadline
        self._most_requests = most_requests
        self._in_flight = 0
        self._error_headers = api_headers(common_headers, JSON)
        self._bodiless_headers = api_headers(common_headers, None)
        self._router = Router((one.method, one.path, _Target(one, common_headers, body_limit)) for one in endpoints)
        # The level does not change while we run: a line that would be filtered out is not even put together.
        self._log = structlog.get_logger().bind()
        self._logs_requests = self._log.is_enabled_for(logging.INFO)
        self._logs_probes = self._log.is_enabled_for(logging.DEBUG)

    async def __call__(self, scope: Any, receive: Receive, send: Send) -> None:
        started = perf_counter()
        self._metrics.request_started()
        self._in_flight += 1
        request = self._request(scope)
        log_token = _logged_request_id.set(request.id)
        trips_token = round_trips.set(RoundTrips()) if self._logs_requests else None
        try:
            await self._serve(request, scope, receive, send)
        finally:
            self._in_flight -= 1
            seconds = perf_counter() - started
            method = request.method if request.method in _METHODS else _OTHER_METHOD
            self._metrics.request_finished(method, request.template, request.status, seconds)
            if self._logs_probes if request.quiet else self._logs_requests:
                self._log_request(request, seconds)
            if trips_token is not None:
                round_trips.reset(trips_token)
            _logged_request_id.reset(log_token)

    def _request(self, scope: Any) -> Request:
        headers = headers_by_name(scope["headers"])
        request = Request(scope["method"], scope["path"], scope["query_string"], headers)
        given = headers.get(b"x-request-id")
        if given is not None and _REQUEST_ID.fullmatch(given):
            request.id = given.decode("ascii")
        else:
            request.id = str(self._services.ids.new())
        client = scope.get("client")
        request.client_address = self._addresses.of(client[0] if client else None, headers.get(b"x-forwarded-for"))
        return request

    async def _serve(self, request: Request, scope: Any, receive: Receive, send: Send) -> None:
        route, values = self._router.find(scope.get("raw_path") or scope["path"].encode())
        try:
            if route is None:
                answered = await self._page(request, scope, receive, send)
            else:
                request.template = route.template
                answered = await self._endpoint(route, request, values, receive)
        except ClientGone:
            return
        except Exception as error:
            answered = self._refused(error)
            if request.status != GONE:
                raise  # An answer has begun: all that is left is to break it off, which is the server's to do.
        if answered is not None:
            await self._send(request, answered, send)

    async def _send(self, request: Request, answered: Answered, send: Send) -> None:
        request.status, headers, body = answered
        if self._cross_origin.enabled:
            headers += self._cross_origin.headers(request.header(b"origin"))
        headers.append((b"x-request-id", request.id.encode()))
        if request.status not in _BODILESS:
            request.size = len(body)
            headers.append((b"content-length", b"%d" % request.size))
        await send({"type": "http.response.start", "status": request.status, "headers": headers})
        await send({"type": "http.response.body", "body": b"" if request.method == "HEAD" else body, "more_body": False})

    async def _endpoint(self, route: "Route[_Target]", request: Request, values: Mapping[str, str], receive: Receive) -> Answered:
        target = route.targets.get(request.method)
        if target is None:
            return self._without_target(request, route.allowed)
        request.quiet = target.endpoint.quiet
        if target.immediate:
            return target.answered(target.endpoint.handler(Call(request, None, None, None, None), self._services))
        return await self._answer(target, request, values, receive)

    def _without_target(self, request: Request, allowed: tuple[str, ...]) -> Answered:
        """The path is known, the method is not one of its own."""
        if request.method != "OPTIONS":
            raise MethodNotAllowed(allowed)
        methods = ", ".join(allowed).encode()
        headers = [*self._bodiless_headers, (b"allow", methods)]
        if request.header(b"access-control-request-method") is not None:
            headers += self._cross_origin.preflight_headers(request.header(b"origin"), methods)
        return 204, headers, b""

    async def _answer(self, target: "_Target", request: Request, values: Mapping[str, str], receive: Receive) -> Answered:
        endpoint = target.endpoint
        if self._in_flight > self._most_requests and not endpoint.quiet:
            raise Overloaded(retry_after=1, detail="too many requests in flight")
        reading = False
        with trio.move_on_after(self._deadline) as scope:
            if endpoint.limits and self._limiter is not None:
                await self._limiter.admit(endpoint.limits, request.client_address)
            request.path_values = values
            caller = await endpoint.caller.admit(request, self._services)
            query = target.query.read(request.query_string) if target.query is not None else None
            path = target.path_values(values)
            body = None
            if target.body is not None:
                reading = True
                began = trio.current_time()
                sent = await target.body.read(request, receive)
                reading = False
                if trio.current_time() - began > _PROMPT:
                    # They were let in that long ago, and who sends slowly chooses how long. What ended meanwhile has ended for them too.
                    caller = await endpoint.caller.admit(request, self._services)
                body = target.body.decode(sent)
            result = endpoint.handler(Call(request, caller, body, query, path), self._services)
            if target.waits:
                result = await result
            return target.answered(result)
        assert scope.cancelled_caught  # noqa: S101 - for the type checker: every other way out returned or raised
        if reading:
            raise BodyTimeout
        raise Unavailable(retry_after=1, detail=f"{endpoint} took longer than {self._deadline} s")

    def _refused(self, error: Exception) -> Answered:
        refusal = refusal_of(error)
        return status_of(refusal), [*self._error_headers, *headers_of(refusal)], self.error_body(refusal)

    def error_body(self, refusal: Refusal) -> bytes:
        return _encode(ErrorBody(refusal.message, refusal.code, self._services.clock.now()))

    async def _page(self, request: Request, scope: Any, receive: Receive, send: Send) -> Answered | None:
        """None when the page has answered."""
        found = self._pages.find(scope["path"])
        if found is None:
            raise NotFound
        request.template, allowed = found
        if request.method not in allowed or request.method == "OPTIONS":
            return self._without_target(request, allowed)
        sending = _PageSend(request, send, [*self._bodiless_headers, (b"x-request-id", request.id.encode())])
        with trio.move_on_after(self._deadline) as deadline:
            await self._pages.serve({**scope, REQUEST_IN_SCOPE: request}, receive, sending)
        if deadline.cancelled_caught and request.status == GONE:
            raise Unavailable(retry_after=1, detail="a page took too long")
        return None

    def _log_request(self, request: Request, seconds: float) -> None:
        fields: dict[str, Any] = {}
        if request.caller is not None:
            fields["user"] = str(request.caller.user)
        trips = round_trips.get()
        if trips is not None:
            fields["db_round_trips"] = trips.count
        line = self._log.debug if request.quiet else self._log.info
        line(
            "request",
            method=request.method,
            route=request.template,
            status=request.status,
            duration_ms=round(seconds * 1000, 2),
            bytes=request.size,
            client=request.client_address,
            **fields,
        )


class _Target:
    """An endpoint with all that can be made of it beforehand."""

    def __init__(self, endpoint: Endpoint, common_headers: HeaderList, body_limit: int) -> None:
        self.endpoint = endpoint
        self.waits = endpoint.waits
        self.body = BodyReader(endpoint.body_type, endpoint.body_limit or body_limit) if endpoint.body_type is not None else None
        self.query = QueryReader(endpoint.query_type) if endpoint.query_type is not None else None
        # Nothing to wait for, nobody to admit, nothing to decode: neither deadline nor task switch.
        self.immediate = not (
            endpoint.waits
            or endpoint.limits
            or endpoint.caller is not ANYONE
            or endpoint.body_type
            or endpoint.query_type
            or endpoint.path_type
        )
        self._headers = api_headers(common_headers, endpoint.produces.encode(), endpoint.cache)
        self._bodiless_headers = api_headers(common_headers, None, endpoint.cache)
        self._uncached_headers = api_headers(common_headers, endpoint.produces.encode())

    def path_values(self, values: Mapping[str, str]) -> Any:
        """A segment that is not of its declared type names nothing that exists."""
        if self.endpoint.path_type is None:
            return None
        try:
            return convert(values, self.endpoint.path_type)
        except Refusal:
            raise NotFound from None

    def answered(self, result: Any) -> Answered:
        status = self.endpoint.status
        extra: Sequence[tuple[bytes, bytes]] = ()
        if isinstance(result, Answer):
            status, extra, result = result.status, result.headers, result.value
        if isinstance(result, NoBody) or status in _BODILESS:
            return status, [*self._bodiless_headers, *extra], b""
        body = result if isinstance(result, bytes) else _encode(result)
        return status, [*(self._headers if status < 400 else self._uncached_headers), *extra], body


class _PageSend:
    """Adds to a page's answer what every answer carries, and notes what the log wants to know."""

    def __init__(self, request: Request, send: Send, headers: HeaderList) -> None:
        self._request = request
        self._send = send
        self._headers = headers

    async def __call__(self, message: Any) -> None:
        if message["type"] == "http.response.start":
            self._request.status = message["status"]
            given = list(message["headers"])
            names = {name.lower() for name, _ in given}
            message = {**message, "headers": [*given, *(one for one in self._headers if one[0] not in names)]}
        else:
            if self._request.method == "HEAD":
                message = {**message, "body": b""}
            self._request.size += len(message.get("body", b""))
        await self._send(message)
