"""ID tokens that applications send back as hints: the person whom an application expects, or the person to sign out."""

from uuid import UUID

from core.domain.errors import TokenInvalid
from core.domain.federation.logout.logouts import Hint
from core.domain.identifiers import ClientId, UserId
from ports.tokens import TokenVerifier


async def read_hint(verifier: TokenVerifier, token: str) -> Hint | None:
    """None for anything that is not an ID token of ours. An expired ID token still names its person."""
    try:
        claims = await verifier.verify_id(token)
    except TokenInvalid:
        return None
    try:
        return Hint(UserId(UUID(str(claims["sub"]))), ClientId(str(claims["aud"])))
    except (KeyError, ValueError):
        return None
