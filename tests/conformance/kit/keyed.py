"""An application of FAPI 2.0: it authenticates by assertions, pushes its requests, and binds its tokens to a key (DPoP)."""

import json
import time
from base64 import urlsafe_b64encode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any, Final
from urllib.parse import urlencode

import httpx
import jwt
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from jwt.algorithms import ECAlgorithm, RSAAlgorithm

from tests.conformance.kit import answers, id_tokens
from tests.conformance.kit.browser import Arrival, ShownPage
from tests.conformance.kit.relying import GivenTokens, Request, Suite, pkce, random_text

_ASSERTION: Final = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
_ALLOWED: Final = frozenset({"PS256", "ES256", "EdDSA", "Ed25519"})
_EXPECTED: Final = frozenset({"code", "state", "id_token", "session_state", "iss", "dummy1", "dummy2"})
SCOPE: Final = "openid email offline_access"
PrivateKey = ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey


def new_key() -> ec.EllipticCurvePrivateKey:
    return ec.generate_private_key(ec.SECP256R1())


def jwk_of(key: PrivateKey, *, private: bool = False) -> dict[str, Any]:
    shown: Any = key if private else key.public_key()
    text = ECAlgorithm.to_jwk(shown) if isinstance(key, ec.EllipticCurvePrivateKey) else RSAAlgorithm.to_jwk(shown)
    made: dict[str, Any] = json.loads(text)
    return {name: value for name, value in made.items() if name != "key_ops"}


def thumbprint(key: PrivateKey) -> str:
    members = {name: value for name, value in jwk_of(key).items() if name in {"crv", "e", "kty", "n", "x", "y"}}
    return _digest(json.dumps(members, separators=(",", ":"), sort_keys=True))


def _digest(text: str) -> str:
    return urlsafe_b64encode(sha256(text.encode()).digest()).rstrip(b"=").decode()


def _said(values: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}


@dataclass(frozen=True, slots=True)
class KeyedClient:
    """What its developers have: the id, and the key of its assertions."""

    client_id: str
    key: PrivateKey
    callback: str

    @property
    def algorithm(self) -> str:
        return "PS256" if isinstance(self.key, rsa.RSAPrivateKey) else "ES256"

    @property
    def published(self) -> dict[str, Any]:
        return {**jwk_of(self.key), "kid": self.algorithm.lower(), "alg": self.algorithm, "use": "sig"}

    def assertion(self, audience: Any, algorithm: str = "", ahead: int = 0, **changed: Any) -> dict[str, str]:
        """The fields of a request. A claim that is None is left out."""
        now = int(time.time()) + ahead
        claims = {"iss": self.client_id, "sub": self.client_id, "aud": audience, "jti": random_text(20)}
        claims |= {"nbf": now, "iat": now, "exp": now + 60}
        used = algorithm or self.algorithm
        made = jwt.encode(_said({**claims, **changed}), self.key, used, {"kid": self.algorithm.lower()})
        return {"client_assertion_type": _ASSERTION, "client_assertion": made}


@dataclass
class KeyedSuite(Suite):
    """One module's run. `holder` is the key of the proofs now."""

    first: KeyedClient = field(kw_only=True)
    second: KeyedClient = field(kw_only=True)
    holder: PrivateKey = field(default_factory=new_key, kw_only=True)
    proof_ahead: int = field(default=0, kw_only=True)
    """What the clock of the proofs is ahead of ours."""
    proof_more: Mapping[str, Any] = field(default_factory=dict, kw_only=True)
    verifier: str = field(default="", kw_only=True)

    def proof(
        self,
        method: str,
        address: str,
        token: str | None = None,
        *,
        header: Mapping[str, Any] | None = None,
        key: PrivateKey | None = None,
        **changed: Any,
    ) -> str:
        """A claim or a member of the header that is None is left out."""
        holder = key or self.holder
        claims = {"jti": random_text(20), "iat": int(time.time()) + self.proof_ahead, "htm": method, "htu": address}
        claims |= {"ath": None if token is None else _digest(token), **self.proof_more, **changed}
        head = {"typ": "dpop+jwt", "jwk": jwk_of(holder), **(header or {})}
        # The library writes `typ: JWT` where nobody says another.
        return jwt.encode(_said(claims), holder, "ES256", {"typ": None, **_said(head)})

    # The request.

    def keyed_request(self, client: KeyedClient, state: int = 10, nonce: int = 10, **changed: str | None) -> Request:
        self.verifier, challenge = pkce()
        made: dict[str, str | None] = {
            "client_id": client.client_id,
            "redirect_uri": client.callback,
            "scope": SCOPE,
            "state": random_text(128 if client == self.second else state),
            "nonce": random_text(nonce),
            "response_type": "code",
            **challenge,
            **changed,
        }
        return {name: value for name, value in made.items() if value is not None}

    def push(
        self,
        client: KeyedClient,
        request: Request,
        authentication: Mapping[str, str] | None = None,
        *,
        with_proof: bool = False,
        method: str = "POST",
    ) -> httpx.Response:
        address = self.metadata["pushed_authorization_request_endpoint"]
        headers = {"DPoP": self.proof("POST", address)} if with_proof else {}
        shown = client.assertion(self.installation.issuer) if authentication is None else authentication
        return self.client.request(method, address, data={**request, **shown}, headers=headers)

    def pushed(self, answer: httpx.Response) -> str:
        """The address of the request, with the conditions of every pushed one."""
        assert answer.status_code == 201, answer.text
        assert answers.is_json(answer)
        told = answer.json()
        assert "error" not in told
        assert 5 <= told["expires_in"] < answers.YEAR
        assert answers.is_random(told["request_uri"])
        return str(told["request_uri"])

    def go(self, client: KeyedClient, request: Request, uri: str, *, alone: bool = False, **beside: str) -> Arrival | ShownPage:
        """Sends the browser with the pushed request. Beside it stand the parameters that OAuth wants there, unless it goes `alone`."""
        doubled = {} if alone else {name: request[name] for name in ("response_type", "scope", "redirect_uri") if name in request}
        query = {**doubled, "client_id": client.client_id, "request_uri": uri, **beside}
        return self.browser.visit(f"{self.metadata['authorization_endpoint']}?{urlencode(query)}")

    def code_at(self, client: KeyedClient, request: Request, came: Arrival | ShownPage) -> str:
        """The code that came back, with the conditions of every callback."""
        assert isinstance(came, Arrival), came
        assert came.address == client.callback.partition("?")[0]
        assert (came.method, came.fragment) == ("GET", "")
        told = came.query
        assert "error" not in told, told
        if "?" in client.callback:
            assert (told["dummy1"], told["dummy2"]) == ("lorem", "ipsum")
        self.outcome.should(told.keys() <= _EXPECTED, f"unexpected parameters at the callback: {sorted(told)}")
        assert told.get("state") == request.get("state")
        assert told["iss"] == self.installation.issuer
        assert answers.is_long(told["code"])
        assert answers.is_random(told["code"])
        return told["code"]

    def keyed_code(self, client: KeyedClient, request: Request, *, with_proof: bool = False, alone: bool = False) -> str:
        uri = self.pushed(self.push(client, request, with_proof=with_proof))
        return self.code_at(client, request, self.go(client, request, uri, alone=alone))

    # Tokens.

    def at_token(
        self,
        client: KeyedClient,
        form: Mapping[str, str],
        authentication: Mapping[str, str] | None = None,
        *,
        proof: str | None = "",
    ) -> httpx.Response:
        """`proof` is None for none."""
        address = self.metadata["token_endpoint"]
        headers = {} if proof is None else {"DPoP": proof or self.proof("POST", address)}
        shown = client.assertion(self.installation.issuer) if authentication is None else authentication
        return self.client.post(address, data={**form, **shown}, headers=headers)

    def keyed_redeem(
        self,
        client: KeyedClient,
        code: str,
        authentication: Mapping[str, str] | None = None,
        *,
        proof: str | None = "",
        **changed: str | None,
    ) -> httpx.Response:
        form = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": client.callback,
            "code_verifier": self.verifier,
            **changed,
        }
        return self.at_token(client, {name: value for name, value in form.items() if value is not None}, authentication, proof=proof)

    def checked_tokens(self, answer: httpx.Response, request: Request, code: str) -> GivenTokens:
        """The conditions of every module for what comes back."""
        told = answers.token_answer(answer)
        self.outcome.should("expires_in" in told, "no expires_in")
        if "refresh_token" in told:
            assert answers.is_long(told["refresh_token"])
            assert answers.is_random(told["refresh_token"])
        assert answers.is_long(told["access_token"])
        assert answers.is_random(told["access_token"])
        assert told["token_type"].lower() == "dpop"
        claims = self.checked_id_token(told["id_token"], request)
        head = id_tokens.header(told["id_token"])
        assert head["kid"]
        assert head["alg"] in _ALLOWED
        assert claims.get("at_hash") in {None, id_tokens.half_digest(told["access_token"])}
        assert claims.get("c_hash") in {None, id_tokens.half_digest(code)}
        assert claims.get("s_hash") in {None, id_tokens.half_digest(request.get("state", ""))}
        return GivenTokens(told, claims, code)

    def keyed_tokens(self, client: KeyedClient, request: Request, *, with_proof: bool = False, alone: bool = False) -> GivenTokens:
        """Signs in, redeems the code and calls the resource."""
        code = self.keyed_code(client, request, with_proof=with_proof, alone=alone)
        tokens = self.checked_tokens(self.keyed_redeem(client, code), request, code)
        self.resource_is_open(tokens.access_token)
        return tokens

    # The resource, which is userinfo.

    def resource(
        self,
        token: str,
        *,
        proofs: Sequence[str] | None = None,
        scheme: str = "DPoP",
        name: str = "DPoP",
        headers: Mapping[str, str] | None = None,
    ) -> httpx.Response:
        """`proofs` are all that are shown; by default one that fits."""
        address = self.metadata["userinfo_endpoint"]
        shown = [self.proof("GET", address, token)] if proofs is None else proofs
        sent = [("Authorization", f"{scheme} {token}"), *((name, one) for one in shown), *(headers or {}).items()]
        return self.client.get(address, headers=sent)

    def resource_is_open(self, token: str, **how: Any) -> httpx.Response:
        answer = self.resource(token, **how)
        assert answer.status_code in {200, 201}, answer.text
        assert answer.headers["Date"]
        return answer

    def resource_is_shut(self, token: str, **how: Any) -> None:
        assert self.resource(token, **how).status_code in {400, 401}


def refused_at_par(answer: httpx.Response, *errors: str) -> None:
    assert answer.status_code in {400, 401}, answer.text
    assert answer.json()["error"] in errors


def refused_client(answer: httpx.Response, suite: Suite, *errors: str) -> None:
    """At the token endpoint: 400, and 401 for `invalid_client` as well."""
    told = answer.json()
    assert answer.status_code == 400 or (answer.status_code, told["error"]) == (401, "invalid_client"), answer.text
    assert answers.is_json(answer)
    assert told["error"] in errors
    answers.checked_error(told, suite.outcome)
