"""The Quart application: blueprints, lifespan, error handlers and a test client."""

from collections.abc import Callable, Iterable
from typing import Annotated, Any, Final, cast, get_args, get_origin
from uuid import UUID

import msgspec
import trio
from hypercorn.typing import ASGIReceiveCallable, ASGISendCallable, HTTPScope, WebsocketScope
from quart import Blueprint, Response, current_app, request
from quart.routing import QuartRule
from quart_trio import QuartTrio
from quart_trio.wrappers import TrioResponse
from werkzeug.datastructures import Headers
from werkzeug.exceptions import MethodNotAllowed, NotFound, RequestEntityTooLarge

from core.domain.errors import PayloadTooLarge
from entrypoints.http.machinery.answers import Streamed
from entrypoints.http.machinery.dispatch import Answered, Dispatcher
from entrypoints.http.machinery.endpoints import Endpoint, parameters
from entrypoints.http.server.protocol import FINISH


async def hand_over(_error: Exception | None = None, **_values: Any) -> Response:
    """Turns Quart's requests into calls of our dispatcher, and answers into Quart's responses. Quart's stock connection class uses it. All
    endpoints share this view, and routing errors end in it, too. The dispatcher decides by its own router what is served, so the view holds
    no rule.

    The view of every endpoint. Quart also calls it as an error handler, for requests that its own map does not know.
    """
    dispatcher = _dispatcher()
    # Quart cancels its tasks when the client leaves. A handler that has called `finish` goes on, as it does on our own server.
    with trio.CancelScope() as scope:

        def finish() -> None:
            scope.shield = True

        given = {**request.scope, "extensions": {FINISH: finish}}
        asked = dispatcher.begin(given)
        try:
            return _response(await dispatcher.answer(asked, given, _receive), bodiless=asked.method == "HEAD")
        finally:
            dispatcher.end(asked)
    raise AssertionError("Nobody cancels this scope")


async def report_fault(error: Exception) -> Response:
    """Log and answer a fault of Quart itself, or of a function that somebody registered with Quart, like every other fault."""
    dispatcher = _dispatcher()
    asked = dispatcher.begin({**request.scope, "extensions": {}})
    try:
        return _response(dispatcher.fault(asked, error), bodiless=asked.method == "HEAD")
    finally:
        dispatcher.end(asked)


def _dispatcher() -> Dispatcher:
    return cast("DispatchedApplication", current_app).dispatcher


async def _receive() -> dict[str, Any]:
    """The next part of the body, in ASGI's form. Quart reads the body up to its own limit, which is above all of ours."""
    try:
        return {"type": "http.request", "body": await anext(request.body), "more_body": True}
    except StopAsyncIteration:
        return {"type": "http.request", "body": b"", "more_body": False}
    except RequestEntityTooLarge:
        raise PayloadTooLarge from None


def _response(answered: Answered, *, bodiless: bool) -> Response:
    status, headers, body = answered
    if isinstance(body, Streamed) and not bodiless:
        response = TrioResponse(body.parts, status)
        # Otherwise Quart would cut off an answer that takes a minute to read.
        response.timeout = None
    else:
        response = TrioResponse(b"" if bodiless or isinstance(body, Streamed) else body, status)
    # The dispatcher's headers, and none of the headers that Quart would add.
    response.headers = Headers([(name.decode(), value.decode()) for name, value in headers])
    return response


_NAME: Final = __package__
_NO_FAMILY: Final = "foundation"


class DispatchedConnection:
    """Hands one request to the dispatcher, in the task of the connection. The body is read only when the dispatcher asks for it.

    Quart's stock connection class makes a request context, finds a view and calls the view. Both ways end in the same dispatcher. Decision
    0074 has the reasons.
    """

    __slots__ = ("_application", "_scope")

    def __init__(self, application: "DispatchedApplication", scope: HTTPScope) -> None:
        self._application = application
        self._scope = scope

    async def __call__(self, receive: ASGIReceiveCallable, send: ASGISendCallable) -> None:
        await self._application.dispatcher(self._scope, receive, send)


class RefusedWebsocket:
    """Closes WebSocket connections, because nothing here speaks WebSocket. Our own server refuses them earlier; other servers end here."""

    def __init__(self, application: "DispatchedApplication", scope: WebsocketScope) -> None:
        pass

    async def __call__(self, _receive: ASGIReceiveCallable, send: ASGISendCallable) -> None:
        await send({"type": "websocket.close", "code": 1000, "reason": ""})


class MatchingRule(QuartRule):
    """Werkzeug compiles two functions for each rule that make URLs. We have hundreds of rules and never ask for a URL. The functions would
    take 3 MiB, and a quarter of a second of each start.
    """

    def _compile_builder(self, append_unknown: bool = True) -> Callable[..., tuple[str, str]]:  # noqa: ARG002, FBT001, FBT002 - Werkzeug's
        return _make_no_url


def _make_no_url(*_: object, **__: object) -> tuple[str, str]:
    raise NotImplementedError("our rules match paths, and make no URLs")


class RoutesOnly(QuartTrio):
    url_rule_class = MatchingRule  # type: ignore[assignment]  # Flask types its seam by its own rule


class DispatchedApplication(QuartTrio):
    asgi_http_class = DispatchedConnection  # type: ignore[assignment]  # Quart types its seam by its own application
    asgi_websocket_class = RefusedWebsocket  # type: ignore[assignment]
    dispatcher: Dispatcher
    """Must be set before the first request: by the constructor, or by the lifespan."""

    def __init__(self, registered: QuartTrio) -> None:
        """`registered` has the routes, from `with_routes`."""
        super().__init__(_NAME, static_folder=None, template_folder=None)
        self.url_map, self.view_functions, self.blueprints = registered.url_map, registered.view_functions, registered.blueprints
        # Quart's map matches decoded paths, and our router matches paths as they were sent. So our dispatcher decides about requests that
        # Quart's map does not know.
        self.register_error_handler(NotFound, hand_over)
        self.register_error_handler(MethodNotAllowed, hand_over)
        self.register_error_handler(Exception, report_fault)


def with_routes(endpoints: Iterable[Endpoint]) -> QuartTrio:
    """Register the endpoints, in one blueprint for each family. Werkzeug compiles every rule, which takes most of the time of making an
    application. So the methods of a path share a rule, and applications with the same routes share the result.
    """
    application = RoutesOnly(_NAME, static_folder=None, template_folder=None)
    # A path with two slashes in a row is another path, and not ours. Werkzeug would redirect it to the path with one slash.
    application.url_map.merge_slashes = False
    families: dict[str, dict[str, list[Endpoint]]] = {}
    for one in endpoints:
        families.setdefault(_family(one), {}).setdefault(_rule(one), []).append(one)
    for family, rules in families.items():
        blueprint = Blueprint(family, _NAME)
        for rule, named in rules.items():
            methods = [one.method for one in named]
            blueprint.add_url_rule(rule, named[0].handler.__name__, hand_over, methods=methods, provide_automatic_options=False)
        application.register_blueprint(blueprint)
    return application


def _family(endpoint: Endpoint) -> str:
    """The family, by the module of the handler: `routes/<family>/<noun>.py`, or a file under `pages`."""
    match endpoint.handler.__module__.removeprefix(f"{__package__}.").split("."):
        case ["routes", family, _]:
            return family
        case ["pages", *_]:
            return "pages"
        case _:
            return _NO_FAMILY


def _rule(endpoint: Endpoint) -> str:
    """The path in Werkzeug's form: `/api/plans/{plan_id}` becomes `/api/plans/<uuid:plan_id>`."""
    kinds: dict[str, Any] = {}
    if endpoint.path_type is not None:
        kinds = {field.encode_name: field.type for field in msgspec.structs.fields(endpoint.path_type)}
    rule = endpoint.path
    for name in parameters(rule):
        kind = kinds[name]
        plain = get_args(kind)[0] if get_origin(kind) is Annotated else kind
        rule = rule.replace(f"{{{name}}}", f"<uuid:{name}>" if plain is UUID else f"<{name}>")
    return rule
