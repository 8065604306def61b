"""DPoP proofs (RFC 9449): their claims, their nonces, the URI that they name, and the protection against replay."""

import hmac
import re
from base64 import urlsafe_b64encode
from collections.abc import Mapping
from datetime import datetime, timedelta
from enum import StrEnum
from hashlib import sha256
from typing import ClassVar, Final, NewType
from urllib.parse import quote

from core.domain.errors import BadRequest, TokenInvalid
from core.domain.formats import Json
from core.frozen import Frozen

LONGEST_ADDRESS: Final = 2000
# The characters of RFC 3986, without `[` and `]` outside the host. A user name before the host is none of ours.
_ADDRESS: Final = re.compile(
    r"(?P<scheme>https?)://(?P<host>\[[0-9a-f:.]+\]|[a-z0-9._-]+)(?::(?P<port>[0-9]{0,5}))?"
    r"(?P<path>/[A-Za-z0-9._~!$&'()*+,;=:@/%-]*)?(?:\?[^#\s]*)?(?:#\S*)?",
    re.IGNORECASE,
)
_ENCODED: Final = re.compile(r"%([0-9A-Fa-f]{2})")
_UNRESERVED: Final = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~")
_STANDS_PLAIN: Final = "/!$&'()*+,;=:@"
_PORTS: Final = {"http": "80", "https": "443"}


def names_address(address: str, origin: str, path: str) -> bool:
    """Compares the `htu` of a proof with the request (RFC 9449 section 4.3, RFC 3986 section 6.2).

    Whether the address is that of a request to this path of the origin, by any query and fragment. Scheme and host count in any case, the
    port of the scheme may be left out, and letters may be percent-encoded. Whatever else differs is another address: a slash more, a
    segment `..`, or another form of the same IPv6 address.
    """
    stated = _normal(address)
    return stated is not None and stated == _normal(origin + quote(path, safe=_STANDS_PLAIN))


def _normal(address: str) -> tuple[str, str, str, str] | None:
    found = None if len(address) > LONGEST_ADDRESS else _ADDRESS.fullmatch(address)
    if found is None:
        return None
    scheme = found["scheme"].lower()
    return scheme, found["host"].lower(), found["port"] or _PORTS[scheme], _ENCODED.sub(_plain, found["path"] or "/")


def _plain(encoded: re.Match[str]) -> str:
    letter = chr(int(encoded[1], 16))
    return letter if letter in _UNRESERVED else f"%{encoded[1].upper()}"


NONCE_PURPOSE: Final = "dpop_nonces"
"""The name of the key that makes the HMACs."""
LONGEST_NONCE: Final = 100
_MINUTE: Final = 60


class NonceRule(StrEnum):
    """Whose proofs need a nonce."""

    NOBODY = "nobody"
    CONFIDENTIAL = "confidential"
    """Clients that authenticate, where they do."""
    EVERYBODY = "everybody"
    """Public clients, too, and requests with an access token."""

    def asks(self, *, is_confidential: bool) -> bool:
        return self is NonceRule.EVERYBODY or (is_confidential and self is NonceRule.CONFIDENTIAL)


def nonce_at(now: datetime, key: bytes) -> str:
    """Returns the nonce of this time (RFC 9449 section 8): the HMAC of a minute."""
    return _nonce(int(now.timestamp()) // _MINUTE, key)


def nonce_counts(nonce: str, now: datetime, key: bytes) -> bool:
    """Returns whether the nonce is valid: it is accepted in its minute and in the next one."""
    minute = int(now.timestamp()) // _MINUTE
    return any(hmac.compare_digest(nonce.encode("utf-8", "replace"), _nonce(one, key).encode()) for one in (minute, minute - 1))


def _nonce(minute: int, key: bytes) -> str:
    return urlsafe_b64encode(hmac.digest(key, str(minute).encode(), sha256)[:18]).decode()


KeyThumbprint = NewType("KeyThumbprint", str)
"""The thumbprint of a public key in base64url (RFC 7638)."""

ALGORITHMS: Final = ("ES256", "ES384", "EdDSA", "PS256", "RS256")
LONGEST_PROOF: Final = 8 << 10
LONGEST_ID: Final = 128
AGE: Final = timedelta(seconds=60)
"""A proof may be this old: clients make one for each request."""
AHEAD: Final = timedelta(seconds=10)
"""The clock of a client may be this far ahead."""
THUMBPRINT_LENGTH: Final = 43


class KeyProofRefused(BadRequest):
    """The message says what is wrong, because it is for the author of a client, and a proof is made by the client alone."""

    oauth_error: ClassVar = "invalid_dpop_proof"
    text = "The DPoP proof does not match the request"


class KeyProofMissing(BadRequest):
    """The service wants its tokens bound to keys."""

    oauth_error: ClassVar = "invalid_dpop_proof"
    text = "DPoP: this application's tokens are bound to a key, so send a DPoP proof of the key with the request (RFC 9449)"


class NonceNeeded(KeyProofRefused):
    """The client repeats its request with this nonce in a new proof (RFC 9449 section 8)."""

    oauth_error: ClassVar = "use_dpop_nonce"
    text = "DPoP: create the proof again with the nonce of the DPoP-Nonce header"


class BoundTokenRefused(TokenInvalid):
    """A token that is bound to a key came without a proof of that key, or a proof came with another token (RFC 9449 section 7.1)."""

    text = "The token is bound to a key: send it with the scheme DPoP, and with a proof of the key"

    def __init__(self, message: str | None = None, *, error: str = "invalid_token", detail: str | None = None) -> None:
        super().__init__(message, detail=detail)
        self.error = error


class ReadKeyProof(Frozen):
    """A proof whose signature is valid: a JSON Web Token that a client signs for one request, with the key that the proof names (RFC 9449
    section 4).
    """

    key: KeyThumbprint
    claims: Mapping[str, Json]


class ProvenRequest(Frozen):
    """The request that a proof has to be made for."""

    method: str
    origin: str
    path: str
    token: str | None = None
    """The access token that comes with it."""


class ShownKey(Frozen):
    """A key whose holder has made this request."""

    key: KeyThumbprint
    proof_id: str
    nonce: str | None


def shown_key(proof: ReadKeyProof, request: ProvenRequest, now: datetime) -> ShownKey:
    """Checks what the proof claims. Whether it was used before, the caller asks. Raises `KeyProofRefused`."""
    claims = proof.claims
    proof_id, address, nonce = claims.get("jti"), claims.get("htu"), claims.get("nonce")
    if not isinstance(proof_id, str) or not 0 < len(proof_id) <= LONGEST_ID:
        raise KeyProofRefused(f"DPoP: jti must be a text of 1 to {LONGEST_ID} characters")
    if claims.get("htm") != request.method:
        raise KeyProofRefused("DPoP: htm is not the method of the request")
    if not isinstance(address, str) or not names_address(address, request.origin, request.path):
        raise KeyProofRefused("DPoP: htu is not the URL of the request, without its query")
    made_at = claims.get("iat")
    if isinstance(made_at, bool) or not isinstance(made_at, int | float):
        raise KeyProofRefused("DPoP: iat is missing, or not a number of seconds")
    # In this order, since there are whole numbers that are too large to be subtracted from a time.
    if not now.timestamp() - AGE.total_seconds() <= made_at <= now.timestamp() + AHEAD.total_seconds():
        raise KeyProofRefused(f"DPoP: iat is not within the last {AGE.seconds} seconds: create a proof for each request, and set the clock")
    if request.token is not None and claims.get("ath") != token_hash(request.token):
        raise KeyProofRefused("DPoP: ath is not the SHA-256 of the access token, in base64url")
    if nonce is not None and not isinstance(nonce, str):
        raise KeyProofRefused("DPoP: nonce must be a text")
    return ShownKey(proof.key, proof_id, nonce)


def token_hash(token: str) -> str:
    return urlsafe_b64encode(sha256(token.encode()).digest()).rstrip(b"=").decode()


def lacks_key(*, binds_tokens: bool, key: KeyThumbprint | None) -> bool:
    """Whether a service that wants its tokens bound would get one that is bound to nothing. Each way to a service's tokens asks this."""
    return binds_tokens and key is None


def bound(claims: Mapping[str, Json], key: KeyThumbprint | None) -> Mapping[str, Json]:
    """The claims of a token that is good with a proof of this key alone (RFC 9449 section 6.1). None binds to nothing."""
    return claims if key is None else {**claims, "cnf": {"jkt": key}}


def key_of(claims: Mapping[str, Json]) -> KeyThumbprint | None:
    """The key that a token of ours is bound to."""
    confirmation = claims.get("cnf")
    return KeyThumbprint(str(confirmation.get("jkt"))) if isinstance(confirmation, Mapping) else None


def require_shown(claims: Mapping[str, Json], key: KeyThumbprint | None) -> None:
    """`key` is the one that the request has shown. Raises `BoundTokenRefused`."""
    of_token = key_of(claims)
    if of_token == key:
        return
    if key is None:
        raise BoundTokenRefused(detail="a bound token came without a proof")
    if of_token is None:
        raise BoundTokenRefused("The token is bound to no key: send it with the scheme Bearer", detail="a proof came with an unbound token")
    raise BoundTokenRefused("The token is bound to another key than the one of the proof", detail="the proof is of another key")


def is_thumbprint(text: str) -> bool:
    """Whether the text can be a thumbprint, as `dpop_jkt` names one."""
    return len(text) == THUMBPRINT_LENGTH and text.isascii() and text.replace("-", "").replace("_", "").isalnum()


# The clocks of the processes and of the database differ a little.
_MARGIN: Final = timedelta(seconds=30)


class UsedKeyProof(Frozen):
    """A proof that was used. Each proof is accepted once (RFC 9449 section 11.1), by all processes together. It is stored until it
    expires.
    """

    digest: bytes
    expires_at: datetime


def used_proof(key: KeyThumbprint, proof_id: str, now: datetime) -> UsedKeyProof:
    """The ids of one key's proofs are the client's own affair: another key's proof with the same id is another proof."""
    digest = sha256(f"{key} {proof_id}".encode("utf-8", "surrogatepass")).digest()
    return UsedKeyProof(digest, now + AGE + AHEAD + _MARGIN)
