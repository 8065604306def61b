"""Codes: their lifetime, and the effect of a second use."""

from datetime import UTC, datetime, timedelta
from uuid import UUID

from core.domain.federation.oauth.authorization_codes import (
    GRACE,
    LIFETIME,
    ApprovedAuthorization,
    Claim,
    EarlierUse,
    NewCode,
    SecondUse,
    code_challenge,
    second_use,
)
from core.domain.identifiers import AuthorizationCodeId, OrganizationId, ServiceId, SessionId, UserId
from core.domain.secrets import Token
from core.frozen import replace

NOW = datetime(2026, 11, 20, 12, tzinfo=UTC)
SERVICE = ServiceId(UUID(int=1))
CLAIM = Claim(digest=b"d", redirect_uri="https://a.example/", code_challenge=None, proof=b"p")
EARLIER = EarlierUse(NOW, b"p", SessionId(UUID(int=2)), UserId(UUID(int=3)), OrganizationId(UUID(int=4)), SERVICE)


def test_a_code_lasts_a_minute() -> None:
    approved = ApprovedAuthorization(
        service=SERVICE,
        user=UserId(UUID(int=3)),
        parent=SessionId(UUID(int=5)),
        redirect_uri="https://a.example/",
        code_challenge=None,
        nonce=None,
        scopes=(),
        auth_time=NOW,
        authenticated_by=(),
    )
    code = NewCode(id=AuthorizationCodeId(UUID(int=6)), digest=b"d", approved=approved, created_at=NOW)
    assert code.expires_at == NOW + LIFETIME == NOW + timedelta(seconds=60)


def test_the_challenge_of_the_standard() -> None:
    """RFC 7636, appendix B."""
    assert code_challenge(Token("dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk")) == "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM"


def test_whoever_has_the_same_proof_may_be_hasty_and_nobody_else() -> None:
    assert second_use(CLAIM, SERVICE, EARLIER, NOW + GRACE) is SecondUse.REPEATED
    assert second_use(CLAIM, SERVICE, EARLIER, NOW + GRACE + timedelta(microseconds=1)) is SecondUse.STOLEN
    assert second_use(replace(CLAIM, proof=b"other"), SERVICE, EARLIER, NOW) is SecondUse.STOLEN
    assert second_use(CLAIM, ServiceId(UUID(int=9)), EARLIER, NOW) is SecondUse.STOLEN
