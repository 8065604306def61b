"""The public keys for a service's client assertions (RFC 7523). They are a JSON Web Key Set that the service's owners store here, or
publish under an address.
"""

import json
import re
from base64 import urlsafe_b64decode
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any, Final

from core.domain.errors import BadRequest
from core.domain.json import Json
from core.domain.outbound.destinations import NotADestination, OutboundDestination, destination

MOST_KEYS: Final = 10
# The limit for a published set, which may contain keys for other purposes, too.
MOST_PUBLISHED: Final = 50
LARGEST_SET: Final = 64 << 10
# The time in which a published set must arrive.
PATIENCE: Final = timedelta(seconds=5)
# After this time a published set is read again. It is also read again when an assertion names a key that the set does not have.
KEYS_LIFETIME: Final = timedelta(hours=1)
LONGEST_KEY_ID: Final = 200
# In bytes. A smaller RSA key can be broken; a larger one costs too much processor time.
SMALLEST_MODULUS: Final = 256
LARGEST_MODULUS: Final = 512
_COORDINATE: Final = 32
# The additional members of a private or symmetric key (RFC 7518 section 6).
_PRIVATE: Final = frozenset({"d", "p", "q", "dp", "dq", "qi", "oth", "k"})
_BASE64URL: Final = re.compile(r"[A-Za-z0-9_-]+")
# The algorithms that each kind of key may be used with.
KEY_ALGORITHMS: Final[Mapping[str, Sequence[str]]] = {"RSA": ("RS256", "PS256"), "EC": ("ES256",), "OKP": ("EdDSA",)}
ASSERTION_ALGORITHMS: Final = tuple(one for algorithms in KEY_ALGORITHMS.values() for one in algorithms)


def client_keys(given: Mapping[str, Any]) -> Mapping[str, Json]:
    """The set as it is stored: of each key only the members that verifying needs. Raises `BadRequest`."""
    keys = given.get("keys")
    if not isinstance(keys, list | tuple) or not 1 <= len(keys) <= MOST_KEYS:
        raise BadRequest(
            f"jwks: an object with `keys`, a list of 1 to {MOST_KEYS} public keys (RFC 7517)",
            words="jwks_malformed",
            values={"most": MOST_KEYS},
        )
    kept = [_key(key, f"jwks.keys[{at}]") for at, key in enumerate(keys)]
    ids = [key.get("kid") for key in kept]
    if len(kept) > 1 and (None in ids or len(set(ids)) < len(ids)):
        raise BadRequest("jwks: of several keys, each needs a `kid` of its own", words="jwks_kid")
    return {"keys": kept}


def keys_destination(url: str) -> OutboundDestination:
    """The address of a published set. Raises `BadRequest`."""
    try:
        return destination(url)
    except NotADestination as refusal:
        raise BadRequest(f"jwks_uri: {refusal}", words="web_address") from None


def published_keys(status: int, body: bytes) -> Mapping[str, Json]:
    """The keys of a published set that can verify assertions. Keys for other purposes are ignored. Raises `BadRequest`."""
    if status != 200:
        raise BadRequest(f"jwks_uri: answers with status {status}", words="keys_status", values={"status": status})
    if len(body) > LARGEST_SET:
        raise BadRequest(
            f"jwks_uri: answers with more than {LARGEST_SET >> 10} KiB", words="keys_too_long", values={"most": LARGEST_SET >> 10}
        )
    try:
        given = json.loads(body)
    except (ValueError, RecursionError):
        raise BadRequest("jwks_uri: does not answer with JSON", words="keys_not_published") from None
    keys = given.get("keys") if isinstance(given, dict) else None
    if not isinstance(keys, list):
        raise BadRequest("jwks_uri: does not answer with a JSON Web Key Set (RFC 7517)", words="keys_not_published")
    kept: dict[Any, dict[str, Json]] = {}
    for one in keys[:MOST_PUBLISHED]:
        try:
            key = _key(one, "jwks_uri")
        except BadRequest:
            continue
        kept.setdefault(key.get("kid"), key)
    if len(kept) > 1:
        # If a set has several keys, an assertion cannot name the key without an id.
        kept.pop(None, None)
    if not kept:
        raise BadRequest(
            "jwks_uri: publishes no RSA key of 2048 to 4096 bits, no EC key on P-256, and no OKP key on Ed25519, for signatures",
            words="keys_not_published",
        )
    return {"keys": list(kept.values())[:MOST_KEYS]}


def _key(given: Any, field: str) -> dict[str, Json]:
    if not isinstance(given, Mapping):
        raise BadRequest(f"{field}: must be an object", words="jwks_malformed", values={"most": MOST_KEYS})
    if not _PRIVATE.isdisjoint(given):
        raise BadRequest(
            f"{field}: contains a private key; send the public half alone, and replace this key: it is known to others now",
            words="private_key",
        )
    if given.get("use", "sig") != "sig":
        raise BadRequest(f"{field}: use must be sig", words="key_unsuitable")
    kind = given.get("kty")
    if kind == "RSA":
        numbers = {"n": _number(given, "n", field, SMALLEST_MODULUS, LARGEST_MODULUS), "e": _number(given, "e", field, 1, 4)}
    elif kind == "EC" and given.get("crv") == "P-256":
        numbers = {"crv": "P-256", **{name: _number(given, name, field, _COORDINATE, _COORDINATE) for name in ("x", "y")}}
    elif kind == "OKP" and given.get("crv") == "Ed25519":
        numbers = {"crv": "Ed25519", "x": _number(given, "x", field, _COORDINATE, _COORDINATE)}
    else:
        raise BadRequest(
            f"{field}: must be an RSA key of 2048 to 4096 bits, an EC key on P-256, or an OKP key on Ed25519", words="key_unsuitable"
        )
    key: dict[str, Json] = {"kty": kind, **numbers, "use": "sig"}
    if "alg" in given:
        if given["alg"] not in KEY_ALGORITHMS[kind]:
            raise BadRequest(f"{field}: alg must be {' or '.join(KEY_ALGORITHMS[kind])}", words="key_unsuitable")
        key["alg"] = given["alg"]
    if "kid" in given:
        key["kid"] = _key_id(given["kid"], field)
    return key


def _number(given: Mapping[str, Any], name: str, field: str, least: int, most: int) -> str:
    """A number in base64url (RFC 7518 section 6)."""
    text = given.get(name)
    if isinstance(text, str) and len(text) <= 4 * most and _BASE64URL.fullmatch(text) and len(text) % 4 != 1:
        length = len(urlsafe_b64decode(text + "=" * (-len(text) % 4)).lstrip(b"\0" if name in {"n", "e"} else b""))
        if least <= length <= most:
            return text
    raise BadRequest(f"{field}: {name} does not follow RFC 7518, or the size of the key is not accepted", words="key_unsuitable")


def _key_id(given: Any, field: str) -> str:
    if not isinstance(given, str) or not 1 <= len(given) <= LONGEST_KEY_ID or not given.isprintable():
        raise BadRequest(f"{field}: kid must be 1 to {LONGEST_KEY_ID} printable characters", words="jwks_kid")
    return given
