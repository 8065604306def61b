"""Checks access tokens of Postern in your API. Copy this file and the file of your framework. It needs `pip install "pyjwt[crypto]"`."""

import base64
import hashlib
import json
import time
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from typing import Any
from urllib.parse import urlencode, urlsplit

import jwt

Claims = Mapping[str, Any]
TWO_FACTORS = "http://schemas.openid.net/pape/policies/2007/06/multi-factor"
_CLOCKS_DIFFER = 30
_ASK_AGAIN_AFTER = 10
_PROOFS = ("ES256", "ES384", "EdDSA", "PS256", "RS256")
_LONGEST_PROOF = 8192
_PROOF_LASTS = 60
_MOST_PROOFS = 100_000
_LOGOUT = "http://schemas.openid.net/event/backchannel-logout"


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """A redirect would take token and secret elsewhere, and whoever answers there would say whether the token is active."""

    def redirect_request(self, *_: object) -> None:
        return None


_OPENER = urllib.request.build_opener(_NoRedirects)


class Refused(Exception):
    """The answer to a request that may not pass: a status, and the header `WWW-Authenticate` (RFC 6750, RFC 9470)."""

    def __init__(self, status: int, error: str = "", description: str = "", *, scheme: str = "Bearer", **wanted: str) -> None:
        super().__init__(description or "a token is needed")
        self.status = status
        self.body = {"error": error or "invalid_request", "error_description": str(self)}
        parts = {"error": error, "error_description": description, **wanted}
        self.challenge = f"{scheme} " + ", ".join(f'{name}="{value}"' for name, value in parts.items() if value)


class Tokens:
    def __init__(
        self,
        issuer: str,
        *,
        audience: Sequence[str],
        ids: Sequence[str],
        algorithm: str = "ES256",
        introspect_as: tuple[str, str] | None = None,
        is_ended: Callable[[str], bool] = lambda _sid: False,
        origin: str = "",
        is_used: Callable[[str], bool] | None = None,
    ) -> None:
        """`ids` are the ids of the service and of its organization, because a slug may belong to somebody else tomorrow; of an API that
        stands as such in Postern, its own id. With `introspect_as`, the client's id and secret, Postern is asked at each request whether
        the token is still active. `is_ended` is asked with the `sid` of the token: whether `logout_notice` gave it before. `origin` is the
        address under which applications know the API, "https://api.example.com": with it, tokens that are bound to a key pass with a proof
        of the key (DPoP), and without it, none of them does. `is_used` is asked with the id of each proof whether it came before; keep ids
        for two minutes, where all processes find them. Left out, each process remembers its own.
        """
        self._origin, self._is_used = origin.rstrip("/"), is_used or _Once()
        self.issuer, self.audience, self.ids, self.algorithm = issuer, audience, ids, algorithm
        self._introspect_as, self._is_ended = introspect_as, is_ended
        self._keys = jwt.PyJWKClient(f"{issuer}/.well-known/jwks.json", lifespan=600, timeout=5)
        self._asked_again = -float(_ASK_AGAIN_AFTER)

    def claims(self, authorization: Sequence[str], proofs: Sequence[str] = (), method: str = "", path: str = "") -> Claims:
        """The claims of the token in the headers `Authorization` of a request. `proofs` are its headers `DPoP`, and `path` is its path,
        percent-encoded and without query. Raises `Refused`.
        """
        if not authorization:
            raise Refused(401)
        scheme, _, token = authorization[0].partition(" ")
        if len(authorization) > 1 or scheme.lower() not in {"bearer", "dpop"}:
            raise Refused(401, "invalid_token", "one header Authorization with Bearer and a token is needed")
        claims = self._verified(token, "at+jwt", [self.algorithm], self.audience)
        self._require_key(claims.get("cnf"), token, proofs if scheme.lower() == "dpop" else None, method, path)
        # A token for an API of yours names the API; every other token names the service, or, if it is a program's own, the organization.
        whose = claims.get("resource_id") or claims.get("org_id" if claims.get("token_use") == "client" else "service_id")
        if whose not in self.ids:
            raise Refused(401, "invalid_token", "the token is for another service or API")
        if self._is_ended(str(claims.get("sid"))) or (self._introspect_as and not self._is_active(token, self._introspect_as)):
            raise Refused(401, "invalid_token", "the session has ended")
        return claims

    def logout_notice(self, logout_token: str, client_id: str) -> str:
        """The `sid` of the session that ended, from the form field `logout_token` of Postern's notice. Keep it for as long as an access
        token lives. Raises `Refused`.
        """
        claims = self._verified(logout_token, "logout+jwt", ["RS256", "ES256"], [client_id])
        if _LOGOUT not in claims.get("events", {}) or "nonce" in claims or "sid" not in claims:
            raise Refused(400, "invalid_request", "this is no logout token")
        return str(claims["sid"])

    def _require_key(self, bound_to: Any, token: str, proofs: Sequence[str] | None, method: str, path: str) -> None:
        """A token that is bound to a key passes with a proof of this key alone, and every other without one (RFC 9449 section 7)."""
        if bound_to is None and proofs is None:
            return
        if bound_to is None or proofs is None or not self._origin:
            raise _unproved("the token is bound to a key, or the scheme DPoP came with one that is not")
        if len(proofs) != 1 or len(proofs[0]) > _LONGEST_PROOF:
            raise _unproved("one header DPoP with a proof of the key is needed")
        try:
            thumbprint, said = _proof(proofs[0])
            named, ours, age = urlsplit(said["htu"]), urlsplit(self._origin + path), time.time() - float(said["iat"])
            fits = said["htm"] == method and (_place(named), named.path or "/") == (_place(ours), ours.path or "/")
        except (jwt.PyJWTError, KeyError, TypeError, ValueError, OverflowError, AttributeError, RecursionError):
            raise _unproved("the proof is not valid") from None
        if not fits or not -10 <= age <= _PROOF_LASTS or said.get("ath") != _digest(token.encode()):
            raise _unproved("the proof is for another request")
        proof_id = said.get("jti")
        if bound_to != {"jkt": thumbprint} or not isinstance(proof_id, str) or not 0 < len(proof_id) <= 128:
            raise _unproved("the proof is of another key")
        if self._is_used(f"{thumbprint} {proof_id}"):
            raise _unproved("the proof was used before")

    def _verified(self, token: str, kind: str, algorithms: Sequence[str], audience: Sequence[str]) -> Claims:
        try:
            key = self._key(jwt.get_unverified_header(token).get("kid"))
            options: Any = {"require": ["exp", "iat", "iss", "aud", "sub"]}
            said = jwt.decode_complete(
                token, key, list(algorithms), issuer=self.issuer, audience=list(audience), leeway=_CLOCKS_DIFFER, options=options
            )
        except jwt.PyJWKClientConnectionError:
            raise Refused(503, "temporarily_unavailable", "the keys cannot be fetched") from None
        except jwt.ExpiredSignatureError:
            raise Refused(401, "invalid_token", "the token has expired") from None
        except jwt.InvalidAudienceError:
            raise Refused(401, "invalid_token", "the token is for another audience") from None
        except jwt.InvalidIssuerError:
            raise Refused(401, "invalid_token", "the token is from another issuer") from None
        except jwt.PyJWTError:  # its text may quote the token, so it does not go into a header
            raise Refused(401, "invalid_token", "the token is not valid") from None
        if said["header"].get("typ") != kind:
            raise Refused(401, "invalid_token", "the token is of another type")
        payload: Claims = said["payload"]
        return payload

    def _key(self, kid: str | None) -> jwt.PyJWK:
        """A token with an unknown `kid` has the keys fetched again, but not each such token."""
        key = kid and self._keys.match_kid(self._keys.get_signing_keys(), kid)
        if kid and not key and time.monotonic() - self._asked_again > _ASK_AGAIN_AFTER:
            self._asked_again = time.monotonic()
            key = self._keys.match_kid(self._keys.get_signing_keys(refresh=True), kid)
        if not key:
            raise jwt.InvalidKeyError
        return key

    def _is_active(self, token: str, client: tuple[str, str]) -> bool:
        basic = base64.b64encode(":".join(client).encode()).decode()
        asked = urllib.request.Request(  # noqa: S310 - the issuer is ours
            f"{self.issuer}/oauth/introspect", urlencode({"token": token}).encode(), {"Authorization": f"Basic {basic}"}
        )
        try:
            with _OPENER.open(asked, timeout=5) as answer:
                return json.load(answer).get("active") is True
        except (OSError, ValueError):
            raise Refused(503, "temporarily_unavailable", "Postern cannot be asked whether the session lives") from None


def require(claims: Claims | None, *scopes: str, max_age: int | None = None, two_factors: bool = False) -> None:
    """Each of the scopes, and each of the other conditions, must hold. Raises `Refused`; its challenge asks for a step-up."""
    if claims is None:
        raise Refused(401)
    if not set(scopes) <= set(str(claims.get("scope", "")).split()):
        raise Refused(403, "insufficient_scope", "the token lacks a scope", scope=" ".join(scopes))
    is_old = max_age is not None and time.time() - claims.get("auth_time", 0) > max_age
    if is_old or (two_factors and claims.get("acr") != TWO_FACTORS):
        wanted = {"max_age": str(max_age) if max_age is not None else "", "acr_values": TWO_FACTORS if two_factors else ""}
        raise Refused(401, "insufficient_user_authentication", "sign in again", **wanted)


def _unproved(description: str) -> Refused:
    return Refused(401, "invalid_dpop_proof", description, scheme="DPoP", algs=" ".join(_PROOFS))


def _digest(given: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(given).digest()).rstrip(b"=").decode()


def _place(address: Any) -> tuple[str, str | None, int | None]:
    if address.username is not None or address.scheme not in {"http", "https"}:
        raise ValueError
    return address.scheme, address.hostname, address.port or {"http": 80, "https": 443}[address.scheme]


def _proof(proof: str) -> tuple[str, Claims]:
    """The thumbprint of the key that the proof names, and what the proof claims."""
    header = jwt.get_unverified_header(proof)
    given, algorithm = header["jwk"], header["alg"]
    kind, curve = given["kty"], given.get("crv")
    members = {"EC": ("crv", "kty", "x", "y"), "OKP": ("crv", "kty", "x"), "RSA": ("e", "kty", "n")}[kind]
    public = {name: given[name] for name in members}
    fits = {"ES256": "P-256", "ES384": "P-384", "EdDSA": "Ed25519"}.get(algorithm) == curve and algorithm in _PROOFS
    # Of RSA, the sizes are looked at before anything is computed with the numbers: 2048 to 4096 bits.
    sizes = kind != "RSA" or (342 <= len(public["n"]) <= 683 and len(public["e"]) <= 6)
    if header.get("typ") != "dpop+jwt" or not fits or not sizes or (kind == "RSA") != (algorithm in {"PS256", "RS256"}):
        raise jwt.InvalidKeyError
    if any(name in given for name in ("d", "p", "q", "dp", "dq", "qi", "oth", "k")) or "crit" in header:
        raise jwt.InvalidKeyError
    unchecked: Any = {f"verify_{name}": False for name in ("exp", "nbf", "iat", "aud", "iss", "sub", "jti")}
    claims: Claims = jwt.decode(proof, jwt.PyJWK(public, algorithm), [algorithm], options=unchecked)
    return _digest(json.dumps(public, sort_keys=True, separators=(",", ":")).encode()), claims


class _Once:
    """Remembers the ids of proofs in this process, for as long as a proof counts."""

    def __init__(self) -> None:
        self._new: set[str] = set()
        self._old: set[str] = set()
        self._turned = time.monotonic()

    def __call__(self, one: str) -> bool:
        now = time.monotonic()
        if now - self._turned > _PROOF_LASTS + 10 or len(self._new) > _MOST_PROOFS:
            self._new, self._old, self._turned = set(), self._new, now
        if one in self._new or one in self._old:
            return True
        self._new.add(one)
        return False
