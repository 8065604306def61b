"""FastAPI and Starlette: every request needs an access token, but those to endpoints that say `@open_to_anyone`.

    app.add_middleware(Guard, tokens=Tokens("https://id.example.com", audience=["service:acme/shop"], ids=[SERVICE_ID, ORG_ID]))

    @app.get("/health")
    @open_to_anyone
    async def health(): ...

    @app.post("/payments")
    @needs("payments:write", max_age=300)
    async def pay(): return {"by": claims()["sub"]}

There is no list of paths: the application's own routes match the request, and then the endpoint decides. Add `Guard` before all other
middleware, so that none that rewrites paths comes between it and the routes. Both decorators go below `@app.get`.
"""

from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextvars import ContextVar
from functools import wraps
from inspect import iscoroutinefunction
from typing import Any
from urllib.parse import quote

from anyio import to_thread
from postern_tokens import Claims, Refused, Tokens, require
from starlette.responses import JSONResponse
from starlette.routing import Match

_claims: ContextVar[Claims | None] = ContextVar("claims", default=None)


def claims() -> Claims:
    found = _claims.get()
    if found is None:
        raise Refused(401)
    return found


class Guard:
    def __init__(self, app: Callable[..., Awaitable[None]], tokens: Tokens) -> None:
        self._app, self._tokens = app, tokens

    async def __call__(self, scope: Mapping[str, Any], receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        try:
            if _is_open(_endpoint(scope["app"].routes, scope)):
                _claims.set(None)
            else:
                given, proofs = (_heads(scope, name) for name in (b"authorization", b"dpop"))
                path = scope.get("raw_path", b"").partition(b"?")[0].decode("latin-1") or quote(scope["path"])
                _claims.set(await to_thread.run_sync(self._tokens.claims, given, proofs, scope.get("method", "GET"), path))
            await self._app(scope, receive, send)
        except Refused as refused:
            if scope["type"] == "websocket":
                await send({"type": "websocket.close", "code": 1008})
                return
            headers = {"WWW-Authenticate": refused.challenge, "Cache-Control": "no-store"}
            await JSONResponse(refused.body, refused.status, headers)(scope, receive, send)


def _heads(scope: Mapping[str, Any], wanted: bytes) -> list[str]:
    return [value.decode("latin-1") for name, value in scope["headers"] if name == wanted]


def _endpoint(routes: Iterable[Any], scope: Mapping[str, Any]) -> Any:
    for route in routes:
        match, found = route.matches(scope)
        if match is Match.FULL:
            inner = getattr(route, "routes", None)
            return _endpoint(inner, {**scope, **found}) if inner else found.get("endpoint")
    return None


def _is_open(endpoint: Any) -> bool:
    # A class that derives from an open one has no mark of its own.
    return "is_open_to_anyone" in getattr(endpoint, "__dict__", {})


def open_to_anyone(endpoint: Any) -> Any:
    """The mark is on a function or class of its own: at its other addresses, the endpoint stays closed."""
    if isinstance(endpoint, type):
        return type(endpoint)(endpoint.__name__, (endpoint,), {"is_open_to_anyone": True})

    @wraps(endpoint)
    async def awaited(*arguments: Any, **named: Any) -> Any:
        return await endpoint(*arguments, **named)

    @wraps(endpoint)
    def called(*arguments: Any, **named: Any) -> Any:
        return endpoint(*arguments, **named)

    opened: Any = awaited if iscoroutinefunction(endpoint) else called
    opened.is_open_to_anyone = True
    return opened


def needs(*scopes: str, max_age: int | None = None, two_factors: bool = False) -> Callable[[Any], Any]:
    def decorated(endpoint: Any) -> Any:
        @wraps(endpoint)
        async def awaited(*arguments: Any, **named: Any) -> Any:
            require(_claims.get(), *scopes, max_age=max_age, two_factors=two_factors)
            return await endpoint(*arguments, **named)

        @wraps(endpoint)
        def called(*arguments: Any, **named: Any) -> Any:
            require(_claims.get(), *scopes, max_age=max_age, two_factors=two_factors)
            return endpoint(*arguments, **named)

        return awaited if iscoroutinefunction(endpoint) else called

    return decorated
