"""DPoP proofs in requests (RFC 9449): with a token request, which binds the tokens to the key, and with a bound token."""

from collections.abc import Mapping

from core.domain.formats import Json
from core.domain.key_proofs import BoundTokenRefused, KeyProofRefused, KeyThumbprint, NonceNeeded, ProvenRequest, require_shown
from entrypoints.bootstrap import Postern
from entrypoints.http.machinery.calls import Request
from entrypoints.http.machinery.limits import AUTH, CLIENT, KEY_PROOFS


async def shown_key(request: Request, postern: Postern, *, is_confidential: bool) -> KeyThumbprint | None:
    """The key whose proof came with a request for tokens, or None. The proof is used up. Checking a signature costs more than refusing:
    nobody who has sent too many bad requests gets there. Raises `KeyProofRefused`, `NonceNeeded`, `RateLimited`.
    """
    if request.header(b"dpop") is None:
        return None
    if not request.has_room(AUTH, CLIENT):
        await request.count(AUTH)
    if not request.has_room_here(KEY_PROOFS):
        request.count_here(KEY_PROOFS)
    try:
        return await _proved(request, postern, is_confidential=is_confidential)
    except NonceNeeded:
        # No mistake: the client asks for the nonce so. Whoever only ever asks has not many signatures checked.
        request.count_here(KEY_PROOFS)
        raise
    except KeyProofRefused:
        await request.count(AUTH)
        raise


async def prove_key(request: Request, postern: Postern, token: str) -> None:
    """Checks the proof of the key that an access token is bound to. A request whose body came slowly is admitted once more, by the same
    proof. Raises `BoundTokenRefused`, and what the verifier of tokens raises.
    """
    if request.shown_key is not None:
        return
    # First: checking a proof costs more than refusing a token, and strangers have none.
    claims = await postern.foundation.token_verifier.verify_issued(token)
    try:
        await _proved(request, postern, token, claims, is_confidential=False)
    except KeyProofRefused as refusal:
        raise BoundTokenRefused(refusal.message, error=refusal.oauth_error, detail=refusal.detail) from None


async def _proved(
    request: Request, postern: Postern, token: str | None = None, claims: Mapping[str, Json] | None = None, *, is_confidential: bool
) -> KeyThumbprint:
    proofs = postern.foundation.key_proofs
    nonce = await proofs.nonce(is_confidential=is_confidential)
    if nonce is not None:
        request.handed_over = (*request.handed_over, (b"dpop-nonce", nonce.encode()))
    header = request.header(b"dpop")
    if header is None:
        raise KeyProofRefused("DPoP: send a proof of the key that the token is bound to")
    # Two headers of this name come as one, with a comma, which no proof has.
    shown = proofs.read(header.decode("latin-1"), ProvenRequest(request.method, postern.foundation.public_url, request.path, token))
    if claims is not None:
        # Whoever has no token of this key uses no proof up.
        require_shown(claims, shown.key)
    if request.limiter is not None:
        request.limiter.admit_client(KEY_PROOFS, shown.key)
    request.shown_key = await proofs.use(shown, is_confidential=is_confidential)
    return request.shown_key
