"""Tokens with the rights of a management key, for workloads that have no secret. Such a token lives for fifteen minutes, and never longer
than its key, and than the trusted issuer by which it was given.
"""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Final
from uuid import UUID

from core.domain.errors import TokenInvalid
from core.domain.identifiers import ManagementKeyId, TrustedIssuerId
from core.domain.identity.sessions import TokenUse
from core.domain.json import Json, timestamp
from core.domain.tenancy.keys.management_keys import ManagementKeyHolder
from core.domain.tenancy.keys.trusted_issuers import TrustedIssuer
from core.frozen import Frozen

OF_WORKLOAD: Final = "ptw"
"""Begins such a token, as `pto` begins a key. No other kind of token has it, so a look at the text tells how to check it."""
LIFETIME: Final = timedelta(minutes=15)
_AUDIENCE: Final = "management"


class KeyToken(Frozen):
    """What such a token claims. None of it counts before the database has confirmed it."""

    key: ManagementKeyId
    rule: TrustedIssuerId
    rule_of: datetime
    """The last change of the trusted issuer when the token was given."""


def key_claims(
    holder: ManagementKeyHolder, rule: TrustedIssuer, *, issuer: str, token_id: str, now: datetime, expires_at: datetime
) -> Mapping[str, Json]:
    """The token names no session, so no rule for people and applications admits it."""
    return {
        "iss": issuer,
        "sub": str(holder.key),
        "aud": _AUDIENCE,
        "exp": int(expires_at.timestamp()),
        "iat": int(now.timestamp()),
        "jti": token_id,
        "token_use": TokenUse.MANAGEMENT_KEY.value,
        "org": holder.organization_slug,
        "trusted_issuer": str(rule.id),
        "trusted_issuer_of": timestamp(rule.updated_at),
    }


def key_token(claims: Mapping[str, Json]) -> KeyToken:
    """Raises `TokenInvalid` for a token of ours that is for something else."""
    if claims.get("token_use") != TokenUse.MANAGEMENT_KEY.value or claims.get("aud") != _AUDIENCE:
        raise TokenInvalid(detail="no token with the rights of a management key")
    return KeyToken(
        ManagementKeyId(UUID(str(claims["sub"]))),
        TrustedIssuerId(UUID(str(claims["trusted_issuer"]))),
        datetime.fromisoformat(str(claims["trusted_issuer_of"])),
    )
