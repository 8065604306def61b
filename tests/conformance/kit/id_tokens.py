"""The conditions on ID tokens and logout tokens."""

import json
import time
from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import Any, Final

import jwt
from jwt.utils import base64url_encode

from tests.conformance.kit.answers import SKEW, valid_claims
from tests.conformance.kit.outcome import words

_DAY: Final = 86_400
_YEAR: Final = 365 * _DAY
_LONGEST_SUBJECT: Final = 255
_KINDS: Final[Mapping[str, str]] = {"RS": "RSA", "PS": "RSA", "ES": "EC", "Ed": "OKP"}
# What an ID token says beside the person.
OWN: Final = words("iss aud exp iat auth_time nonce acr amr azp c_hash at_hash s_hash jti nbf verified_claims")
# What an ID token may say for the scope `openid`.
EXPECTED: Final = (OWN | {"sub", "sid", "openbanking_intent_id", "txn"}) - {"verified_claims"}


def verified(token: str, keys: Mapping[str, Any]) -> Mapping[str, Any]:
    """The claims, whose signature is by the published key that the head names: one of this id, kind, algorithm and use."""
    header = jwt.get_unverified_header(token)
    algorithm, kid = header["alg"], header.get("kid")
    fitting = [key for key in keys["keys"] if _fits(key, algorithm) and kid in {None, key["kid"]}]
    named = [key for key in fitting if kid is not None and key.get("alg") == algorithm and key.get("use") == "sig"]
    assert len(named) <= 1
    assert fitting, "no published key fits the head"
    unchecked = {f"verify_{one}": False for one in ("aud", "exp", "iat", "nbf", "iss", "sub", "jti")}
    for number, key in enumerate(fitting, start=1):
        try:
            return jwt.decode(token, jwt.PyJWK(key, algorithm), algorithms=[algorithm], options=unchecked)  # type: ignore[arg-type]  # a subset
        except jwt.InvalidSignatureError:
            if kid is not None or number == len(fitting):
                raise
    raise AssertionError


def _fits(key: Mapping[str, Any], algorithm: str) -> bool:
    wanted = {"kty": _KINDS[algorithm[:2]], "alg": algorithm, "use": "sig"}
    return {**wanted, **{name: key[name] for name in wanted.keys() & key.keys()}} == wanted


def checked(token: str, keys: Mapping[str, Any], issuer: str, client_id: str, nonce: str | None) -> Mapping[str, Any]:
    """The claims, by the conditions that every module has for its ID tokens."""
    claims, moment = verified(token, keys), time.time()
    is_from(claims, issuer, client_id)
    assert moment - SKEW <= claims["exp"] <= moment + 50 * _YEAR
    assert moment - SKEW <= claims["iat"] <= moment + SKEW
    if "auth_time" in claims:
        assert moment - _YEAR <= claims["auth_time"] <= moment + SKEW
    assert claims.get("acr") != ""
    assert isinstance(claims.get("acr", "x"), str)
    assert claims.get("nonce") == nonce
    valid_claims({name: value for name, value in claims.items() if name not in OWN})
    subject = claims["sub"]
    assert 0 < len(subject) <= _LONGEST_SUBJECT
    assert all(0x20 <= ord(letter) < 0x7F for letter in subject)
    return claims


def is_from(claims: Mapping[str, Any], issuer: str, client_id: str) -> None:
    assert claims["iss"] == issuer
    audience: str | Sequence[str] = claims["aud"]
    assert client_id == audience if isinstance(audience, str) else client_id in audience


def half_digest(text: str) -> str:
    """`at_hash` and `c_hash` of algorithms with SHA-256."""
    return base64url_encode(sha256(text.encode()).digest()[:16]).decode()


def renewed(first: Mapping[str, Any], second: Mapping[str, Any]) -> None:
    """The ID token of a refresh goes with that of the sign-in (OpenID Connect Core section 12.2)."""
    for claim in ("iss", "sub"):
        assert first[claim] == second[claim]
    assert first["iat"] != second["iat"]
    audiences = [{one} if isinstance(one, str) else set(one) for one in (first["aud"], second["aud"])]
    assert audiences[0] == audiences[1]
    if "auth_time" in second:
        assert second["auth_time"] == first["auth_time"]
    assert first.get("azp") == second.get("azp")


def logout_token(token: str, keys: Mapping[str, Any], issuer: str, id_token: Mapping[str, Any], client_id: str) -> None:
    """The conditions of back-channel logout."""
    claims, moment = verified(token, keys), time.time()
    is_from(claims, issuer, client_id)
    assert moment - _DAY <= claims["iat"] <= moment + SKEW
    assert claims["jti"]
    assert claims["events"] == {"http://schemas.openid.net/event/backchannel-logout": {}}
    assert claims.get("sub", id_token["sub"]) == id_token["sub"]
    assert "sid" not in claims or claims["sid"] == id_token["sid"]
    assert "nonce" not in claims
    assert {"sub", "sid"} & claims.keys()


def header(token: str) -> Mapping[str, Any]:
    return jwt.get_unverified_header(token)


def claims_of(token: str) -> Mapping[str, Any]:
    """Without a look at the signature."""
    claims: Mapping[str, Any] = jwt.decode(token, options={"verify_signature": False})
    return claims


def now() -> int:
    return int(time.time())


def as_json(claims: Mapping[str, Any]) -> str:
    return json.dumps(claims)
