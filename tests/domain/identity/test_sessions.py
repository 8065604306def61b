"""The outcome for a presented refresh token, and the claims of tokens."""

import json
from base64 import urlsafe_b64decode
from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest

from core.domain.identifiers import ClientId, ImpersonationId, OrganizationId, ResourceServerId, ServiceId, SessionId, UserId
from core.domain.identity.devices import Client
from core.domain.identity.proofs import SILENT, UNPROVED, Proved
from core.domain.identity.refresh_tokens import (
    GRACE,
    PresentedRefreshToken,
    RefreshOutcome,
    fingerprint,
    refresh_outcome,
    successor,
    with_empty_part,
)
from core.domain.identity.sessions import (
    NO_SUBSCRIPTION,
    Application,
    Context,
    Impersonated,
    OpenedSession,
    Session,
    SubscriptionState,
    access_claims,
    resource_claims,
)
from core.domain.mail import Email
from core.domain.secrets import Token
from core.domain.tokens import TokenAudience
from core.frozen import replace

NOW = datetime(2026, 11, 20, 12, tzinfo=UTC)
USER, OTHER = (UUID(f"0199d3a0-0000-7000-8000-00000000000{number}") for number in range(2))
SESSION = Session(SessionId(USER), UserId(USER), NOW, NOW, NOW + timedelta(days=30), NOW + timedelta(days=90), authenticated_by=("pwd",))
PRESENTED = PresentedRefreshToken(
    SESSION,
    Email("ada@example.org"),
    is_platform_owner=False,
    is_live=True,
    is_admitted=False,
    organization_is_active=False,
    rotated=True,
    rotated_at=None,
    rotated_by=None,
)
ACME = Context(OrganizationId(OTHER), "acme")
SHOP = Context(OrganizationId(OTHER), "acme", ServiceId(USER), "shop")
ORDERS = TokenAudience(ResourceServerId(OTHER), "https://api.acme.example/orders", ("orders",))
IN_ACME = replace(PRESENTED, session=replace(SESSION, context=ACME), is_admitted=True, organization_is_active=True)
ROTATED = replace(PRESENTED, rotated=False, rotated_at=NOW, rotated_by=b"me")


@pytest.mark.parametrize(
    ("presented", "after", "outcome"),
    [
        (PRESENTED, timedelta(0), RefreshOutcome.GRANTED),
        (IN_ACME, timedelta(0), RefreshOutcome.GRANTED),
        (replace(PRESENTED, rotated=False), timedelta(0), RefreshOutcome.CONTENDED),
        (replace(PRESENTED, is_live=False), timedelta(0), RefreshOutcome.ENDED),
        (replace(ROTATED, is_live=False), timedelta(0), RefreshOutcome.ENDED),
        (ROTATED, GRACE, RefreshOutcome.REPEATED),
        (ROTATED, GRACE + timedelta(microseconds=1), RefreshOutcome.REUSED),
        (replace(ROTATED, rotated_by=b"another"), timedelta(0), RefreshOutcome.REUSED),
        (replace(IN_ACME, is_admitted=False, rotated=False), timedelta(0), RefreshOutcome.NOT_A_MEMBER),
        (replace(IN_ACME, organization_is_active=False, rotated=False), timedelta(0), RefreshOutcome.ORGANIZATION_NOT_ACTIVE),
        (replace(IN_ACME, is_admitted=False, rotated=False, rotated_at=NOW, rotated_by=b"me"), timedelta(0), RefreshOutcome.NOT_A_MEMBER),
        (replace(IN_ACME, is_admitted=False, rotated=False, rotated_at=NOW, rotated_by=b"x"), timedelta(0), RefreshOutcome.REUSED),
    ],
)
def test_what_becomes_of_a_presented_token(presented: PresentedRefreshToken, after: timedelta, outcome: RefreshOutcome) -> None:
    assert refresh_outcome(presented, b"me", NOW + after) is outcome


def test_a_successor_follows_from_its_token_and_the_key_and_from_nothing_else() -> None:
    first = successor(Token("token"), b"key").reveal()
    assert successor(Token("token"), b"key").reveal() == first
    assert len({first, successor(Token("token"), b"other").reveal(), successor(Token("tokem"), b"key").reveal(), "token"}) == 4
    assert len(first) == 43


def test_the_successors_of_a_public_applications_token_have_its_empty_part() -> None:
    """keycloak-js reads the second part of each refresh token as JSON."""
    token = with_empty_part(Token("token"))
    for _ in range(3):
        _, part = token.reveal().split(".")
        assert json.loads(urlsafe_b64decode(part + "=")) == {}
        token = successor(token, b"key")
    assert "." not in successor(Token("token"), b"key").reveal()


def test_a_client_is_the_same_by_its_device_token_and_without_one_by_its_looks() -> None:
    client = Client("192.0.2.1", "Firefox", Token("device"))
    assert fingerprint(client) == fingerprint(replace(client, address="198.51.100.1", user_agent="Firefox, updated"))
    assert fingerprint(client) != fingerprint(replace(client, device_token=Token("another")))
    bare = replace(client, device_token=None)
    assert fingerprint(bare) == fingerprint(replace(bare, address=None))
    assert len({fingerprint(client), fingerprint(bare), fingerprint(replace(bare, user_agent="Safari"))}) == 3


def claims(session: Session, subscription: SubscriptionState = NO_SUBSCRIPTION) -> dict[str, object]:
    opened = OpenedSession(session, Email("ada@example.org"), True, Token("refresh"), subscription)
    return dict(access_claims(opened, issuer="https://id", token_id="t", now=NOW, lifetime=timedelta(minutes=15)))


def test_an_access_token_says_who_where_and_how_long() -> None:
    at = int(NOW.timestamp())
    assert claims(SESSION) == {
        "iss": "https://id",
        "sub": str(USER),
        "aud": "platform",
        "exp": at + 900,
        "iat": at,
        "jti": "t",
        "sid": str(USER),
        "email": "ada@example.org",
        "is_platform_owner": True,
        "token_use": "access",
        "amr": ["pwd"],
    }


@pytest.mark.parametrize(
    ("proved", "told"),
    [
        (UNPROVED, None),
        (Proved(NOW, None, SILENT), None),
        (Proved(NOW), NOW),
        (Proved(NOW, None, NOW - timedelta(days=1)), NOW - timedelta(days=1)),
    ],
)
def test_a_token_for_an_api_tells_when_the_person_signed_in_where_that_is_known(proved: Proved, told: datetime | None) -> None:
    session = replace(SESSION, context=SHOP, proved=proved)
    said = resource_claims(
        session,
        Application(ClientId("shop"), ("orders",)),
        ORDERS,
        issuer="https://id",
        token_id="t",
        now=NOW,
        lifetime=timedelta(minutes=15),
    )
    assert said.get("auth_time") == (None if told is None else int(told.timestamp()))


def test_no_token_outlives_its_session() -> None:
    ending = replace(SESSION, ends_at=NOW + timedelta(seconds=60))
    assert claims(ending)["exp"] == int(NOW.timestamp()) + 60


def test_in_a_service_and_only_there_a_token_says_what_its_user_has_paid_for() -> None:
    pro = SubscriptionState("Pro", ("export", "api"), "past_due", NOW)
    names = ("plan", "features", "subscription_status")
    assert [claims(replace(SESSION, context=SHOP), pro)[name] for name in names] == ["Pro", ["export", "api"], "past_due"]
    assert [claims(replace(SESSION, context=SHOP))[name] for name in names] == ["free", [], "active"]
    for context in (Context(), ACME):
        assert not set(names) & set(claims(replace(SESSION, context=context), pro))


def test_a_token_names_the_organization_the_service_and_the_impersonator() -> None:
    acme = claims(replace(SESSION, context=ACME))
    assert (acme["aud"], acme["org"], "service" in acme) == ("org:acme", "acme", False)
    shop = claims(replace(SESSION, context=SHOP))
    assert (shop["aud"], shop["org"], shop["service"]) == ("service:acme/shop", "acme", "shop")
    session = replace(SESSION, impersonated=Impersonated(ImpersonationId(USER), UserId(OTHER)), ends_at=NOW + timedelta(hours=1))
    acting = claims(session)
    assert (acting["token_use"], acting["impersonator"], acting["impersonation_session"]) == ("impersonation", str(OTHER), str(USER))
    assert (acting["act"], acting["exp"]) == ({"sub": str(OTHER)}, int(NOW.timestamp()) + 3600)
