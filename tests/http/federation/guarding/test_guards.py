"""The guards of `ops/middleware` take the tokens that Postern makes, and only in the API that they are for."""

import jwt
import pytest

from core.domain.identity.sessions import TWO_FACTORS as OUR_NAME
from ops.middleware.postern_tokens import TWO_FACTORS, Refused, Tokens, require
from tests.http.federation.relying import Application, Relying
from tests.http.people import BASE_URL


async def guard_of(relying: Relying, application: Application, monkeypatch: pytest.MonkeyPatch) -> Tokens:
    published = (await relying.client.get("/.well-known/jwks.json")).ok()
    monkeypatch.setattr(jwt.PyJWKClient, "fetch_data", lambda _: published)
    audience = [f"service:acme/{application.service.slug}", "services:acme"]
    return Tokens(BASE_URL, audience=audience, ids=[str(application.service.id), str(relying.acme.id)])


async def test_a_guard_takes_the_tokens_of_its_service(relying: Relying, monkeypatch: pytest.MonkeyPatch) -> None:
    guard = await guard_of(relying, relying.shop, monkeypatch)
    tokens = await relying.signed_in(relying.shop, scopes="openid email")
    claims = guard.claims([f"Bearer {tokens['access_token']}"])
    assert claims["sub"] == str(relying.ada.user)
    require(claims, "openid", "email", max_age=600)
    # The code says that the person proved who they are five minutes ago, by a password.
    for wanted, error in (({"max_age": 60}, "max_age"), ({"two_factors": True}, OUR_NAME)):
        with pytest.raises(Refused) as refused:
            require(claims, **wanted)
        assert (refused.value.status, error in refused.value.challenge) == (401, True)
    own = (await relying.ask(fields={"grant_type": "client_credentials"}, headers=relying.shop.basic)).ok()
    assert guard.claims([f"Bearer {own['access_token']}"])["token_use"] == "client"


async def test_a_guard_takes_no_other_token(relying: Relying, monkeypatch: pytest.MonkeyPatch) -> None:
    guard = await guard_of(relying, relying.shop, monkeypatch)
    tokens = await relying.signed_in(relying.shop)
    elsewhere = await relying.signed_in(relying.phone)
    for token in (tokens["id_token"], tokens["refresh_token"], elsewhere["access_token"], await relying.people.token(relying.ada)):
        with pytest.raises(Refused) as refused:
            guard.claims([f"Bearer {token}"])
        assert 'error="invalid_token"' in refused.value.challenge


def test_a_second_factor_has_one_name() -> None:
    assert TWO_FACTORS == OUR_NAME
