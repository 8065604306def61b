"""The service itself and its usage, over the service API."""

from collections.abc import Callable
from typing import Any, Final

import pytest

from core.domain.errors import Unauthorized
from core.domain.identifiers import ApiKeyId, OrganizationId, ServiceId
from core.domain.record.events import SYSTEM
from core.domain.services.api_keys import KeyHolder, Permission
from tests.http.client import refused
from tests.http.people import Person
from tests.http.service_interface import PROFILE, Backend
from tests.http.subscribing import Market
from tests.http.tenants import UsedService

INFO: Final = "/api/service/info"
ANALYTICS: Final = "/api/service/analytics"


@pytest.fixture
def signed_in(market: Market) -> Callable[..., None]:
    """A sign-in to a service, so many days ago."""

    def add(person: Person | None, service: UsedService, days: float, *, success: bool = True) -> None:
        market.people.change(
            "insert into login_events (id, user_id, organization_id, service_id, provider, success, created_at)"
            " values (%s, %s, %s, %s, 'password', %s, now() - %s * interval '1 day')",
            market.postern.foundation.ids.new(),
            None if person is None else person.user,
            service.tenant.id,
            service.id,
            success,
            days,
        )

    return add


async def test_the_service_of_the_key_is_told(market: Market, shop: Backend) -> None:
    for backend in (shop, Backend(market, market.theirs)):
        (row,) = market.people.rows("select id::text, name, slug, service_type, created_at from services where id = %s", backend.service.id)
        answer = await backend.ask("GET", INFO)
        assert answer.status == 200
        body = answer.json()
        assert body == {**row, "created_at": body["created_at"], "metadata": {}, "organization_metadata": {}}
        assert set(body) == {"id", "name", "slug", "service_type", "created_at", "metadata", "organization_metadata"}


async def test_the_name_changes_and_nothing_else(market: Market, shop: Backend) -> None:
    (before,) = market.people.rows("select * from services where id = %s", market.shop.id)
    more = {"slug": "other", "service_type": "api", "redirect_uris": ["https://evil.example/"], "client_id": "x"}
    for name, value in more.items():
        refused = await shop.ask("PATCH", INFO, {"name": "Other", name: value})
        assert (refused.status, refused.json()["error"]) == (400, f"{name}: no such field")
    answer = await shop.ask("PATCH", INFO, {"name": "  The   Shop "})
    assert (answer.status, answer.json()["name"]) == (200, "The Shop")
    assert (await shop.ask("GET", INFO)).json() == answer.json()
    (after,) = market.people.rows("select * from services where id = %s", market.shop.id)
    assert after == {**before, "name": "The Shop", "updated_at": after["updated_at"]}
    assert after["updated_at"] > before["updated_at"]
    (key,) = market.people.rows("select id from api_keys")
    (event,) = market.told()
    assert (event["name"], event["target_id"], event["actor_id"]) == ("service.updated", str(market.shop.id), None)
    assert event["details"] == {
        "service_slug": "shop",
        "service_name": "The Shop",
        "changed": ["name"],
        "old_name": "Shop",
        "api_key_id": str(key["id"]),
    }
    assert market.told("audit_log") == [market.by_key(event)]


@pytest.mark.parametrize("body", [None, {}, {"name": "Shop"}], ids=str)
async def test_without_a_new_name_the_record_is_answered_as_it_is(market: Market, shop: Backend, body: Any) -> None:
    before = market.people.rows("select * from services")
    answer = await shop.ask("PATCH", INFO, body)
    assert (answer.status, answer.json()) == (200, (await shop.ask("GET", INFO)).json())
    assert market.people.rows("select * from services") == before
    assert market.told() == []


@pytest.mark.parametrize("name", ["", " ", "\u200b", "x" * 101, None, 1, ["x"], "a\x00b"], ids=repr)
async def test_what_is_no_name_is_refused(shop: Backend, name: Any) -> None:
    answer = await shop.ask("PATCH", INFO, {"name": name})
    assert refused(answer) == (400, "BAD_REQUEST")
    assert "name" in answer.json()["error"]
    assert (await shop.ask("GET", INFO)).json()["name"] == "Shop"


async def test_what_is_counted_is_the_services_alone(market: Market, shop: Backend, signed_in: Callable[..., None]) -> None:
    assert (await shop.ask("GET", ANALYTICS)).json() == {
        "total_users": 0,
        "total_subscriptions": 0,
        "active_subscriptions": 0,
        "total_logins_30d": 0,
        "unique_users_30d": 0,
    }
    ada, grace, other = market.user(market.shop, market.app), market.user(), market.user(market.theirs, market.app)
    pro, gone = market.plan(), market.plan(name="Gone")
    await market.subscribed(ada, pro, status="cancelled")
    await market.subscribed(ada, pro)
    await market.subscribed(grace, gone, status="past_due")
    market.people.change("update plans set deleted_at = now() where id = %s", gone)
    assert (await market.subscribe(other, market.plan(market.theirs), key=market.key_of(market.theirs))).status == 200
    for person, service, days in (
        (ada, market.shop, 0),
        (ada, market.shop, 29.9),
        (grace, market.shop, 1),
        (grace, market.shop, 30.1),
        (other, market.theirs, 1),
        (ada, market.app, 1),
    ):
        signed_in(person, service, days)
    signed_in(grace, market.shop, 1, success=False)
    signed_in(None, market.shop, 1, success=False)
    answer = await shop.ask("GET", ANALYTICS)
    assert answer.status == 200
    assert answer.json() == {
        "total_users": 2,
        "total_subscriptions": 3,
        "active_subscriptions": 1,
        "total_logins_30d": 3,
        "unique_users_30d": 2,
    }
    counted = (await Backend(market, market.theirs).ask("GET", ANALYTICS)).json()
    assert list(counted.values()) == [1, 1, 1, 1, 1]


async def test_each_endpoint_asks_for_its_own_permission(market: Market, shop: Backend) -> None:
    needed = {
        ("GET", INFO): Permission.READ_SERVICE,
        ("PATCH", INFO): Permission.WRITE_SERVICE,
        ("GET", ANALYTICS): Permission.READ_ANALYTICS,
    }
    for (method, path), permission in needed.items():
        shop.key = market.key_of(market.shop, [each for each in Permission if each is not permission])
        assert refused(await shop.ask(method, path)) == (403, "FORBIDDEN")
        shop.key = market.key_of(market.shop, [permission])
        assert (await shop.ask(method, path)).status == 200


async def test_a_service_that_goes_at_this_moment_is_gone(market: Market) -> None:
    """The key was valid when the request came in. Then another service gets the slug."""
    (key,) = market.people.rows("select id from api_keys")
    shop_id, acme_id = ServiceId(market.shop.id), OrganizationId(market.acme.id)
    holder = KeyHolder(ApiKeyId(key["id"]), shop_id, "shop", acme_id, "acme", frozenset(Permission), "backend", "sk_abc123", PROFILE)
    market.people.change("update all_services set deleted_at = now() where id = %s", market.shop.id)
    for again in (False, True):
        if again:
            market.tenants.service(market.acme, "shop")
        with pytest.raises(Unauthorized):
            await market.postern.services.service_info.rename(holder, "Mine", SYSTEM)
        with pytest.raises(Unauthorized):
            await market.postern.services.service_info.metadata(holder)
        with pytest.raises(Unauthorized):
            await market.postern.services.service_analytics.get(holder)
    assert market.people.rows("select from all_services where name = 'Mine'") == []


# With the key's own question.
ROUND_TRIPS: Final = {("GET", INFO): 2, ("PATCH", INFO): 4, ("GET", ANALYTICS): 2}


async def test_round_trips(market: Market, shop: Backend) -> None:
    measured: dict[tuple[str, str], int] = {}
    for name in ("warm", "measured"):
        for method, path in ROUND_TRIPS:
            market.log.entries.clear()
            assert (await shop.ask(method, path, {"name": name} if method == "PATCH" else None)).status == 200
            (line,) = market.log.events("request")
            measured[method, path] = line["db_round_trips"]
    assert measured == ROUND_TRIPS
