"""A proof: a JSON Web Token that a client signs for one request, with a key that the proof names (DPoP, RFC 9449 section 4)."""

from base64 import urlsafe_b64encode
from collections.abc import Mapping
from datetime import datetime, timedelta
from hashlib import sha256
from typing import ClassVar, Final, NewType

from core.domain.errors import BadRequest, TokenInvalid
from core.domain.json import Json
from core.domain.key_proofs.addresses import names
from core.frozen import Frozen

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
    text = "The proof of the key does not fit the request"


class KeyProofMissing(BadRequest):
    """The service wants its tokens bound to keys."""

    oauth_error: ClassVar = "invalid_dpop_proof"
    text = "DPoP: this application's tokens are bound to a key, so send a proof of the key with the request (RFC 9449)"


class NonceNeeded(KeyProofRefused):
    """The client repeats its request with this nonce in a new proof (RFC 9449 section 8)."""

    oauth_error: ClassVar = "use_dpop_nonce"
    text = "DPoP: make the proof again with the nonce of the DPoP-Nonce header"


class BoundTokenRefused(TokenInvalid):
    """A token that is bound to a key came without a proof of that key, or a proof came with another token (RFC 9449 section 7.1)."""

    text = "The token is bound to a key: send it with the scheme DPoP, and with a proof of the key"

    def __init__(self, message: str | None = None, *, error: str = "invalid_token", detail: str | None = None) -> None:
        super().__init__(message, detail=detail)
        self.error = error


class ReadKeyProof(Frozen):
    """A proof whose signature is good."""

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
    if not isinstance(address, str) or not names(address, request.origin, request.path):
        raise KeyProofRefused("DPoP: htu is not the address of the request, without its query")
    made_at = claims.get("iat")
    if isinstance(made_at, bool) or not isinstance(made_at, int | float):
        raise KeyProofRefused("DPoP: iat is missing, or is no number of seconds")
    # In this order, since there are whole numbers that are too large to be subtracted from a time.
    if not now.timestamp() - AGE.total_seconds() <= made_at <= now.timestamp() + AHEAD.total_seconds():
        raise KeyProofRefused(f"DPoP: iat is not within the last {AGE.seconds} seconds: make a proof for each request, and set the clock")
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
