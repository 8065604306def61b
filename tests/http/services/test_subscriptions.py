"""A user's own subscription: the endpoint and the tokens of the service say the same."""

from datetime import datetime, timedelta
from typing import Any, Final

import pytest

from adapters.postgres.identity.sessions.parts import SUBSCRIPTION_STATE, subscription_state
from core.domain.identity.sessions import SubscriptionState
from core.domain.secrets import Token
from tests.http.people import Person
from tests.http.subscribing import Market
from tests.http.tenants import UsedService

FREE: Final[dict[str, Any]] = {"service": "shop", "plan": "free", "features": [], "status": "active", "current_period_end": None}


async def own(market: Market, person: Person, service: UsedService | None = None) -> dict[str, Any]:
    token = await market.tenants.token_in(person, service or market.shop)
    answer = await market.client.get("/api/subscription", token=token)
    assert answer.status == 200, answer.body
    body: dict[str, Any] = answer.json()
    # The claims of tokens come from the same SQL fragment.
    (row,) = market.people.rows(
        f"select {SUBSCRIPTION_STATE} as state from users, services where users.id = %s and services.id = %s",
        person.user,
        (service or market.shop).id,
    )
    state = subscription_state(row["state"])
    end = None if body["current_period_end"] is None else datetime.fromisoformat(body["current_period_end"])
    assert state == SubscriptionState(body["plan"], tuple(body["features"]), body["status"], end)
    return body


async def refreshed(market: Market, person: Person, service: UsedService) -> dict[str, Any]:
    """The claims of a new access token of the person's session in the service, got by its refresh token."""
    session, secret = market.tenants.session(person, service), Token(market.postern.foundation.ids.new().hex)
    market.people.change(
        "insert into refresh_tokens (digest, session_id, created_at) values (%s, %s, now())", secret.digest(), session.session
    )
    answer = await market.client.post("/api/auth/refresh", {"refresh_token": secret.reveal()})
    assert answer.status == 200, answer.body
    token = answer.json()["access_token"]
    # We accept the token, with all its claims.
    assert (await market.client.get("/api/subscription", token=token)).status == 200
    claims = await market.postern.foundation.token_verifier.verify_access(token)
    features = claims["features"]
    assert isinstance(features, tuple)
    return {**claims, "features": list(features)}


async def test_a_person_who_never_subscribed_is_on_the_free_plan(market: Market) -> None:
    ada = market.user(market.shop, market.app)
    # A plan of that name is another thing.
    market.plan(name="Free", features=["export"])
    assert await own(market, ada) == FREE
    claims = await refreshed(market, ada, market.shop)
    assert (claims["plan"], claims["features"], claims["subscription_status"]) == ("free", [], "active")


@pytest.mark.parametrize("status", ["active", "past_due", "cancelled", "expired"])
async def test_plan_features_status_and_end_are_those_of_the_subscription(market: Market, status: str) -> None:
    ada, pro = market.user(), market.plan(features=["export", "\u00e9t\u00e9"])
    body = await market.subscribed(ada, pro, status=status, current_period_end="2031-05-01T10:00:00.000001Z")
    assert await own(market, ada) == {
        "service": "shop",
        "plan": "Pro",
        "features": ["export", "\u00e9t\u00e9"],
        "status": status,
        "current_period_end": body["current_period_end"],
    }
    claims = await refreshed(market, ada, market.shop)
    assert (claims["service"], claims["plan"], claims["features"], claims["subscription_status"]) == (
        "shop",
        "Pro",
        ["export", "\u00e9t\u00e9"],
        status,
    )


async def test_one_whose_period_has_ended_counts_as_expired_and_one_past_due_as_past_due(market: Market) -> None:
    for status, counts_as in (("active", "expired"), ("past_due", "past_due"), ("cancelled", "cancelled")):
        ada = market.user()
        await market.subscribed(ada, market.plan(), status=status)
        market.people.change("update subscriptions set current_period_end = now() where user_id = %s", ada.user)
        assert (await own(market, ada))["status"] == counts_as
        assert (await refreshed(market, ada, market.shop))["subscription_status"] == counts_as


async def test_the_next_token_says_what_became_of_it(market: Market) -> None:
    ada, pro = market.user(), market.plan(features=["export"])
    assert (await refreshed(market, ada, market.shop))["plan"] == "free"
    await market.subscribed(ada, pro)
    assert (await refreshed(market, ada, market.shop))["plan"] == "Pro"
    await market.ask("PATCH", f"/{ada.user}", {"status": "past_due"})
    assert (await refreshed(market, ada, market.shop))["subscription_status"] == "past_due"
    await market.ask("DELETE", f"/{ada.user}")
    claims = await refreshed(market, ada, market.shop)
    assert (claims["plan"], claims["features"], claims["subscription_status"]) == ("free", [], "active")


async def test_the_one_that_lives_counts_however_late_history_is_told(market: Market) -> None:
    ada, pro, old = market.user(), market.plan(), market.plan(name="Old")
    await market.subscribed(ada, old, status="cancelled")
    assert (await own(market, ada))["plan"] == "Old"
    await market.subscribed(ada, pro, status="past_due")
    await market.subscribed(ada, old, status="expired")
    body = await own(market, ada)
    assert (body["plan"], body["status"]) == ("Pro", "past_due")


async def test_it_is_of_the_service_of_the_token_and_of_nobody_else(market: Market) -> None:
    ada, bob = market.user(market.shop, market.app, market.theirs), market.user()
    await market.subscribed(ada, market.plan())
    assert await own(market, bob) == FREE
    # Two of one slug, of two organizations.
    answer = await market.subscribe(ada, market.plan(market.theirs, name="Theirs"), key=market.key_of(market.theirs))
    assert answer.status == 200
    assert await own(market, ada, market.app) == {**FREE, "service": "app"}
    body = await own(market, ada, market.theirs)
    assert (body["service"], body["plan"]) == ("app", "Theirs")


async def test_outside_of_a_service_there_is_none(market: Market) -> None:
    ada = market.tenants.join(market.user(), market.acme)
    await market.subscribed(ada, market.plan())
    for place in (None, market.acme):
        answer = await market.client.get("/api/subscription", token=await market.tenants.token_in(ada, place))
        assert (answer.status, answer.error_code) == (400, "BAD_REQUEST")
        assert answer.json()["error"] == "This needs a token for a service: sign in to the service"
    assert (await market.client.get("/api/subscription")).status == 401


async def test_it_costs_one_question_beside_the_callers_own(market: Market) -> None:
    ada = market.user()
    await market.subscribed(ada, market.plan())
    token = await market.tenants.token_in(ada, market.shop)
    for _ in ("warm", "measured"):
        market.log.entries.clear()
        assert (await market.client.get("/api/subscription", token=token)).status == 200
    (line,) = market.log.events("request")
    assert line["db_round_trips"] == 2


async def test_a_plan_with_all_that_fits_makes_a_token_that_is_taken(market: Market) -> None:
    ada = market.user()
    features = ["\u00e9" * 100, "\u00e8" * 100, "\u00ea" * 100, "x" * 100]
    terms = {"name": "\U0001f680" * 100, "price_cents": 1, "currency": "eur", "features": features}
    answer = await market.manage("POST", body=terms)
    assert answer.status == 200, answer.body
    await market.subscribed(ada, answer.json()["id"])
    assert (await refreshed(market, ada, market.shop))["features"] == features
    assert market.now + timedelta(days=29) < datetime.fromisoformat((await own(market, ada))["current_period_end"])
