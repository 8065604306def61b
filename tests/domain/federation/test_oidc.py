"""The claims of an ID token for a session with less data than usual."""

from datetime import UTC, datetime, timedelta
from typing import Any, cast
from uuid import UUID

import pytest

from core.domain.claims import NO_FACTS, ServiceFacts, values
from core.domain.federation.oauth.grants import Granted
from core.domain.federation.oauth.oidc import half_hash, id_claims, id_said
from core.domain.identifiers import ClientId, SessionId, UserId
from core.domain.identity.proofs import Proved
from core.domain.identity.sessions import (
    ONE_FACTOR,
    TWO_FACTORS,
    Application,
    OpenedSession,
    Session,
    access_claims,
    access_said,
    context_class,
)
from core.domain.mail import Email
from core.domain.secrets import Token
from core.frozen import replace

NOW = datetime(2026, 11, 20, 12, tzinfo=UTC)
SESSION = Session(SessionId(UUID(int=1)), UserId(UUID(int=2)), NOW, NOW, NOW + timedelta(days=1), NOW + timedelta(days=1))


def test_a_session_without_proof_and_scopes_says_little() -> None:
    opened = OpenedSession(SESSION, Email("ada@example.org"), False, Token("refresh"))
    client = ClientId(str(UUID(int=3)))
    claims = id_claims(
        Granted(opened, False, ""), client=client, access_token=Token("access"), issuer="https://id.example", now=NOW, expires_at=NOW
    )
    assert set(claims) == {"iss", "aud", "exp", "iat", "sid", "amr", "acr", "at_hash", "sub"}
    assert "client_id" not in access_claims(opened, issuer="x", token_id="y", now=NOW, lifetime=timedelta(minutes=1))
    given = replace(opened, application=Application(client, ()))
    said = access_claims(given, issuer="x", token_id="y", now=NOW, lifetime=timedelta(minutes=1))
    assert said["client_id"] == str(client)
    assert "auth_time" not in said


@pytest.mark.parametrize("facts", [NO_FACTS, ServiceFacts(roles=("editor",), teams=("support",))])
def test_tokens_have_the_claims_of_their_preview_in_its_order(facts: ServiceFacts) -> None:
    client = ClientId(str(UUID(int=3)))
    given = Application(client, ("openid", "email", "profile", "roles", "groups", "organization"))
    opened = OpenedSession(SESSION, Email("ada@example.org"), False, Token("refresh"), application=given, facts=facts)
    of_access: dict[str, Any] = {"issuer": "https://id.example", "token_id": "t", "now": NOW, "lifetime": timedelta(minutes=1)}
    assert [*access_claims(opened, **of_access).items()] == [*values(access_said(opened, **of_access)).items()]
    of_id: dict[str, Any] = {
        "client": client,
        "access_token": Token("access"),
        "issuer": "https://id.example",
        "now": NOW,
        "expires_at": NOW,
    }
    granted = Granted(opened, True, "owner", "n")
    for lifetime in (None, timedelta(hours=8)):
        of_id["session_lifetime"] = lifetime
        told = id_claims(granted, **of_id)
        assert [*told.items()] == [*values(id_said(granted, **of_id)).items()]
        assert ("session_expiry" in told) is (lifetime is not None)


def test_a_session_ends_with_ours_or_when_another_sign_in_is_due() -> None:
    day = timedelta(days=1)

    def ends(session: Session, lifetime: timedelta) -> datetime:
        granted = Granted(OpenedSession(session, Email("ada@example.org"), False, Token("refresh")), False, "")
        claims = id_claims(
            granted,
            client=ClientId("c"),
            access_token=Token("access"),
            issuer="https://id.example",
            now=NOW,
            expires_at=NOW,
            session_lifetime=lifetime,
        )
        return datetime.fromtimestamp(cast("int", claims["session_expiry"]), UTC)

    assert ends(SESSION, day / 2) == NOW + day / 2
    assert ends(SESSION, 2 * day) == NOW + day
    # From the last sign-in on, and not from a second factor. What was not used for long says nothing.
    proved = replace(SESSION, proved=Proved(NOW - day / 4, NOW), expires_at=NOW + timedelta(minutes=5))
    assert ends(proved, day / 2) == NOW + day / 4


def test_the_hash_of_the_standard() -> None:
    """OpenID Connect Core, appendix A.3."""
    assert half_hash(Token("jHkWEdUXMU1BwAsC4vtUsZwnNvTIxEl0z9K3vx5KF0Y")) == "77QmUPtjPfzWtF2AnpK9RQ"


def test_two_factors_are_told_from_one() -> None:
    assert context_class(("pwd", "otp", "mfa")) == TWO_FACTORS
    assert context_class(("pwd",)) == context_class(()) == ONE_FACTOR
