"""As much of Postern as a guard meets: published keys, and introspection."""

import json
import time
from base64 import b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any
from urllib.parse import parse_qs

import jwt
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, EllipticCurvePrivateKey, generate_private_key
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

AUDIENCE = "service:acme/shop"
API, API_ID = "https://api.acme.example/orders", "0197f0c8-0000-7000-8000-00000000000c"
SERVICE, ORGANIZATION = "0197f0c8-0000-7000-8000-00000000000a", "0197f0c8-0000-7000-8000-00000000000b"


@dataclass
class TokenIssuer:
    url: str = ""
    key: EllipticCurvePrivateKey = field(default_factory=lambda: generate_private_key(SECP256R1()))
    revoked: set[str] = field(default_factory=set)
    is_down: bool = False
    status_of_redirects: int = 302
    sends_elsewhere: bool = False
    """Whether introspection answers with a redirect to an address that calls every token active."""
    elsewhere: list[str | None] = field(default_factory=list)
    """The headers `Authorization` that came to that address."""
    key_requests: int = 0

    def keys(self) -> dict[str, Any]:
        public = json.loads(jwt.algorithms.ECAlgorithm.to_jwk(self.key.public_key()))
        return {"keys": [{**public, "kid": "one", "alg": "ES256", "use": "sig"}]}

    def public_pem(self) -> bytes:
        return self.key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)

    def claims(self, **changed: Any) -> dict[str, Any]:
        now = int(time.time())
        claims = {
            "iss": self.url,
            "sub": "ada",
            "aud": AUDIENCE,
            "iat": now,
            "exp": now + 900,
            "sid": "living",
            "token_use": "access",
            "service_id": SERVICE,
            "org_id": ORGANIZATION,
            "scope": "orders:read",
            "auth_time": now,
            "acr": "urn:postern:acr:one-factor",
            **changed,
        }
        return {name: value for name, value in claims.items() if value is not None}

    def token(self, *, header: dict[str, Any] | None = None, key: Any = None, algorithm: str = "ES256", **changed: Any) -> str:
        headers = {"kid": "one", "typ": "at+jwt", **(header or {})}
        return jwt.encode(self.claims(**changed), self.key if key is None else key, algorithm, headers)

    def answer(self, method: str, path: str, authorization: str | None, body: bytes) -> tuple[int, Any]:
        match method, path:
            case _ if self.is_down:
                return 503, {}
            case "GET", "/.well-known/jwks.json":
                self.key_requests += 1
                return 200, self.keys()
            case _, "/elsewhere":
                self.elsewhere.append(authorization)
                return 200, {"active": True}
            case "POST", "/oauth/introspect" if self.sends_elsewhere:
                return self.status_of_redirects, {}
            case "POST", "/oauth/introspect":
                assert authorization == f"Basic {b64encode(b'shop:secret').decode()}"
                (token,) = parse_qs(body.decode())["token"]
                return 200, {"active": token not in self.revoked}
        return 404, {}


@contextmanager
def token_issuer() -> Iterator[TokenIssuer]:
    made = TokenIssuer()

    class IssuerHandler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            length = int(self.headers.get("Content-Length", "0"))
            status, said = made.answer(self.command, self.path, self.headers.get("Authorization"), self.rfile.read(length))
            self.send_response(status)
            if 300 <= status < 400:
                self.send_header("Location", "/elsewhere")
            self.end_headers()
            self.wfile.write(json.dumps(said).encode())

        do_POST = do_GET  # noqa: N815 - the library's name

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), IssuerHandler) as server:
        made.url = f"http://127.0.0.1:{server.server_port}"
        Thread(target=server.serve_forever, daemon=True).start()
        yield made
        server.shutdown()
