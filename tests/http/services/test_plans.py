"""The plans of a service over HTTP: made, listed, changed and deleted by the people of its organization, and by nobody else."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final
from uuid import UUID, uuid4

import trio

from core.domain.services.plans import HIGHEST_PRICE, MOST_PLANS
from core.domain.tenancy.roles import Capability
from tests.http.client import Received, refused
from tests.http.subscribing import PLANS, Market

PRO: Final[Mapping[str, Any]] = {
    "name": "Pro",
    "price_cents": 1900,
    "currency": "eur",
    "features": ["export", "Priority support"],
    "billing_price_id": "price_1Nx",
}


async def created(market: Market, **terms: Any) -> dict[str, Any]:
    answer = await market.manage("POST", body={**PRO, **terms})
    assert answer.status == 200, answer.body
    body: dict[str, Any] = answer.json()
    return body


async def listed(market: Market, plans: str = PLANS) -> list[dict[str, Any]]:
    answer = await market.manage("GET", plans=plans)
    assert answer.status == 200, answer.body
    body: list[dict[str, Any]] = answer.json()
    return body


async def test_a_plan_is_made_as_said_and_listed(market: Market) -> None:
    body = await created(market)
    assert body == {
        **PRO,
        "key": "pro",
        "id": body["id"],
        "service_id": str(market.shop.id),
        "subscription_count": 0,
        "created_at": body["created_at"],
    }
    assert abs((datetime.fromisoformat(body["created_at"]) - market.now).total_seconds()) < 60
    assert await listed(market) == [body]


async def test_a_key_is_unique_in_the_service_and_made_of_the_name_if_none_is_given(market: Market) -> None:
    keys = [(await created(market, name=name))["key"] for name in ("Pro Plus!", "pro plus", "\u0661")]
    assert keys == ["pro-plus", "pro-plus-2", "plan"]
    assert (await created(market, key="gold_1"))["key"] == "gold_1"
    taken = await market.manage("POST", body={**PRO, "key": "gold_1"})
    assert refused(taken) == (409, "CONFLICT")
    for wrong in ("", "A", "-a", "a-", "x" * 51, "a b", "\u0661"):
        assert refused(await market.manage("POST", body={**PRO, "key": wrong})) == (400, "BAD_REQUEST"), wrong


async def test_only_name_price_and_currency_are_needed(market: Market) -> None:
    answer = await market.manage("POST", body={"name": "  Basic\n plan ", "price_cents": 0, "currency": "USD"})
    assert answer.status == 200
    body = answer.json()
    shown = (body["name"], body["price_cents"], body["currency"], body["features"], body["billing_price_id"])
    assert shown == ("Basic plan", 0, "usd", [], None)
    assert await listed(market) == [body]


WRONG: Final[list[dict[str, Any]]] = [
    {"name": ""},
    {"name": " \n\u200b "},
    {"name": "x" * 101},
    {"name": None},
    {"name": 1},
    {"price_cents": -1},
    {"price_cents": HIGHEST_PRICE + 1},
    {"price_cents": 10**30},
    {"price_cents": 1.5},
    {"price_cents": "100"},
    {"price_cents": True},
    {"price_cents": None},
    {"currency": ""},
    {"currency": "eu"},
    {"currency": "euro"},
    {"currency": "e1r"},
    {"currency": "\u0435ur"},
    {"currency": None},
    {"features": "export"},
    {"features": [1]},
    {"features": [""]},
    {"features": ["  "]},
    {"features": ["x" * 101]},
    {"features": ["export", " export "]},
    {"features": [f"feature number {number}" for number in range(150)]},
    {"features": ["\U0001f680" * 100, "\U0001f681" * 100]},
    {"features": None},
    {"billing_price_id": ""},
    {"billing_price_id": " "},
    {"billing_price_id": "x" * 256},
    {"billing_price_id": "price\n1"},
    {"billing_price_id": "pr\u00edce"},
    {"billing_price_id": 1},
]


async def test_terms_that_cannot_be_are_refused(market: Market) -> None:
    body = await created(market)
    for wrong in WRONG:
        (field,) = wrong
        for answer in (await market.manage("POST", body={**PRO, **wrong}), await market.manage("PATCH", f"/{body['id']}", wrong)):
            assert refused(answer) == (400, "BAD_REQUEST"), wrong
            assert answer.json()["error"].startswith(field), wrong
    for missing in ("name", "price_cents", "currency"):
        answer = await market.manage("POST", body={name: value for name, value in PRO.items() if name != missing})
        assert refused(answer) == (400, "BAD_REQUEST"), missing
        assert missing in answer.json()["error"]
    # Neither half of a surrogate pair, nor characters that PostgreSQL cannot store.
    for text in (b"a\\u0000b", b"\\ud800"):
        assert refused(await market.manage("POST", body=b'{"name":"%s","price_cents":1,"currency":"eur"}' % text)) == (400, "BAD_REQUEST")
    assert await listed(market) == [body]
    assert [event["name"] for event in market.told()] == ["plan.created"]


async def test_hostile_words_are_only_words(market: Market) -> None:
    words = ["'; drop table plans; --", "<script>alert(1)</script>", "%s %(id)s {0}", "\\x00", "\u0661\u0662", "\U0001f680", "a" * 100]
    made = [await created(market, name=text, features=[text]) for text in words]
    assert [(body["name"], body["features"]) for body in made] == [(text, [text]) for text in words]
    assert await listed(market) == made


async def test_the_list_goes_by_price_and_then_by_age(market: Market) -> None:
    made = {name: await created(market, name=name, price_cents=price) for name, price in (("b", 5), ("c", 9), ("a", 5), ("free", 0))}
    assert await listed(market) == [made[name] for name in ("free", "b", "a", "c")]


async def test_what_is_said_changes_and_the_rest_stays(market: Market) -> None:
    body = await created(market)
    changes: list[dict[str, Any]] = [
        {"name": "Team"},
        {"price_cents": 0},
        {"currency": "USD"},
        {"features": []},
        {"features": ["sso", "audit"]},
        {"billing_price_id": None},
        {"billing_price_id": "price_2", "price_cents": HIGHEST_PRICE},
    ]
    for change in changes:
        answer = await market.manage("PATCH", f"/{body['id']}", change)
        body |= {**change, **({"currency": "usd"} if "currency" in change else {})}
        assert (answer.status, answer.json()) == (200, body)
        assert await listed(market) == [body]
    (row,) = market.people.rows("select updated_at > created_at as touched from plans")
    assert row["touched"]


async def test_a_change_needs_a_field_and_one_that_changes_nothing_is_not_told(market: Market) -> None:
    body = await created(market)
    for nothing in ({}, None, {"color": "red"}):
        answer = await market.manage("PATCH", f"/{body['id']}", nothing)
        assert refused(answer) == (400, "BAD_REQUEST")
    before = market.people.rows("select * from plans")
    assert (await market.manage("PATCH", f"/{body['id']}", PRO)).json() == body
    assert market.people.rows("select * from plans") == before
    assert len(market.told()) == 1


async def test_new_terms_reach_all_subscribers_and_count_them(market: Market) -> None:
    body = await created(market)
    ada, bob, plan = market.user(), market.user(), UUID(body["id"])
    await market.subscribed(ada, plan)
    await market.subscribed(bob, plan, status="past_due")
    await market.subscribed(market.user(), plan, status="cancelled")
    assert [one["subscription_count"] for one in await listed(market)] == [2]
    answer = await market.manage("PATCH", f"/{plan}", {"name": "Team", "features": ["sso"]})
    assert answer.json()["subscription_count"] == 2
    token = await market.tenants.token_in(ada, market.shop)
    own = (await market.client.get("/api/subscription", token=token)).json()
    assert (own["plan"], own["features"]) == ("Team", ["sso"])


async def test_a_plan_is_deleted_once_nobody_is_on_it(market: Market) -> None:
    body = await created(market)
    ada, plan = market.user(), UUID(body["id"])
    await market.subscribed(ada, plan)
    for status in ("active", "past_due"):
        await market.ask("PATCH", f"/{ada.user}", {"status": status})
        answer = await market.manage("DELETE", f"/{plan}")
        assert (refused(answer), answer.json()["error"]) == ((400, "BAD_REQUEST"), "The plan has active subscriptions")
    await market.ask("PATCH", f"/{ada.user}", {"status": "cancelled"})
    answer = await market.manage("DELETE", f"/{plan}")
    assert (answer.status, answer.body) == (204, b"")
    assert await listed(market) == []
    for method, change in (("DELETE", None), ("PATCH", {"name": "Team"})):
        assert refused(await market.manage(method, f"/{plan}", change)) == (404, "NOT_FOUND")
    assert (await market.get(ada))["plan_name"] == "Pro"


async def test_each_is_told_to_webhooks_and_the_audit_log(market: Market) -> None:
    body = await created(market)
    await market.manage("PATCH", f"/{body['id']}", {"name": "Team", "billing_price_id": None, "currency": "eur"})
    await market.manage("DELETE", f"/{body['id']}")
    common = {
        "organization_id": market.acme.id,
        "actor_id": market.admin.user,
        "target_type": "plan",
        "target_id": body["id"],
    }
    service = {"service_id": str(market.shop.id), "service_slug": "shop"}
    changed = {
        "name": "Team",
        "currency": "eur",
        "old_name": "Pro",
        "new_name": "Team",
        "old_billing_price_id": "price_1Nx",
        "new_billing_price_id": None,
    }
    expected = [
        {"name": "plan.created", **common, "details": {**service, **PRO, "key": "pro"}},
        {"name": "plan.updated", **common, "details": {**service, **changed}},
        {"name": "plan.deleted", **common, "details": {**service, **PRO, "key": "pro", "name": "Team", "billing_price_id": None}},
    ]
    assert market.told() == expected
    assert market.told("audit_log") == expected


async def test_another_services_plans_are_not_there(market: Market) -> None:
    others = [market.plan(market.app), market.plan(market.theirs), uuid4()]
    before = market.people.rows("select * from plans order by id")
    for plan in others:
        for method, change in (("PATCH", {"name": "Mine"}), ("DELETE", None)):
            answer = await market.manage(method, f"/{plan}", change)
            assert (refused(answer), answer.json()["error"]) == ((404, "NOT_FOUND"), "There is no such plan")
    assert await listed(market) == []
    assert market.people.rows("select * from plans order by id") == before


async def test_another_organizations_service_is_not_there(market: Market) -> None:
    """Once under its own organization, of which the caller is no member; once under the caller's, which has no service of that slug."""
    lonely = market.tenants.service(market.globex, "lonely")
    plan = market.plan(lonely)
    for organization, status in (("globex", 403), ("acme", 404)):
        plans = f"/api/organizations/{organization}/services/lonely/plans"
        for method, path, body in (
            ("GET", "", None),
            ("POST", "", PRO),
            ("PATCH", f"/{plan}", {"name": "X"}),
            ("DELETE", f"/{plan}", None),
        ):
            assert (await market.manage(method, path, body, plans=plans)).status == status, (organization, method)
    assert [row["name"] for row in market.people.rows("select name from plans")] == ["Pro"]


async def test_two_services_of_one_slug_have_each_their_own(market: Market) -> None:
    """Acme's app and globex's app, called by a member of both."""
    person = market.tenants.join(market.admin, market.globex, "admin")
    ours, theirs = (f"/api/organizations/{slug}/services/app/plans" for slug in ("acme", "globex"))
    one = (await market.manage("POST", body=PRO, by=person, plans=ours)).json()
    assert (await market.manage("GET", by=person, plans=theirs)).json() == []
    assert (await market.manage("DELETE", f"/{one['id']}", by=person, plans=theirs)).status == 404
    assert one["service_id"] == str(market.app.id)


async def test_a_service_that_is_being_deleted_has_no_plans(market: Market) -> None:
    plan = market.plan()
    market.people.change("update all_services set deleted_at = now() where id = %s", market.shop.id)
    for method, path, body in (("GET", "", None), ("POST", "", PRO), ("PATCH", f"/{plan}", {"name": "X"}), ("DELETE", f"/{plan}", None)):
        assert (await market.manage(method, path, body)).status == 404
    assert len(market.people.rows("select from plans where deleted_at is null")) == 1


async def test_members_see_and_only_who_manages_services_changes(market: Market) -> None:
    plan = market.plan()
    seeing = market.tenants.member(market.acme)
    managing = market.tenants.member(market.acme, market.tenants.role(market.acme, "managing", [Capability.SERVICES_MANAGE]))
    billing = market.tenants.member(market.acme, market.tenants.role(market.acme, "billing", [Capability.BILLING_MANAGE]))
    asked = (("GET", "", None), ("POST", "", PRO), ("PATCH", f"/{plan}", {"name": "X"}), ("DELETE", f"/{plan}", None))
    statuses = {
        name: [(await market.manage(method, path, body, by=person)).status for method, path, body in asked]
        for name, person in {"seeing": seeing, "billing": billing, "managing": managing}.items()
    }
    assert statuses == {"seeing": [200, 403, 403, 403], "billing": [403] * 4, "managing": [403, 200, 200, 204]}


async def test_whoever_has_a_hundred_plans_deletes_one_first(market: Market) -> None:
    plans = [market.plan() for _ in range(MOST_PLANS)]
    assert refused(await market.manage("POST", body=PRO)) == (400, "BAD_REQUEST")
    assert len(await listed(market)) == MOST_PLANS
    assert (await market.manage("DELETE", f"/{plans[0]}")).status == 204
    assert (await market.manage("POST", body=PRO)).status == 200


async def test_a_service_has_a_hundred_plans_and_of_those_that_come_for_the_last_place_one_gets_it(market: Market) -> None:
    for _ in range(MOST_PLANS - 1):
        market.plan()
    market.people.change("update plans set deleted_at = now() where id = %s", market.plan())
    answers: list[Received] = []

    async def create() -> None:
        answers.append(await market.manage("POST", body=PRO))

    async with trio.open_nursery() as nursery:
        for _ in range(20):
            nursery.start_soon(create)
    assert sorted(answer.status for answer in answers) == [200] + [400] * 19
    assert len(await listed(market)) == MOST_PLANS


async def test_changes_at_once_are_one_after_the_other(market: Market) -> None:
    body = await created(market)

    async def change(number: int) -> None:
        field: dict[str, Any] = {"name": f"Plan {number}"} if number % 2 else {"price_cents": number}
        assert (await market.manage("PATCH", f"/{body['id']}", field)).status == 200

    async with trio.open_nursery() as nursery:
        for number in range(20):
            nursery.start_soon(change, number)
    last: dict[str, Any] = {"name": "Pro", "price_cents": PRO["price_cents"]}
    # Each event has the old and the new value, so in order the events join.
    for event in market.told()[1:]:
        for term in ("name", "price_cents"):
            if f"new_{term}" in event["details"]:
                assert event["details"][f"old_{term}"] == last[term]
                last[term] = event["details"][f"new_{term}"]
    (now,) = await listed(market)
    assert {term: now[term] for term in last} == last


async def test_ids_and_slugs_are_themselves_and_nothing_else(market: Market) -> None:
    market.plan()
    for plan in ("x", "0", "%00", "..%2F..", "{0199d3a0-0000-7000-8000-000000000001}"):
        assert (await market.manage("PATCH", f"/{plan}", {"name": "X"})).status in {400, 404}, plan
        assert (await market.manage("DELETE", f"/{plan}")).status in {400, 404}, plan
    for slug in ("nowhere", "SHOP", "sh%25p", "shop%20", "%ff", "%00", "'%20or%20true%20--"):
        answer = await market.manage("GET", plans=f"/api/organizations/acme/services/{slug}/plans")
        assert answer.status in {400, 404}, slug


# The caller's own look-up included. For an empty list, one more query checks that the service exists.
ROUND_TRIPS: Final = {"empty": 3, "create": 5, "list": 2, "change": 4, "delete": 4}


async def test_round_trips(market: Market) -> None:
    measured: dict[str, int] = {}
    for _ in ("warm", "measured"):
        plan = ""
        for name, method, body in (
            ("empty", "GET", None),
            ("create", "POST", PRO),
            ("list", "GET", None),
            ("change", "PATCH", {"name": "X"}),
            ("delete", "DELETE", None),
        ):
            market.log.entries.clear()
            answer = await market.manage(method, f"/{plan}" if name in {"change", "delete"} else "", body)
            assert answer.status in {200, 204}
            if name == "create":
                plan = answer.json()["id"]
            (line,) = market.log.events("request")
            measured[name] = line["db_round_trips"]
    assert measured == ROUND_TRIPS
