"""The Python SDK of the Model Context Protocol (`mcp`): every request to the server needs an access token, and a tool may need more scopes.

    tokens = Tokens("https://id.example.com", audience=["https://tools.example.com/mcp"], ids=[RESOURCE_ID])
    mcp = MCPServer("Tools", auth=settings(tokens, "notes:read"), token_verifier=Verifier(tokens))

    @mcp.tool()
    def who_am_i() -> str: return claims()["sub"]

    app = guarded(mcp.streamable_http_app(stateless_http=True), tokens, {"add_note": ["notes:read", "notes:write"]})

The SDK answers 401 and publishes the protected resource metadata. It knows scopes for the server as a whole alone: `guarded` reads which
tool a request calls, and answers 403 with all scopes that the tool needs, so that a client can ask the person for them.
"""

import json
from collections.abc import Mapping, Sequence
from contextvars import ContextVar
from typing import Any
from urllib.parse import quote

from anyio import to_thread
from mcp.server.auth.middleware.auth_context import get_access_token
from mcp.server.auth.provider import AccessToken
from mcp.server.auth.routes import build_resource_metadata_url
from mcp.server.auth.settings import AuthSettings
from postern_tokens import Claims, Refused, Tokens, require
from pydantic import AnyHttpUrl
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.responses import JSONResponse

_LARGEST = 4 * 1024 * 1024
_HEADS = (b"authorization", b"dpop")
_proved: ContextVar[tuple[str, Claims] | None] = ContextVar("proved", default=None)


def claims() -> Claims:
    """The claims of the token with which a tool is called."""
    found = get_access_token()
    if found is None or found.claims is None:
        raise Refused(401)
    return found.claims


def settings(tokens: Tokens, *scopes: str) -> AuthSettings:
    """`scopes` are what every request needs, and what clients ask for at first."""
    # As text: `AnyHttpUrl` would add a slash to the issuer, and clients compare it byte by byte.
    told = {"issuer_url": tokens.issuer, "resource_server_url": tokens.audience[0], "required_scopes": scopes}
    return AuthSettings.model_validate({**told, "validate_token_resource": True})


class Verifier:
    def __init__(self, tokens: Tokens) -> None:
        self._tokens = tokens

    async def verify_token(self, token: str) -> AccessToken | None:
        proved = _proved.get()
        try:
            # The SDK knows no proofs of keys: `guarded` has looked at this one.
            said = proved[1] if proved and proved[0] == token else await to_thread.run_sync(self._tokens.claims, [f"Bearer {token}"])
        except Refused as refused:
            if refused.status != 401:  # Postern is away: no client shall take that for a bad token
                raise
            return None
        return AccessToken(
            token=token,
            client_id=said["client_id"],
            scopes=str(said.get("scope", "")).split(),
            expires_at=said["exp"],
            resource=self._tokens.audience[0],
            subject=said["sub"],
            claims=dict(said),
        )


def guarded(app: Starlette, tokens: Tokens, tools: Mapping[str, Sequence[str]]) -> Starlette:
    """`tools` are the scopes of the tools that need more than the whole server does: all that the tool needs, for one answer names all."""
    # The last one is the innermost: the SDK's own has looked at the token before. The first one is the outermost.
    app.user_middleware.append(Middleware(_ScopesOfTools, tokens, tools))
    app.user_middleware.insert(0, Middleware(_Proofs, tokens))
    return app


class _Proofs:
    """Tokens that are bound to a key come with the scheme `DPoP` and a proof (RFC 9449), and go on as those that the SDK knows."""

    def __init__(self, app: Any, tokens: Tokens) -> None:
        self._app, self._tokens = app, tokens
        self._metadata = build_resource_metadata_url(AnyHttpUrl(tokens.audience[0]))

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        given, proofs = ([value.decode("latin-1") for name, value in scope.get("headers", ()) if name == one] for one in _HEADS)
        _proved.set(None)
        if scope["type"] == "http" and any(one[:5].lower() == "dpop " for one in given):
            path = scope.get("raw_path", b"").partition(b"?")[0].decode("latin-1") or quote(scope["path"])
            try:
                said = await to_thread.run_sync(self._tokens.claims, given, proofs, scope["method"], path)
            except Refused as refused:
                challenge = f'{refused.challenge}, resource_metadata="{self._metadata}"'
                await JSONResponse(refused.body, refused.status, {"WWW-Authenticate": challenge})(scope, receive, send)
                return
            token = given[0].partition(" ")[2]
            _proved.set((token, said))
            headers = [(name, value) for name, value in scope["headers"] if name not in _HEADS]
            scope = {**scope, "headers": [*headers, (b"authorization", f"Bearer {token}".encode("latin-1"))]}
        await self._app(scope, receive, send)


class _ScopesOfTools:
    def __init__(self, app: Any, tokens: Tokens, tools: Mapping[str, Sequence[str]]) -> None:
        self._app, self._tools = app, tools
        self._metadata = build_resource_metadata_url(AnyHttpUrl(tokens.audience[0]))

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        token = getattr(scope.get("user"), "access_token", None)
        if scope["type"] != "http" or scope["method"] != "POST" or token is None:
            await self._app(scope, receive, send)
            return
        try:
            asked = json.loads(await _body(receive))
            called = _called(asked)
        except (ValueError, RecursionError):
            await JSONResponse({"error": "invalid_request"}, 400)(scope, receive, send)
            return
        try:
            _require_one_token(scope)
            require(token.claims, *sorted({one for name in called for one in self._tools.get(name, ())}))
        except Refused as refused:
            challenge = f'{refused.challenge}, resource_metadata="{self._metadata}"'
            await JSONResponse(refused.body, refused.status, {"WWW-Authenticate": challenge})(scope, receive, send)
            return
        # The server gets what was looked at, and not the bytes: another parser might find another tool in them.
        body = json.dumps(asked).encode()
        headers = [(name, value) for name, value in scope["headers"] if name != b"content-length"]
        again = iter([{"type": "http.request", "body": body, "more_body": False}])

        async def replay() -> Any:
            return next(again, None) or await receive()

        await self._app({**scope, "headers": [*headers, (b"content-length", b"%d" % len(body))]}, replay, send)


def _require_one_token(scope: Any) -> None:
    """The SDK takes the first of several headers without a word."""
    if sum(name == b"authorization" for name, _ in scope["headers"]) > 1:
        raise Refused(401, "invalid_token", "one header Authorization with Bearer and a token is needed")


async def _body(receive: Any) -> bytes:
    body, more = bytearray(), True
    while more:
        message = await receive()
        body += message.get("body", b"")
        more = message.get("more_body", False)
        if len(body) > _LARGEST:
            raise ValueError
    return bytes(body)


def _called(asked: Any) -> set[str]:
    """The tools that a message calls, or the messages of a batch. Raises `ValueError` for what is no message, and for a call of no tool."""
    messages = asked if isinstance(asked, list) else [asked]
    if not all(isinstance(one, dict) for one in messages):
        raise ValueError
    calls = [one.get("params") for one in messages if one.get("method") == "tools/call"]
    if not all(isinstance(one, dict) and isinstance(one.get("name"), str) for one in calls):
        raise ValueError
    return {one["name"] for one in calls}
