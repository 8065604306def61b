"""An MCP server and a client of it, each a program of its own. The server knows the issuer and its own address. The client knows the
server's address and its client id, and finds the issuer by what the server answers without a token.
"""

import json
from collections.abc import Mapping
from json import JSONDecodeError
from typing import Any, Final, cast
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import jwt

from entrypoints.demo.application import DemoApplication, DemoPages, DemoServer, SignInFailed, fetched

SCOPE: Final = "notes:read"
_PATIENCE: Final = 10.0
_MOST: Final = 64 << 10
_METADATA: Final = "/.well-known/oauth-protected-resource/mcp"
_TOOL: Final = {"name": "who_am_i", "description": "Says who asks.", "inputSchema": {"type": "object", "properties": {}}}


class DemoTools(DemoServer):
    """The MCP server. It takes tokens that were made for it alone."""

    title = "Demo Tools"

    def __init__(self, port: int, issuer: str) -> None:
        super().__init__(port, _Calls)
        self.issuer = issuer
        self._keys: jwt.PyJWKClient | None = None

    @property
    def resource(self) -> str:
        return f"{self.home}/mcp"

    def claims(self, authorization: str) -> Mapping[str, Any] | None:
        """None for a token that is none of this server's."""
        scheme, _, token = authorization.partition(" ")
        if scheme.lower() != "bearer":
            return None
        try:
            if self._keys is None:
                metadata = fetched(f"{self.issuer}/.well-known/openid-configuration")
                self._keys = jwt.PyJWKClient(metadata["jwks_uri"], timeout=_PATIENCE)
            key = self._keys.get_signing_key_from_jwt(token)
            claims: Mapping[str, Any] = jwt.decode(
                token, key, algorithms=["RS256", "ES256"], issuer=self.issuer, audience=self.resource, leeway=10
            )
        except jwt.PyJWTError:
            return None
        is_for_us = jwt.get_unverified_header(token).get("typ", "").lower() == "at+jwt" and SCOPE in str(claims.get("scope", "")).split()
        return claims if is_for_us else None

    def answer(self, message: Mapping[str, Any], claims: Mapping[str, Any]) -> Mapping[str, Any]:
        match message.get("method"):
            case "initialize":
                version = message.get("params", {}).get("protocolVersion", "2025-06-18")
                server = {"name": self.title, "version": "1"}
                return {"result": {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": server}}
            case "tools/list":
                return {"result": {"tools": [_TOOL]}}
            case "tools/call" if message.get("params", {}).get("name") == _TOOL["name"]:
                return {"result": {"content": [{"type": "text", "text": f"You are {claims['sub']}, by {claims.get('client_id')}"}]}}
        return {"error": {"code": -32601, "message": "There is no such method here"}}


class _Calls(DemoPages):
    server: DemoTools

    def do_GET(self) -> None:  # noqa: N802 - the library's name
        if self.path == _METADATA:
            told = {"resource": self.server.resource, "authorization_servers": [self.server.issuer], "scopes_supported": [SCOPE]}
            self._send_json(told)
        elif self.path in {"/", "/mcp"}:
            # The demo prints the address, and people open it.
            page = f"<p>An MCP server at <code>{self.server.resource}</code>. Its clients call it, and no browser.</p>"
            self.show(page, 405 if self.path == "/mcp" else 200)
        else:
            self._send_json({"error": "There is nothing here"}, 404)

    def do_POST(self) -> None:  # noqa: N802 - the library's name
        length = int(self.headers.get("Content-Length", "0"))
        claims = self.server.claims(self.headers.get("Authorization", ""))
        if self.path != "/mcp" or length > _MOST:
            self._send_json({"error": "There is nothing here"}, 404)
        elif claims is None:
            challenge = f'Bearer resource_metadata="{self.server.home}{_METADATA}", scope="{SCOPE}"'
            self._send_json({"error": "invalid_token"}, 401, WWW_Authenticate=challenge)
        else:
            try:
                message = json.loads(self.rfile.read(length))
            except JSONDecodeError:
                message = {}
            self._send_json({"jsonrpc": "2.0", "id": message.get("id"), **self.server.answer(message, claims)})

    def _send_json(self, told: Mapping[str, Any], status: int = 200, **headers: str) -> None:
        self.send(json.dumps(told).encode(), "application/json", status, **headers)


class DemoAssistant(DemoApplication):
    """The client: it signs a person in for the server, and calls a tool with what it got."""

    title = "Demo Assistant"
    scope = f"openid {SCOPE}"
    welcome = "An MCP client. It calls a tool of Demo Tools with your account, once you allow it."

    def __init__(self, port: int, server: str) -> None:
        super().__init__(port, "")
        self.mcp = server

    @property
    def more(self) -> Mapping[str, str]:
        return {"resource": self.mcp}

    def metadata(self) -> Mapping[str, Any]:
        if not self.issuer:
            self.issuer = self._found_issuer()
        return super().metadata()

    def person(self, browser: Any, metadata: Mapping[str, Any]) -> Mapping[str, Any]:  # noqa: ARG002 - an issuer has more to tell
        """The tool's own answer: the token is for the server alone, and opens nothing at the issuer."""
        told = self._call(browser.access_token)
        return {"the tool who_am_i says": told["result"]["content"][0]["text"]}

    def _found_issuer(self) -> str:
        """As the MCP specification has it: the server's 401 names its metadata, and these the issuer."""
        try:
            self._call("")
        except HTTPError as refusal:
            named = refusal.headers.get("WWW-Authenticate", "").partition('resource_metadata="')[2].partition('"')[0]
            if refusal.code == 401 and named.startswith(self.mcp.removesuffix("/mcp")):
                return str(fetched(named)["authorization_servers"][0])
        raise SignInFailed("The MCP server does not say where to sign in.")

    def _call(self, token: str) -> Mapping[str, Any]:
        message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "who_am_i", "arguments": {}}}
        headers = {"Content-Type": "application/json", "Accept": "application/json"}
        if token:
            headers["Authorization"] = f"Bearer {token}"
        request = Request(self.mcp, json.dumps(message).encode(), headers)  # noqa: S310 - the server on loopback
        with urlopen(request, timeout=_PATIENCE) as answer:  # noqa: S310 - as above
            return cast("Mapping[str, Any]", json.load(answer))
