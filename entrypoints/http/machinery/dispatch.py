"""Serves a request by its declared endpoint: routes, limits, admits the caller, decodes, handles and encodes."""

import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import aclosing
from functools import partial
from time import perf_counter
from typing import Any, Final

import msgspec
import trio

from core.domain import causes
from core.domain.errors import MethodNotAllowed, NotFound, Overloaded, ReauthenticationRequired, Refusal, Unavailable
from core.domain.federation.scim.resources import BASE_PATH
from entrypoints.bootstrap import Postern
from entrypoints.http.machinery.addresses import ClientAddresses
from entrypoints.http.machinery.answers import (
    FOR_ALL,
    WITH_CREDENTIALS,
    Answer,
    CrossOrigin,
    HeaderList,
    NoBody,
    Origins,
    PagePolicy,
    SeeOther,
    Streamed,
    answer_headers,
    for_origin,
    language_headers,
    permission,
)
from entrypoints.http.machinery.browser_cookies import require_own_form
from entrypoints.http.machinery.browsers import BindsForms, prove_first, require_bound_form
from entrypoints.http.machinery.callers import ANYONE, shows_management_key
from entrypoints.http.machinery.calls import Call, Request, headers_by_name, nothing
from entrypoints.http.machinery.decoding import ClientGone, LinkReader, QueryReader, ReadByPage, Receive, beside_the_loop, convert
from entrypoints.http.machinery.endpoints import Endpoint
from entrypoints.http.machinery.errors import OURS, SCIM, BodyTimeout, Refusing, refusal_of
from entrypoints.http.machinery.limits import UNBOUNDED_WORK, Limiter, Work
from entrypoints.http.machinery.routing import Route, Router
from entrypoints.http.machinery.step_up import require_fresh_proof
from entrypoints.http.request_spans import RequestSpans
from entrypoints.http.server.protocol import FINISH
from entrypoints.logs import RequestLog

Send = Callable[[Any], Awaitable[None]]
Answered = tuple[int, HeaderList, bytes | Streamed[Any]]

_METHODS: Final = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
_OTHER_METHOD: Final = "OTHER"
_BODILESS: Final = frozenset({204, 304})
# In seconds. A client whose body takes longer did not send its body together with the headers.
_PROMPT: Final = 0.1
_OF_DIRECTORIES: Final = f"{BASE_PATH}/"
_REQUEST_ID: Final = re.compile(rb"[A-Za-z0-9._-]{1,128}")
_encode: Final = msgspec.json.Encoder().encode


class Dispatcher:
    """It is called straight by the server's ASGI call: a request needs no task, nursery or middleware of its own. The constant parts of a
    response are made at the start of the process.
    """

    def __init__(
        self,
        routes: "Routes",
        postern: Postern,
        *,
        people: Refusing,
        origin: str,
        addresses: ClientAddresses,
        cross_origin: CrossOrigin,
        limiter: Limiter | None,
        deadline: float,
        most_requests: int,
        spans: RequestSpans | None = None,
    ) -> None:
        self._spans = spans
        self._postern = postern
        self._metrics = postern.foundation.metrics
        self._hook_waits = postern.foundation.hook_waits
        self._people = people
        self._addresses = addresses
        self._cross_origin = cross_origin
        self._limiter = limiter
        self._deadline = deadline
        self._work = Work(most_requests)
        self._origin = origin
        self._programs = Refusing(OURS, routes.common_headers)
        self._directories = Refusing(SCIM, routes.common_headers)
        self._bodiless_headers = answer_headers(routes.common_headers, None)
        self._router = routes.router
        self._origins = routes.origins
        self._log = RequestLog()

    async def __call__(self, scope: Any, receive: Receive, send: Send) -> None:
        request = self.begin(scope)
        try:
            await self._send(request, await self.answer(request, scope, receive), send)
        except ClientGone:
            pass
        finally:
            self.end(request)

    def begin(self, scope: Any) -> Request:
        """Between `begin` and `end`, the metrics count the request as running, and every log line has the request's id."""
        self._metrics.request_started()
        request = self._request(scope)
        request.begun = causes.begin(request.cause)
        if self._spans is not None:
            peer = scope.get("client")
            self._spans.begin(request, peer[0] if peer else None)
        if self._log.tells_requests:
            request.trips = self._postern.foundation.database.count_round_trips()
        return request

    def end(self, request: Request) -> None:
        seconds = perf_counter() - request.began
        # The objective for sign-ins is about our own time.
        waited = self._hook_waits.taken(request.cause)
        method = request.method if request.method in _METHODS else _OTHER_METHOD
        self._metrics.request_finished(method, request.template, request.status, max(seconds - waited, 0.0))
        if self._log.tells_probes if request.quiet else self._log.tells_requests:
            self._log_request(request, seconds, waited)
        if request.trips is not None:
            request.trips.stop()
        if self._spans is not None:
            self._spans.end(request, method)
        if request.begun is not None:
            causes.end(request.begun)

    def _request(self, scope: Any) -> Request:
        headers = headers_by_name(scope["headers"])
        request = Request(scope["method"], scope["path"], scope["query_string"], headers)
        given = headers.get(b"x-request-id")
        if given is not None and _REQUEST_ID.fullmatch(given):
            request.id = given.decode("ascii")
            request.cause = causes.named_by_client(self._postern.foundation.ids.new(), request.id)
        else:
            request.id = request.cause = str(self._postern.foundation.ids.new())
        request.finish = scope["extensions"].get(FINISH, nothing)
        client = scope.get("client")
        request.client_address = self._addresses.of(client[0] if client else None, headers.get(b"x-forwarded-for"))
        return request

    async def answer(self, request: Request, scope: Any, receive: Receive) -> Answered:
        """Raises only `ClientGone` and cancellations."""
        route, values = self._router.find(scope.get("raw_path") or scope["path"].encode())
        refusal: Refusal | None = None
        try:
            if route is None:
                raise NotFound  # noqa: TRY301 - refused below, like every other refusal
            request.template = route.template
            answered = await self._endpoint(route, request, values, receive)
        except ClientGone:
            raise
        except SeeOther as elsewhere:
            answered = 303, [*self._bodiless_headers, (b"location", elsewhere.place.encode())], b""
        except Exception as error:  # noqa: BLE001 - every failure gets an answer; `refusal_of` logs faults
            refusal = refusal_of(error, self._postern.foundation.database)
            answered = self._refused(refusal, request, route)
        if request.tell is not None:
            request.tell(answered[0], refusal)
        origins = self._origins.get(request.template)
        if origins is not None:
            answered = await self._for_origins(origins, request, answered)
        elif self._cross_origin.enabled:
            answered = self._for_listed_origins(request, answered)
        return self._completed(request, answered)

    def fault(self, request: Request, error: Exception) -> Answered:
        """The answer to a request that failed before the call of `answer`."""
        refusal = refusal_of(error, self._postern.foundation.database)
        return self._completed(request, self._refused(refusal, request, None))

    def _for_listed_origins(self, request: Request, answered: Answered) -> Answered:
        status, headers, body = answered
        return status, [*headers, *self._cross_origin.headers(request.header(b"origin"))], body

    async def _for_origins(self, origins: Origins, request: Request, answered: Answered) -> Answered:
        """Add the CORS headers to an answer, a refusal or a preflight answer of an endpoint that applications in browsers call."""
        origin = request.header(b"origin")
        if origins is Origins.ALL:
            allowed = FOR_ALL
        elif origin is None:
            return self._for_listed_origins(request, answered)
        elif origins is Origins.CLIENTS_WITH_CREDENTIALS and await self._is_of_a_client(origin):
            # Of a registered application, also if the operator lists the origin: no list gives credentials.
            allowed = [*for_origin(origin), *WITH_CREDENTIALS]
        elif self._cross_origin.lists(origin) or not await self._is_of_a_program(origin):
            return self._for_listed_origins(request, answered)
        else:
            allowed = for_origin(origin)
        status, headers, body = answered
        if request.method == "OPTIONS" and request.header(b"access-control-request-method") is not None:
            allowed = [*allowed, *permission(dict(headers)[b"allow"])]
        return status, [*headers, *allowed], body

    async def _is_of_a_program(self, origin: bytes) -> bool:
        """Whether the origin belongs to a public web client, or may be that of a program on a device that registers itself."""
        return self._postern.federation.open_registrations.is_origin(origin) or await self._is_of_a_client(origin)

    async def _is_of_a_client(self, origin: bytes) -> bool:
        """Whether the origin belongs to a public web client. False while the database is away."""
        try:
            return await self._postern.federation.client_origins.includes(origin.decode("latin-1"))
        except (Unavailable, Overloaded):
            return False

    def _completed(self, request: Request, answered: Answered) -> Answered:
        """Add the headers that depend on the request and on the body."""
        request.status, headers, body = answered
        headers += request.handed_over
        headers.append((b"x-request-id", request.id.encode()))
        if request.status not in _BODILESS and not isinstance(body, Streamed):
            request.size = len(body)
            headers.append((b"content-length", b"%d" % request.size))
        return request.status, headers, body

    async def _send(self, request: Request, answered: Answered, send: Send) -> None:
        status, headers, body = answered
        if isinstance(body, Streamed):
            await self._stream(request, headers, body, send)
            return
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": b"" if request.method == "HEAD" else body, "more_body": False})

    async def _stream(self, request: Request, headers: HeaderList, body: Streamed[Any], send: Send) -> None:
        """Send an answer in parts. The generator makes a part only after the client has read the part before."""
        await send({"type": "http.response.start", "status": request.status, "headers": headers})
        async with aclosing(body.parts) as parts:
            if request.method != "HEAD":
                async for part in parts:
                    request.size += len(part)
                    await send({"type": "http.response.body", "body": part, "more_body": True})
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _endpoint(self, route: "Route[_Target]", request: Request, values: Mapping[str, str], receive: Receive) -> Answered:
        target = route.targets.get(request.method)
        if target is None:
            return self._without_target(request, route.allowed)
        request.quiet = target.endpoint.quiet
        request.spoken = target.endpoint.speaks
        if target.immediate:
            return target.answered(target.endpoint.handler(Call(request, None, None, None, None), self._postern), request)
        return await self._answer(target, request, values, receive)

    def _without_target(self, request: Request, allowed: tuple[str, ...]) -> Answered:
        """The answer when the path exists, but has no handler for this method."""
        if request.method != "OPTIONS":
            raise MethodNotAllowed(allowed)
        methods = ", ".join(allowed).encode()
        headers = [*self._bodiless_headers, (b"allow", methods)]
        if request.header(b"access-control-request-method") is not None:
            headers += self._cross_origin.preflight_headers(request.header(b"origin"), methods)
        return 204, headers, b""

    async def _answer(self, target: "_Target", request: Request, values: Mapping[str, str], receive: Receive) -> Answered:
        endpoint = target.endpoint
        # Probes get an answer even while the process is overloaded.
        work = UNBOUNDED_WORK if endpoint.quiet else self._work
        reading = False
        with trio.CancelScope(relative_deadline=self._deadline) as scope:
            with work:
                if target.takes_own_form:
                    require_own_form(request, self._origin)
                if endpoint.limits and self._limiter is not None:
                    await self._limiter.admit(endpoint.limits, request.client_address)
                request.path_values = values
                request.limiter = self._limiter
                caller = await self._admit(endpoint, request)
                query = target.query.read(request.query_string) if target.query is not None else None
                path = target.path_values(values)
                if target.body is None:
                    return await self._handled(target, Call(request, caller, None, query, path))
            # While a client sends its body slowly, the request does not count as work.
            reading = True
            began = trio.current_time()
            sent = await target.body.read(request, receive)
            reading = False
            if request.tell is not None:
                request.body = sent
            with work:
                if trio.current_time() - began > _PROMPT:
                    # The rule admitted the caller before the body arrived, and a slow sender can delay the body. So the rule admits the
                    # caller once more: a session that has ended meanwhile must not serve this request.
                    caller = await self._admit(endpoint, request)
                body = await beside_the_loop(partial(target.body.decode, sent), sent)
                if target.binds_forms is not None:
                    require_bound_form(target.binds_forms, request, self._postern, body, below=target.below)
                return await self._handled(target, Call(request, caller, body, query, path))
        assert scope.cancelled_caught  # noqa: S101 - for the type checker: every other way out returned or raised
        if reading:
            raise BodyTimeout
        raise Unavailable(retry_after=1, detail=f"{endpoint} took longer than {self._deadline} s")

    async def _handled(self, target: "_Target", call: Call[Any, Any, Any, Any]) -> Answered:
        limit = target.endpoint.attempt
        if limit is None or self._limiter is None:
            return await self._result(target, call)
        async with self._limiter.attempt(limit, call.request.client_address) as succeed:
            answered = await self._result(target, call)
            if answered[0] < 400:
                succeed()
        return answered

    async def _result(self, target: "_Target", call: Call[Any, Any, Any, Any]) -> Answered:
        result = target.endpoint.handler(call, self._postern)
        if target.waits:
            result = await result
        return target.answered(result, call.request)

    async def _admit(self, endpoint: Endpoint, request: Request) -> Any:
        if endpoint.keys is not None and shows_management_key(request):
            # No fresh proof is asked of a key: the capabilities of an endpoint that needs one stand for the proof.
            return await endpoint.keys.admit(request, self._postern)
        caller = await endpoint.caller.admit(request, self._postern)
        if endpoint.step_up is not None:
            try:
                await require_fresh_proof(request, self._postern, endpoint.step_up)
            except ReauthenticationRequired:
                if endpoint.is_page:
                    raise prove_first(request, endpoint.step_up) from None
                raise
        return caller

    def _refused(self, refusal: Refusal, request: Request, route: "Route[_Target] | None") -> Answered:
        target = route.targets.get(request.method) if route is not None else None
        refusing = target.refusing if target is not None else self._without_route(request)
        return refusing.answered(refusal, self._postern.foundation.clock.now(), request)

    def _without_route(self, request: Request) -> Refusing:
        """The shape of a 404: a page for people, JSON for programs."""
        if f"{request.path}/".startswith(_OF_DIRECTORIES):
            return self._directories
        return self._people if _is_for_people(request) else self._programs

    def _log_request(self, request: Request, seconds: float, waited: float) -> None:
        fields: dict[str, Any] = {
            "method": request.method,
            "route": request.template,
            "status": request.status,
            "duration_ms": round(seconds * 1000, 2),
            "bytes": request.size,
            "client": request.client_address,
        }
        if waited:
            fields["hooks_ms"] = round(waited * 1000, 2)
        if request.caller is not None:
            fields["user"] = str(request.caller.user)
        if request.client_id is not None:
            fields["client_id"] = request.client_id
        if request.acted_for is not None:
            fields |= {"user": str(request.acted_for), "agent": request.client_id}
        if request.acting_key is not None:
            fields[f"{request.acting_key.kind}_id"] = str(request.acting_key.id)
        if request.id is not request.cause:
            fields["given_request_id"] = request.id
        if request.trips is not None:
            fields["db_round_trips"] = request.trips.count
        self._log.tell(fields, is_probe=request.quiet)


class _Target:
    """An endpoint, with all parts of its answers that do not depend on the request."""

    def __init__(self, endpoint: Endpoint, common_headers: HeaderList, body_limit: int, below: int) -> None:
        self.endpoint = endpoint
        self.below = below
        self.waits = endpoint.waits
        self.body = endpoint.accepts.reader(endpoint.body_type, body_limit) if endpoint.body_type is not None else None
        self.query = _query_reader(endpoint)
        self.takes_own_form = endpoint.is_page and endpoint.method != "GET" and not endpoint.foreign
        self.binds_forms = endpoint.caller if self.takes_own_form and isinstance(endpoint.caller, BindsForms) else None
        # An immediate endpoint waits for nothing, admits everybody and decodes nothing. It needs neither a deadline nor a task switch.
        self.immediate = not (
            endpoint.waits
            or endpoint.limits
            or endpoint.caller is not ANYONE
            or endpoint.body_type
            or endpoint.query_type
            or endpoint.path_type
            or self.takes_own_form
        )
        policy, scheme = endpoint.policy, endpoint.caller.scheme
        self._common_headers = common_headers
        self._headers = answer_headers(common_headers, endpoint.produces.encode(), endpoint.cache, policy=policy)
        self._bodiless_headers = answer_headers(common_headers, None, endpoint.cache, policy=policy)
        self._uncached_headers = answer_headers(common_headers, endpoint.produces.encode(), policy=policy)
        self.refusing = Refusing(endpoint.errors, common_headers, policy, b"Bearer" if scheme is None else scheme.challenge)

    def path_values(self, values: Mapping[str, str]) -> Any:
        """The values of the path's parameters, in their declared types. Raises `NotFound` for a value that does not fit its type, because
        no such resource can exist.
        """
        if self.endpoint.path_type is None:
            return None
        try:
            return convert(values, self.endpoint.path_type)
        except Refusal:
            raise NotFound from None

    def answered(self, result: Any, request: Request) -> Answered:
        status = self.endpoint.status
        extra: Sequence[tuple[bytes, bytes]] = ()
        if isinstance(result, Answer):
            if result.policy is not None:
                return self._answered_under(result.policy, Answer(result.value, result.status, result.headers), request)
            status, extra, result = result.status, result.headers, result.value
        if isinstance(result, NoBody) or status in _BODILESS:
            return status, [*self._bodiless_headers, *extra], b""
        body = result if isinstance(result, bytes | Streamed) else _encode(result)
        if self.endpoint.translated:
            extra = (*extra, *language_headers(body, request.language))
        if extra and any(name == b"content-type" for name, _ in extra):
            return status, [*self._bodiless_headers, *extra], body
        return status, [*(self._headers if status < 400 else self._uncached_headers), *extra], body

    def _answered_under(self, policy: PagePolicy, result: Answer[Any], request: Request) -> Answered:
        """Such a policy may name addresses of tenants, so its headers are shared with no other answer."""
        status, headers, body = self.answered(result, request)
        own = {b"content-security-policy": policy.content_security, b"cross-origin-opener-policy": policy.opener.encode()}
        return status, [(name, own.get(name, value)) for name, value in headers], body


def _query_reader(endpoint: Endpoint) -> LinkReader | QueryReader | None:
    if endpoint.query_type is None or issubclass(endpoint.query_type, ReadByPage):
        return None
    return (LinkReader if endpoint.is_page else QueryReader)(endpoint.query_type)


class Routes:
    """The routes with their targets, made once at the start. Routes never change, so any number of dispatchers can share one `Routes`."""

    def __init__(self, endpoints: Sequence[Endpoint], common_headers: HeaderList, body_limit: int) -> None:
        self.common_headers = common_headers
        shown = {one.path for one in endpoints if one.is_page and one.method == "GET"}
        targets = ((one, _Target(one, common_headers, body_limit, _below(one.path, shown))) for one in endpoints)
        self.router = Router((one.method, path, target) for one, target in targets for path in _spellings(one))
        self.origins = {one.path: one.origins for one in endpoints if one.origins is not Origins.LISTED}


def _below(path: str, shown: AbstractSet[str]) -> int:
    """How many segments the address of a form has more than the nearest page above it. 0 for a form with the address of its own page."""
    segments = path.split("/")
    return next((cut for cut in range(len(segments)) if "/".join(segments[: len(segments) - cut]) in shown), 0)


def _spellings(one: Endpoint) -> tuple[str, ...]:
    """The paths of an endpoint. A page also has its path with a slash at the end, because people who type an address may add a slash."""
    return (one.path, f"{one.path}/") if one.is_page and one.path != "/" else (one.path,)


def _is_for_people(request: Request) -> bool:
    """Whether the 404 of an unknown path is a page. Programs that call `/api/` get JSON, even if they accept HTML."""
    path = request.path
    if path == "/ui" or path.startswith("/ui/"):
        return True
    return request.accepts_pages and not path.startswith("/api/")
