"""Clients that have a key, and show proofs of it (DPoP, RFC 9449)."""

import json
from base64 import urlsafe_b64encode
from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any, Final
from uuid import uuid4

import jwt
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, generate_private_key
from jwt.algorithms import ECAlgorithm, OKPAlgorithm, RSAAlgorithm

from tests.http.client import Pairs, Received
from tests.http.federation.relying import CALLBACK, TOKEN, USERINFO, VERIFIER, Application, Relying
from tests.http.people import BASE_URL

_WRITERS: Final[Mapping[str, Any]] = {"ES": ECAlgorithm, "Ed": OKPAlgorithm, "PS": RSAAlgorithm, "RS": RSAAlgorithm}
_OF_THUMBPRINT: Final = frozenset({"crv", "e", "kty", "n", "x", "y"})


@dataclass(frozen=True, slots=True)
class ClientKey:
    """A key pair of a client. `now` is the clock of the proofs."""

    now: Any
    private: Any = field(default_factory=lambda: generate_private_key(SECP256R1()))
    algorithm: str = "ES256"

    @property
    def jwk(self) -> dict[str, Any]:
        found = json.loads(_WRITERS[self.algorithm[:2]].to_jwk(self.private.public_key()))
        return {name: value for name, value in found.items() if name in _OF_THUMBPRINT}

    @property
    def thumbprint(self) -> str:
        return _encoded(sha256(json.dumps(self.jwk, separators=(",", ":"), sort_keys=True).encode()).digest())

    def proof(
        self, method: str = "POST", path: str = TOKEN, token: str | None = None, header: Mapping[str, Any] | None = None, **changed: Any
    ) -> str:
        """A claim or member of the header that is None is left out."""
        claims = {
            "jti": str(uuid4()),
            "htm": method,
            "htu": BASE_URL + path,
            "iat": int(self.now().timestamp()),
            "ath": None if token is None else _encoded(sha256(token.encode()).digest()),
            **changed,
        }
        headers = {"typ": "dpop+jwt", "jwk": self.jwk, **(header or {})}
        return jwt.encode(_said(claims), self.private, self.algorithm, _said(headers))

    def dpop(self, *args: Any, **changed: Any) -> tuple[str, str]:
        return "dpop", self.proof(*args, **changed)


def _said(values: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}


def _encoded(digest: bytes) -> str:
    return urlsafe_b64encode(digest).rstrip(b"=").decode()


class Proving(Relying):
    """Applications with keys."""

    def key(self, private: Any = None, algorithm: str = "ES256") -> ClientKey:
        now = self.postern.foundation.clock.now
        return ClientKey(now) if private is None else ClientKey(now, private, algorithm)

    async def with_proof(self, key: ClientKey | None, fields: Mapping[str, str], headers: Pairs = (), **changed: Any) -> Received:
        shown = [] if key is None else [key.dpop(**changed)]
        return await self.ask(fields=fields, headers=[*headers, *shown])

    async def redeem_with(self, key: ClientKey | None, application: Application, code: str, **changed: Any) -> Received:
        fields = {"grant_type": "authorization_code", "code": code, "redirect_uri": CALLBACK, "code_verifier": VERIFIER}
        return await self.with_proof(key, {**fields, **application.posted}, **changed)

    async def refresh_with(self, key: ClientKey | None, application: Application, token: str, **changed: Any) -> Received:
        fields = {"grant_type": "refresh_token", "refresh_token": token, **application.posted}
        return await self.with_proof(key, fields, **changed)

    async def bound(self, key: ClientKey, application: Application, scopes: str = "openid email") -> dict[str, Any]:
        answer = await self.redeem_with(key, application, await self.code(application, scopes=scopes))
        return self.kept(answer.ok())

    async def userinfo_with(self, key: ClientKey, token: str, **changed: Any) -> Received:
        headers = [("authorization", f"DPoP {token}"), key.dpop("GET", USERINFO, token, **changed)]
        return await self.client.request("GET", USERINFO, headers=headers)

    def bind(self, application: Application) -> None:
        """The service wants its tokens bound."""
        self.people.change("update services set dpop_bound_access_tokens = true where id = %s", application.service.id)
