"""Turn Quart's requests into calls of our dispatcher, and answers into Quart's responses. Quart's stock connection class uses this module.

All endpoints share one view, and routing errors end in the same view. The dispatcher decides by its own router what is served, so the view
holds no rule.
"""

from typing import TYPE_CHECKING, Any, cast

import trio
from quart import Response, current_app, request
from quart_trio.wrappers import TrioResponse
from werkzeug.datastructures import Headers
from werkzeug.exceptions import RequestEntityTooLarge

from core.domain.errors import PayloadTooLarge
from entrypoints.http.machinery.answers import Streamed
from entrypoints.http.machinery.dispatch import Answered, Dispatcher
from entrypoints.http.server.protocol import FINISH

if TYPE_CHECKING:
    from entrypoints.http.quart_application import DispatchedApplication


async def hand_over(_error: Exception | None = None, **_values: Any) -> Response:
    """The view of every endpoint. Quart also calls it as an error handler, for requests that its own map does not know."""
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
