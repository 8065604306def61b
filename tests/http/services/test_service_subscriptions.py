"""The subscriptions of a service over the service API: the current one, its changes, and its events."""

from datetime import datetime, timedelta
from typing import Any, Final
from uuid import UUID, uuid4

import pytest
import trio

from adapters.postgres.driver.connection import Connection
from core.domain.services.api_keys import Permission
from core.domain.services.plans import subscription_changed
from tests.http.client import Received, refused
from tests.http.people import Person
from tests.http.subscribing import Market
from tests.patience import PATIENCE

DAY: Final = timedelta(days=1)
FIELDS: Final = {"id", "user_id", "plan_id", "plan_name", "status", "current_period_end"}


def end_of(body: dict[str, Any]) -> datetime:
    return datetime.fromisoformat(body["current_period_end"])


async def test_a_user_is_subscribed_for_thirty_days_and_active_when_nothing_else_is_said(market: Market) -> None:
    ada, pro = market.user(), market.plan()
    began = market.now
    body = await market.subscribed(ada, pro)
    assert set(body) == FIELDS
    assert (body["user_id"], body["plan_id"], body["plan_name"], body["status"]) == (str(ada.user), str(pro), "Pro", "active")
    assert timedelta(0) <= end_of(body) - began - 30 * DAY < timedelta(minutes=1)
    assert await market.get(ada) == body
    assert market.counts(pro) == (1, 0, 0, 0, 1)


async def test_status_and_end_are_as_said(market: Market) -> None:
    ada, pro = market.user(), market.plan()
    body = await market.subscribed(ada, pro, status="past_due", current_period_end="2031-05-01T12:00:00.123456+02:00")
    assert body["status"] == "past_due"
    assert body["current_period_end"] == "2031-05-01T10:00:00.123456Z"
    assert await market.get(ada) == body
    assert market.counts(pro) == (0, 1, 0, 0, 1)


async def test_webhooks_and_the_audit_log_are_told_by_which_key(market: Market) -> None:
    ada, pro = market.user(), market.plan()
    body = await market.subscribed(ada, pro)
    (key,) = market.people.rows("select id from api_keys")
    expected = {
        "name": "subscription.created",
        "organization_id": market.acme.id,
        "actor_id": None,
        "target_type": "subscription",
        "target_id": body["id"],
        "details": {
            "service_id": str(market.shop.id),
            "service_slug": "shop",
            "user_id": str(ada.user),
            "plan_id": str(pro),
            "plan_name": "Pro",
            "status": "active",
            "current_period_end": body["current_period_end"],
            "api_key_id": str(key["id"]),
        },
    }
    assert market.told() == [expected]
    assert market.told("audit_log") == [market.by_key(expected)]


WRONG: Final[list[dict[str, Any]]] = [
    {"user_id": "x"},
    {"user_id": 1},
    {"user_id": None},
    {"plan_id": "nope"},
    {"plan_id": ""},
    {"plan_id": None},
    {"status": "paused"},
    {"status": "Active"},
    {"status": ""},
    {"status": None},
    {"status": 1},
    {"current_period_end": "tomorrow"},
    {"current_period_end": "2031-05-01"},
    {"current_period_end": "2031-05-01T12:00:00"},
    {"current_period_end": 1},
    {"current_period_end": None},
    {"current_period_end": "0001-01-01T00:00:00+14:00"},
    {"current_period_end": "1969-12-31T00:00:00Z"},
    {"current_period_end": "9999-12-31T23:59:59-12:00"},
]


async def test_what_cannot_be_is_refused_before_anything_is_looked_for(market: Market) -> None:
    good = {"user_id": str(market.user().user), "plan_id": str(market.plan())}
    for wrong in WRONG:
        answer = await market.ask("POST", body={**good, **wrong})
        assert refused(answer) == (400, "BAD_REQUEST"), wrong
        (field,) = wrong
        assert field in answer.json()["error"], wrong
    for name, value in good.items():
        assert refused(await market.ask("POST", body={name: value})) == (400, "BAD_REQUEST"), name
    assert market.people.rows("select from subscriptions") == []


async def test_the_farthest_ends_are_kept_as_they_are(market: Market) -> None:
    pro = market.plan()
    for end in ("1970-01-02T00:00:00Z", "9999-12-30T00:00:00Z"):
        ada = market.user()
        assert (await market.subscribed(ada, pro, status="cancelled", current_period_end=end))["current_period_end"] == end
        assert (await market.get(ada))["current_period_end"] == end
        token = await market.tenants.token_in(ada, market.shop)
        assert (await market.client.get("/api/subscription", token=token)).json()["current_period_end"] == end


async def test_whoever_is_no_user_of_the_service_does_not_exist_here(market: Market) -> None:
    pro = market.plan()
    strangers = [market.people.add(), market.user(market.app), market.user(market.theirs), market.admin]
    for person in strangers:
        assert refused(await market.subscribe(person, pro)) == (404, "NOT_FOUND")
    unknown = {"user_id": str(uuid4()), "plan_id": str(pro)}
    assert refused(await market.ask("POST", body=unknown)) == (404, "NOT_FOUND")
    assert market.people.rows("select from subscriptions") == []
    assert market.told() == []


async def test_an_unknown_plan_is_not_found_and_one_of_another_service_is_refused(market: Market) -> None:
    ada = market.user()
    gone = market.plan()
    market.people.change("update plans set deleted_at = now() where id = %s", gone)
    gone_elsewhere = market.plan(market.app)
    market.people.change("update plans set deleted_at = now() where id = %s", gone_elsewhere)
    of_closed = market.plan(market.tenants.service(market.globex, "closed"))
    market.people.change("update all_services set deleted_at = now() where slug = 'closed'")
    for plan in (uuid4(), gone, gone_elsewhere, of_closed):
        assert refused(await market.subscribe(ada, plan)) == (404, "NOT_FOUND")
    for plan in (market.plan(market.app), market.plan(market.theirs)):
        answer = await market.subscribe(ada, plan)
        assert refused(answer) == (403, "FORBIDDEN")
        assert answer.json()["error"] == "The plan belongs to another service"
    assert market.people.rows("select from subscriptions") == []


async def test_while_one_lives_there_is_no_second(market: Market) -> None:
    pro, team = market.plan(), market.plan(name="Team")
    for living in ("active", "past_due"):
        ada = market.user()
        first = await market.subscribed(ada, pro, status=living)
        for further in ("active", "past_due"):
            answer = await market.subscribe(ada, team, status=further)
            assert refused(answer) == (409, "CONFLICT")
            assert await market.get(ada) == first
    assert (market.counts(pro)[-1], market.counts(team)) == (2, (0, 0, 0, 0, 0))
    assert [event["name"] for event in market.told()] == ["subscription.created"] * 2


async def test_what_is_over_is_history_and_the_one_that_lives_is_shown(market: Market) -> None:
    ada, pro = market.user(), market.plan()
    old = await market.subscribed(ada, pro, status="expired", current_period_end="2020-01-01T00:00:00Z")
    older = await market.subscribed(ada, pro, status="cancelled", current_period_end="2019-01-01T00:00:00Z")
    assert await market.get(ada) == older
    living = await market.subscribed(ada, pro)
    # Past subscriptions may be added later.
    told_later = await market.subscribed(ada, pro, status="expired", current_period_end="2018-01-01T00:00:00Z")
    assert await market.get(ada) == living
    listed = (await market.ask("GET")).json()
    assert listed == {"subscriptions": [old, older, living, told_later], "total": 4}
    assert market.counts(pro) == (1, 0, 1, 2, 1)
    token = await market.tenants.token_in(ada, market.shop)
    assert (await market.client.get("/api/subscription", token=token)).json()["status"] == "active"


async def test_one_user_has_one_in_each_service(market: Market) -> None:
    ada = market.user(market.shop, market.app)
    await market.subscribed(ada, market.plan())
    answer = await market.subscribe(ada, market.plan(market.app), key=market.key_of(market.app))
    assert answer.status == 200
    assert [
        row["total"] for row in [(await market.ask("GET")).json(), (await market.ask("GET", key=market.key_of(market.app))).json()]
    ] == [1, 1]


async def test_of_fifty_at_once_one_is_subscribed(market: Market) -> None:
    """There is no subscription yet, so the requests have no row to lock."""
    ada, plans = market.user(), [market.plan(name=f"Plan {number}") for number in range(3)]
    answers: list[Received] = []

    async def subscribe(number: int) -> None:
        answers.append(await market.subscribe(ada, plans[number % 3], status=("active", "past_due")[number % 2]))

    for _ in range(3):
        answers.clear()
        async with trio.open_nursery() as nursery:
            for number in range(50):
                nursery.start_soon(subscribe, number)
        assert sorted(answer.status for answer in answers) == [200] + [409] * 49
        (living,) = market.people.rows("select id::text, status from subscriptions where status in ('active', 'past_due')")
        (won,) = [answer.json() for answer in answers if answer.status == 200]
        assert (won["id"], won["status"]) == (living["id"], living["status"])
        assert sum(market.counts(plan)[-1] for plan in plans) == 1
        assert (await market.ask("PATCH", f"/{ada.user}", {"status": "cancelled"})).status == 200
    assert [event["name"] for event in market.told()] == ["subscription.created", "subscription.canceled"] * 3


async def test_of_fifty_that_revive_end_and_subscribe_at_once_never_two_live(market: Market) -> None:
    ada, pro, team = market.user(), market.plan(), market.plan(name="Team")
    await market.subscribed(ada, pro, status="cancelled")
    statuses: list[int] = []

    async def one(number: int) -> None:
        match number % 5:
            case 0:
                answer = await market.subscribe(ada, team)
            case 1:
                answer = await market.ask("PATCH", f"/{ada.user}", {"status": "active"})
            case 2:
                answer = await market.ask("PATCH", f"/{ada.user}", {"status": "expired"})
            case 3:
                answer = await market.ask("PATCH", f"/{ada.user}", {"current_period_end": "2031-01-01T00:00:00Z"})
            case _:
                answer = await market.ask("DELETE", f"/{ada.user}")
        statuses.append(answer.status)

    async with trio.open_nursery() as nursery:
        for number in range(50):
            nursery.start_soon(one, number)
    assert set(statuses) <= {200, 204, 404, 409}
    assert {200, 204} <= set(statuses)
    kept = market.people.rows("select plan_id, status from subscriptions")
    assert sum(row["status"] in {"active", "past_due"} for row in kept) <= 1
    for plan in (pro, team):
        of_plan = [row["status"] for row in kept if row["plan_id"] == plan]
        assert market.counts(plan)[:4] == tuple(of_plan.count(status) for status in ("active", "past_due", "cancelled", "expired"))


async def test_a_plan_that_goes_at_the_same_time_keeps_nobody_or_stays(market: Market) -> None:
    async def subscribe(plan: Any, statuses: list[int]) -> None:
        statuses.append((await market.subscribe(market.user(), plan)).status)

    async def delete(plan: Any, statuses: list[int]) -> None:
        statuses.append((await market.manage("DELETE", f"/{plan}")).status)

    outcomes = set()
    for number in range(8):
        plan = market.plan()
        subscribed: list[int] = []
        deleted: list[int] = []
        async with trio.open_nursery() as nursery:
            for _ in range(4):
                nursery.start_soon(subscribe, plan, subscribed)
            if number % 2:
                await trio.sleep(0.003)
            nursery.start_soon(delete, plan, deleted)
        (row,) = market.people.rows("select deleted_at is not null as gone, subscription_count from plans where id = %s", plan)
        assert row["subscription_count"] == subscribed.count(200)
        assert set(subscribed) <= {200, 404}
        assert row["gone"] == (deleted == [204])
        assert not (row["gone"] and row["subscription_count"]), (subscribed, deleted)
        outcomes.add(row["gone"])
    assert outcomes <= {True, False}


async def lapsed(market: Market, plan: UUID) -> Person:
    """A person whose period has ended, without the expirer having run."""
    person = market.user()
    await market.subscribed(person, plan)
    market.people.change("update subscriptions set current_period_end = now() - interval '1 second' where user_id = %s", person.user)
    return person


async def test_many_who_change_places_between_plans_at_once_are_in_nobodys_way(market: Market) -> None:
    """Each person leaves a plan on which their period has ended, for a plan that others are leaving. Meanwhile the expirer runs, plans
    change, and all subscriptions of some people are deleted, with their place in the service or without.
    """
    plans = [market.plan(name=f"Plan {number}") for number in range(3)]
    deleting = [market.user() for _ in range(6)]
    for person in deleting:
        for plan in plans:
            await market.subscribed(person, plan, status="cancelled")
    moving = [await lapsed(market, plans[number % 3]) for number in range(24)]
    statuses: list[int] = []

    async def move(number: int) -> None:
        # To the next plan or to the one before, so that each pair of plans is changed in both directions.
        statuses.append((await market.subscribe(moving[number], plans[(number + 1 + number // 3 % 2) % 3])).status)

    async def delete(number: int) -> None:
        path = ("/api/service/subscriptions", "/api/service/users")[number % 2]
        answer = await market.client.request("DELETE", f"{path}/{deleting[number].user}", headers=[("x-api-key", market.key)])
        statuses.append(answer.status)

    async def rename(number: int) -> None:
        statuses.append((await market.manage("PATCH", f"/{plans[number]}", {"name": "Other"})).status)

    async def expire(_: int) -> None:
        for _ in range(6):
            await market.postern.services.subscriptions.expire_due(None, 4)

    async with trio.open_nursery() as nursery:
        for work, times in ((move, 24), (delete, 6), (rename, 3), (expire, 1)):
            for number in range(times):
                nursery.start_soon(work, number)
    assert sorted(statuses) == [200] * (24 + 3) + [204] * 6
    # Each has left one and lives on the other.
    assert [market.counts(plan) for plan in plans] == [(8, 0, 0, 8, 8)] * 3


@pytest.mark.parametrize("leaving", [0, 1])
async def test_of_two_plans_the_one_with_the_lower_id_is_held_first(market: Market, database_url: str, leaving: int) -> None:
    """The counting trigger locks plans in this order: a statement that waits for the first plan has not locked the second."""
    plans = [market.plan(), market.plan()]
    ada = await lapsed(market, plans[leaving])
    # A scan of the table in its physical order finds the second first.
    market.people.change("update plans set name = 'Team' where id = %s", plans[0])
    market.people.change("analyze plans")
    async with (
        await Connection.connect(database_url) as holding,
        await Connection.connect(database_url) as watching,
        trio.open_nursery() as nursery,
        holding.transaction(),
    ):
        await holding.execute(b"select from plans where id = %s for no key update", [plans[0]])
        nursery.start_soon(market.subscribed, ada, plans[1 - leaving])
        await until_somebody_waits(watching)
        await watching.execute(b"select from plans where id = %s for no key update nowait", [plans[1]])
    assert [market.counts(plan)[-1] for plan in plans] == [leaving, 1 - leaving]


async def test_an_active_one_whose_period_has_already_ended_is_expired_from_the_beginning(market: Market) -> None:
    ada, pro = market.user(), market.plan()
    body = await market.subscribed(ada, pro, current_period_end=(market.now - DAY).isoformat())
    assert body["status"] == "expired"
    assert market.counts(pro) == (0, 0, 0, 1, 0)
    # Past due waits for the payment provider, and no date ends it.
    waiting = await market.subscribed(ada, pro, status="past_due", current_period_end=(market.now - DAY).isoformat())
    assert waiting["status"] == "past_due"
    assert await market.get(ada) == waiting


async def test_one_whose_period_has_ended_is_expired_everywhere_before_anybody_came_by(market: Market) -> None:
    ada, pro = market.user(), market.plan(features=["export"])
    await market.subscribed(ada, pro)
    market.people.change("update subscriptions set current_period_end = now() - interval '1 second'")
    assert (await market.get(ada))["status"] == "expired"
    listed = (await market.ask("GET", "?status=active")).json()
    assert [one["status"] for one in listed["subscriptions"]] == ["expired"]
    token = await market.tenants.token_in(ada, market.shop)
    assert (await market.client.get("/api/subscription", token=token)).json()["status"] == "expired"
    # The place is free, so the next subscription is live, and this one's history stays.
    new = await market.subscribed(ada, pro)
    assert await market.get(ada) == new
    assert [row["status"] for row in market.people.rows("select status from subscriptions order by created_at")] == ["expired", "active"]
    told = market.told()
    assert [event["name"] for event in told] == ["subscription.created", "subscription.updated", "subscription.created"]
    assert (told[1]["details"]["old_status"], told[1]["details"]["status"], "api_key_id" in told[1]["details"]) == (
        "active",
        "expired",
        False,
    )


async def test_status_and_end_change_and_what_is_not_said_stays(market: Market) -> None:
    ada, pro = market.user(), market.plan()
    first = await market.subscribed(ada, pro)
    path = f"/{ada.user}"
    answer = await market.ask("PATCH", path, {"status": "past_due"})
    assert (answer.status, answer.json()) == (200, {**first, "status": "past_due"})
    answer = await market.ask("PATCH", path, {"current_period_end": "2031-05-01T12:00:00+02:00"})
    second = {**first, "status": "past_due", "current_period_end": "2031-05-01T10:00:00Z"}
    assert (answer.status, answer.json()) == (200, second)
    assert await market.get(ada) == second
    answer = await market.ask("PATCH", path, {"status": "active", "current_period_end": "2032-01-01T00:00:00Z"})
    assert answer.json() == {**first, "status": "active", "current_period_end": "2032-01-01T00:00:00Z"}
    assert market.counts(pro) == (1, 0, 0, 0, 1)
    told = market.told("audit_log")
    assert [event["name"] for event in told] == ["subscription.created", *["subscription.updated"] * 3]
    details = told[1]["details"]
    assert (details["old_status"], details["status"]) == ("active", "past_due")
    assert datetime.fromisoformat(told[2]["details"]["old_current_period_end"]) == end_of(first)
    (row,) = market.people.rows("select updated_at > created_at as touched from subscriptions")
    assert row["touched"]


async def test_nothing_to_change_changes_nothing(market: Market) -> None:
    ada, pro = market.user(), market.plan()
    body = await market.subscribed(ada, pro)
    before = market.people.rows("select * from subscriptions")
    for same in ({}, {"status": "active"}, {"current_period_end": body["current_period_end"]}, None):
        answer = await market.ask("PATCH", f"/{ada.user}", same)
        assert (answer.status, answer.json()) == (200, body)
    assert market.people.rows("select * from subscriptions") == before
    assert len(market.told()) == 1


async def test_a_change_to_what_cannot_be_is_refused(market: Market) -> None:
    ada, pro = market.user(), market.plan()
    body = await market.subscribed(ada, pro)
    for wrong in WRONG:
        if not {"status", "current_period_end"}.isdisjoint(wrong):
            assert refused(await market.ask("PATCH", f"/{ada.user}", wrong)) == (400, "BAD_REQUEST"), wrong
    assert await market.get(ada) == body


async def test_cancelling_is_told_as_such_and_frees_the_place(market: Market) -> None:
    ada, pro = market.user(), market.plan()
    await market.subscribed(ada, pro)
    assert (await market.ask("PATCH", f"/{ada.user}", {"status": "cancelled"})).json()["status"] == "cancelled"
    assert market.told()[-1]["name"] == "subscription.canceled"
    assert (await market.manage("DELETE", f"/{pro}")).status == 204
    assert (await market.subscribed(ada, market.plan(name="Team")))["plan_name"] == "Team"


async def test_one_that_is_over_may_live_again_unless_its_plan_is_gone(market: Market) -> None:
    ada, pro = market.user(), market.plan()
    await market.subscribed(ada, pro, status="expired", current_period_end="2020-01-01T00:00:00Z")
    path = f"/{ada.user}"
    # Its period has ended, so the status `active` alone is not enough.
    assert (await market.ask("PATCH", path, {"status": "active"})).json()["status"] == "expired"
    renewed = {"status": "active", "current_period_end": "2031-01-01T00:00:00Z"}
    assert (await market.ask("PATCH", path, renewed)).json()["status"] == "active"
    assert market.counts(pro) == (1, 0, 0, 0, 1)
    assert (await market.ask("PATCH", path, {"status": "cancelled"})).status == 200
    assert (await market.manage("DELETE", f"/{pro}")).status == 204
    # Its history keeps its plan's name.
    assert (await market.get(ada))["plan_name"] == "Pro"
    answer = await market.ask("PATCH", path, {"status": "past_due"})
    assert (refused(answer), answer.json()["error"]) == ((400, "BAD_REQUEST"), "The plan is no longer offered")
    assert (await market.ask("PATCH", path, {"status": "expired"})).status == 200
    assert market.counts(pro) == (0, 0, 0, 1, 0)


async def test_a_renewal_that_comes_too_late_says_so_whether_or_not_anybody_came_by(market: Market) -> None:
    ada, pro = market.user(), market.plan()
    await market.subscribed(ada, pro)
    market.people.change("update subscriptions set current_period_end = now() - interval '1 second'")
    answer = await market.ask("PATCH", f"/{ada.user}", {"current_period_end": "2031-01-01T00:00:00Z"})
    assert (answer.status, answer.json()["status"]) == (200, "expired")
    assert market.counts(pro) == (0, 0, 0, 1, 0)
    assert [event["details"].get("old_status") for event in market.told()] == [None, "active", "expired"]


async def test_deleting_takes_all_of_it_and_is_told(market: Market) -> None:
    ada, bob, pro = market.user(), market.user(), market.plan()
    await market.subscribed(ada, pro, status="expired", current_period_end="2020-01-01T00:00:00Z")
    living = await market.subscribed(ada, pro)
    kept = await market.subscribed(bob, pro)
    answer = await market.ask("DELETE", f"/{ada.user}")
    assert (answer.status, answer.body) == (204, b"")
    for method in ("GET", "PATCH", "DELETE"):
        assert refused(await market.ask(method, f"/{ada.user}")) == (404, "NOT_FOUND")
    assert (await market.ask("GET")).json() == {"subscriptions": [kept], "total": 1}
    assert market.counts(pro) == (1, 0, 0, 0, 1)
    told = market.told("audit_log")[-1]
    assert (told["name"], told["target_id"], told["details"]["deleted"]) == ("subscription.canceled", living["id"], True)
    token = await market.tenants.token_in(ada, market.shop)
    assert (await market.client.get("/api/subscription", token=token)).json()["plan"] == "free"
    # The place is free again.
    await market.subscribed(ada, pro)


async def test_another_services_users_and_subscriptions_are_not_there(market: Market) -> None:
    """The person uses both services, and is subscribed only to the other."""
    ada = market.user(market.shop, market.theirs)
    theirs = market.key_of(market.theirs)
    body = (await market.subscribe(ada, market.plan(market.theirs), key=theirs)).json()
    for who in (ada.user, uuid4(), market.user().user):
        for method in ("GET", "PATCH", "DELETE"):
            changes = {"status": "cancelled"} if method == "PATCH" else None
            assert refused(await market.ask(method, f"/{who}", changes)) == (404, "NOT_FOUND")
    assert (await market.ask("GET")).json() == {"subscriptions": [], "total": 0}
    assert (await market.ask("GET", f"/{ada.user}", key=theirs)).json() == body


async def test_pages_hang_together_from_either_end(market: Market) -> None:
    pro, team = market.plan(), market.plan(name="Team")
    everybody = []
    for number in range(9):
        body = await market.subscribed(market.user(), (pro, team)[number % 2], status=("active", "cancelled", "past_due")[number % 3])
        everybody.append(body)
    await market.subscribe(market.user(market.app), market.plan(market.app), key=market.key_of(market.app))
    for limit in (1, 2, 4, 100):
        for offset in range(12):
            page = (await market.ask("GET", f"?limit={limit}&offset={offset}")).json()
            assert page == {"subscriptions": everybody[offset : offset + limit], "total": 9}, (limit, offset)
    for status in ("active", "cancelled", "past_due", "expired"):
        those = [body for body in everybody if body["status"] == status]
        for offset in range(5):
            page = (await market.ask("GET", f"?status={status}&limit=2&offset={offset}")).json()
            assert page == {"subscriptions": those[offset : offset + 2], "total": len(those)}, (status, offset)


async def test_what_is_no_page_or_no_id_is_refused(market: Market) -> None:
    wrong = ("status=paused", "status=", "limit=0", "limit=101", "limit=x", "offset=-1", "offset=x", f"offset={10**30}", "limit=1&limit=2")
    for query in wrong:
        assert refused(await market.ask("GET", f"?{query}")) == (400, "BAD_REQUEST"), query
    for who in ("x", "0", "%00", "..%2F..", "{0199d3a0-0000-7000-8000-000000000001}"):
        for method in ("GET", "PATCH", "DELETE"):
            assert (await market.ask(method, f"/{who}")).status in {400, 404}, who


async def test_the_last_page_that_can_be_asked_for_is_empty(market: Market) -> None:
    await market.subscribed(market.user(), market.plan())
    for query in ("", "&status=active"):
        page = (await market.ask("GET", f"?limit=100&offset=1000000000{query}")).json()
        assert page == {"subscriptions": [], "total": 1}


async def test_each_endpoint_asks_for_its_own_permission(market: Market) -> None:
    ada, pro = market.user(), market.plan()
    await market.subscribed(ada, pro)
    needed = {
        ("GET", ""): Permission.READ_SUBSCRIPTIONS,
        ("GET", f"/{ada.user}"): Permission.READ_SUBSCRIPTIONS,
        ("PATCH", f"/{ada.user}"): Permission.WRITE_SUBSCRIPTIONS,
        ("POST", ""): Permission.WRITE_SUBSCRIPTIONS,
        ("DELETE", f"/{ada.user}"): Permission.DELETE_SUBSCRIPTIONS,
    }
    for (method, path), permission in needed.items():
        body = {"user_id": str(market.user().user), "plan_id": str(pro)} if method == "POST" else None
        others = market.key_of(market.shop, [one for one in Permission if one is not permission])
        assert refused(await market.ask(method, path, body, key=others)) == (403, "FORBIDDEN")
        assert (await market.ask(method, path, body, key=market.key_of(market.shop, [permission]))).status in {200, 204}
    assert (await market.client.get("/api/service/subscriptions", token=await market.tenants.token(market.admin))).status == 401


async def test_deleting_the_account_takes_its_subscriptions_and_their_count(market: Market) -> None:
    ada, pro, team = market.user(market.shop, market.app), market.plan(), market.plan(market.app)
    await market.subscribed(ada, pro, status="expired", current_period_end="2020-01-01T00:00:00Z")
    await market.subscribed(ada, pro)
    await market.subscribe(ada, team, key=market.key_of(market.app))
    market.people.change("delete from users where id = %s", ada.user)
    assert [market.counts(plan) for plan in (pro, team)] == [(0, 0, 0, 0, 0)] * 2
    assert (await market.ask("GET")).json() == {"subscriptions": [], "total": 0}


async def until_somebody_waits(connection: Connection) -> None:
    """For a lock of this database."""
    with trio.fail_after(PATIENCE):
        waiting = b"select count(*) from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'"
        while await (await connection.execute(waiting)).fetchone() == (0,):
            await trio.sleep(0.01)


async def test_an_account_that_goes_at_the_same_time_takes_its_subscription_along(market: Market, database_url: str) -> None:
    """A deletion locks the account first and the place in the service later, and so does a subscription."""
    ada, pro = market.user(), market.plan()
    answers: list[Received] = []

    async def subscribe() -> None:
        answers.append(await market.subscribe(ada, pro))

    async with (
        await Connection.connect(database_url) as deleting,
        await Connection.connect(database_url) as watching,
        trio.open_nursery() as nursery,
        deleting.transaction(),
    ):
        await deleting.execute(b"select from users where id = %s for update", [ada.user])
        nursery.start_soon(subscribe)
        await until_somebody_waits(watching)
        await deleting.execute(b"delete from users where id = %s", [ada.user])
    (answer,) = answers
    assert refused(answer) == (404, "NOT_FOUND")
    assert market.counts(pro) == (0, 0, 0, 0, 0)


@pytest.mark.parametrize("method", ["PATCH", "POST", "DELETE"])
async def test_one_that_is_expiring_at_this_moment_expires_once(market: Market, database_url: str, method: str) -> None:
    ada, pro = market.user(), market.plan()
    await market.subscribed(ada, pro)
    market.people.change("update subscriptions set current_period_end = now()")
    bodies: dict[str, Any] = {"PATCH": {"status": "cancelled"}, "POST": {"user_id": str(ada.user), "plan_id": str(pro)}}
    answers: list[Received] = []

    async def change() -> None:
        answers.append(await market.ask(method, "" if method == "POST" else f"/{ada.user}", bodies.get(method)))

    async with (
        await Connection.connect(database_url) as watching,
        trio.open_nursery() as nursery,
        market.postern.foundation.unit_of_work() as uow,
    ):
        (expired,) = await uow.subscriptions.expire_due(None, 10)
        nursery.start_soon(change)
        await until_somebody_waits(watching)
        assert expired.occasion is not None
        await uow.record(subscription_changed(expired.subscription, expired.subscription, expired.occasion))
        await uow.commit()
    assert [answer.status for answer in answers] == [204 if method == "DELETE" else 200]
    told = [event["name"] for event in market.told()]
    after = {"PATCH": "subscription.canceled", "POST": "subscription.created", "DELETE": "subscription.canceled"}
    assert told == ["subscription.created", "subscription.updated", after[method]]


# With the key's own question. `revive` looks for its plan besides.
ROUND_TRIPS: Final = {"create": 5, "list": 2, "get": 2, "change": 3, "revive": 4, "delete": 3}


async def test_round_trips(market: Market) -> None:
    measured: dict[str, int] = {}
    for _ in ("warm", "measured"):
        ada, pro = market.user(), market.plan()
        calls: dict[str, tuple[str, str, Any]] = {
            "create": ("POST", "", {"user_id": str(ada.user), "plan_id": str(pro)}),
            "list": ("GET", "?status=active", None),
            "get": ("GET", f"/{ada.user}", None),
            "change": ("PATCH", f"/{ada.user}", {"status": "cancelled"}),
            "revive": ("PATCH", f"/{ada.user}", {"status": "active"}),
            "delete": ("DELETE", f"/{ada.user}", None),
        }
        for name, (method, path, body) in calls.items():
            market.log.entries.clear()
            assert (await market.ask(method, path, body)).status in {200, 204}
            (line,) = market.log.events("request")
            measured[name] = line["db_round_trips"]
    assert measured == ROUND_TRIPS


async def test_the_key_never_shows_in_the_log(market: Market) -> None:
    market.log.remember(market.key)
    await market.subscribed(market.user(), market.plan())
    assert refused(await market.subscribe(market.people.add(), uuid4())) == (404, "NOT_FOUND")
