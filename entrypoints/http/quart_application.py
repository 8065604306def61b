"""The Quart application: blueprints by family, the lifespan, error handlers, a test client, and two ways for a request.

Our own connection class hands a request straight to the dispatcher. Quart's stock connection class makes a request context, finds a view
and calls the view (`quart_views.py`). Both ways end in the same dispatcher. Decision 0074 has the reasons.
"""

from collections.abc import Callable, Iterable
from typing import Any, Final, get_type_hints
from uuid import UUID

import msgspec
from hypercorn.typing import ASGIReceiveCallable, ASGISendCallable, HTTPScope, WebsocketScope
from quart import Blueprint
from quart.routing import QuartRule
from quart_trio import QuartTrio
from werkzeug.exceptions import MethodNotAllowed, NotFound

from entrypoints.http.machinery.dispatch import Dispatcher
from entrypoints.http.machinery.endpoints import Endpoint, parameters
from entrypoints.http.quart_views import hand_over, report_fault

_NAME: Final = __package__
_NO_FAMILY: Final = "foundation"


class DispatchedConnection:
    """Hands one request to the dispatcher, in the task of the connection. The body is read only when the dispatcher asks for it."""

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
    application. So applications with the same routes share the result.
    """
    application = RoutesOnly(_NAME, static_folder=None, template_folder=None)
    # A path with two slashes in a row is another path, and not ours. Werkzeug would redirect it to the path with one slash.
    application.url_map.merge_slashes = False
    blueprints: dict[str, Blueprint] = {}
    for one in endpoints:
        family = _family(one)
        blueprint = blueprints.setdefault(family, Blueprint(family, _NAME))
        blueprint.add_url_rule(_rule(one), one.handler.__name__, hand_over, methods=[one.method], provide_automatic_options=False)
    for blueprint in blueprints.values():
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
        hints = get_type_hints(endpoint.path_type)
        kinds = {field.encode_name: hints[field.name] for field in msgspec.structs.fields(endpoint.path_type)}
    rule = endpoint.path
    for name in parameters(rule):
        rule = rule.replace(f"{{{name}}}", f"<uuid:{name}>" if kinds[name] is UUID else f"<{name}>")
    return rule
