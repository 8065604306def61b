"""ID tokens that come back to us as hints: of whom an application expects, and who is to be signed out."""

from uuid import UUID

from core.domain.errors import TokenInvalid
from core.domain.federation.logout.logouts import Hint
from core.domain.identifiers import ClientId, UserId
from ports.tokens import TokenVerifier


async def read_hint(verifier: TokenVerifier, token: str) -> Hint | None:
    """None for anything that is not an ID token of ours. An expired one still says whom it was made for."""
    try:
        claims = await verifier.verify_id(token)
    except TokenInvalid:
        return None
    try:
        return Hint(UserId(UUID(str(claims["sub"]))), ClientId(UUID(str(claims["aud"]))))
    except (KeyError, ValueError):
        return None
