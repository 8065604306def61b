"""Checkout and the portal, against a provider that answers as documented, and against one that does not."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Final
from urllib.parse import parse_qs, urlsplit
from uuid import uuid4

import pytest
import trio

from adapters import payments
from adapters.postgres.services.billing import BillingRows
from core.domain.errors import OrganizationNotActive
from core.domain.identifiers import OrganizationId, UserId
from core.usecases.services.billing_checkouts import Wish, _failed
from entrypoints.bootstrap import open_postern
from entrypoints.settings import read
from ports.services.billing import PaymentRefused
from tests.conftest import CapturedLog
from tests.hostile_uris import ALWAYS
from tests.http.cast import all_at_once
from tests.http.people import Person
from tests.http.services.paying import APP, CHECKOUT, PORTAL, Counter, counter_on
from tests.http.signing_in import unlimited
from tests.meanwhile import meanwhile
from tests.payment_provider import no_trouble


@pytest.fixture
async def counter(database_url: str, tmp_path: Path, log: CapturedLog) -> AsyncIterator[Counter]:
    async with counter_on(database_url, tmp_path, log) as opened:
        yield opened


async def test_a_member_begins_a_checkout(counter: Counter) -> None:
    success = f"{APP}/welcome?session={{CHECKOUT_SESSION_ID}}"
    opened = (await counter.checkout(more={"success_url": success})).ok()
    (session,) = counter.provider.sessions.values()
    assert opened == {"checkout_url": session["url"], "session_id": session["id"]}
    (customer,) = counter.provider.customers.values()
    form = session["form"]
    wanted = {
        "mode": "subscription",
        "customer": customer["id"],
        "line_items[0][price]": "price_pro",
        "line_items[0][quantity]": "1",
        "success_url": success,
        "cancel_url": f"{APP}/pricing",
        "client_reference_id": str(counter.member.user),
    }
    assert {name: form[name] for name in wanted} == wanted
    for name, value in counter.metadata(counter.member).items():
        assert form[f"metadata[{name}]"] == form[f"subscription_data[metadata][{name}]"] == value
    assert customer["metadata"]["org_id"] == str(counter.acme.id)


async def test_who_may_and_who_may_not(counter: Counter) -> None:
    ada = counter.user()
    body = {"plan_id": str(counter.pro), "success_url": f"{APP}/welcome", "cancel_url": f"{APP}/pricing"}

    async def status(token: str | None, path: str = CHECKOUT) -> int:
        return (await counter.client.post(path, body, token=token)).status

    assert await status(None) == 401
    assert await status(await counter.tenants.token(counter.people.add())) == 403
    assert await status(await counter.tenants.token(counter.resident(counter.globex, "owner"))) == 403
    # A token of the service opens the checkout of that service alone.
    assert await status(await counter.tenants.token_in(ada, counter.shop)) == 200
    counter.tenants.uses(ada, counter.app)
    assert await status(await counter.tenants.token_in(ada, counter.app)) == 403
    assert await status(await counter.tenants.token_in(ada, counter.shop), CHECKOUT.replace("shop", "nothing")) == 403
    assert await status(await counter.tenants.token(counter.member), CHECKOUT.replace("shop", "nothing")) == 404
    assert await status(await counter.tenants.token(counter.member), CHECKOUT.replace("acme", "nothing")) == 404
    counter.people.change("update all_organizations set status = 'suspended' where id = %s", counter.acme.id)
    answer = await counter.checkout()
    assert (answer.status, answer.error_code) == (403, "ORGANIZATION_NOT_ACTIVE")


async def test_what_cannot_be_bought(counter: Counter) -> None:
    theirs = counter.priced("price_theirs", counter.theirs)
    deleted = counter.priced("price_old")
    counter.people.change("update plans set deleted_at = now() where id = %s", deleted)
    for plan, word in (
        (uuid4(), "no such plan"),
        (deleted, "no such plan"),
        (counter.plan(), "billing_price_id"),
        (theirs, "another service"),
    ):
        answer = await counter.checkout(plan)
        assert (answer.status, word in answer.json()["error"]) == (400, True), answer.body
    assert (await counter.request("POST", CHECKOUT, {"plan_id": "x"}, by=counter.member)).status == 400
    assert counter.provider.calls == []


async def test_people_come_back_only_to_where_the_service_is(counter: Counter) -> None:
    for field in ("success_url", "cancel_url"):
        for hostile in (*ALWAYS, "https://app.example.com.evil.example/", "http://app.example.com/", "https://app.example.com:444/", ""):
            answer = await counter.checkout(more={field: hostile})
            assert (answer.status, answer.json()["error"].startswith(field)) == (400, True), hostile
    # The provider fills the placeholder in, and only after the payment.
    assert (await counter.checkout(more={"cancel_url": f"{APP}/{{CHECKOUT_SESSION_ID}}"})).status == 400
    assert (await counter.checkout(more={"success_url": f"{APP}:443/welcome"})).status == 200


async def test_a_repeated_request_is_the_same_checkout(counter: Counter) -> None:
    first = (await counter.checkout()).ok()
    assert (await counter.checkout()).ok() == first
    assert len(counter.provider.sessions) == 1
    # A checkout for another plan closes the first one, so that nobody pays for both.
    second = (await counter.checkout(counter.team)).ok()
    assert [session["status"] for session in counter.provider.sessions.values()] == ["expired", "open"]
    assert second["session_id"] != first["session_id"]
    # The person has paid, and the event is under way.
    counter.provider.sessions[second["session_id"]]["status"] = "complete"
    answer = await counter.checkout()
    assert (answer.status, "completed" in answer.json()["error"]) == (400, True)
    assert len(counter.provider.sessions) == 2


async def test_many_at_once_make_one_customer_and_one_checkout_each(counter: Counter) -> None:
    buyers = [counter.resident(counter.acme, "member", f"m{n}") for n in range(4)]

    async def buy(person: Person) -> Any:
        return (await counter.checkout(by=person)).ok()

    opened = await all_at_once(*[lambda person=person: buy(person) for person in buyers for _ in range(5)])
    assert len(counter.provider.customers) == 1
    assert len({one["session_id"] for one in opened}) == len(counter.provider.sessions) == len(buyers)


async def test_who_has_a_subscription_is_sent_to_the_portal(counter: Counter) -> None:
    ada = counter.user()
    counter.customer()
    await counter.tell("customer.subscription.created", counter.bought(ada))
    token = await counter.tenants.token_in(ada, counter.shop)
    body = {"plan_id": str(counter.team), "success_url": f"{APP}/", "cancel_url": f"{APP}/"}
    answer = await counter.client.post(CHECKOUT, body, token=token)
    assert (answer.status, "portal" in answer.json()["error"]) == (400, True)


@pytest.mark.parametrize("where", ["customers", "sessions"])
@pytest.mark.parametrize("trouble", ["lose", "hang_up", "fail", "rate_limit", "late"])
async def test_whatever_the_provider_does_there_is_one_customer_and_one_checkout(
    counter: Counter, trouble: str, where: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The usual number of tries, without the seconds in between.
    monkeypatch.setattr(payments, "_PAUSES", (0.001,) * len(payments._PAUSES))
    left = [8]

    def some(_method: str, path: str) -> str | None:
        if not path.endswith(where) or not left[0]:
            return None
        left[0] -= 1
        return trouble

    counter.provider.trouble = some
    answer = await counter.checkout()
    for _ in range(10):
        answer = await counter.checkout()
        if answer.status == 200:
            break
        assert (answer.status, answer.error_code) == (500, "BILLING_ERROR")
    assert (await counter.checkout()).ok() == answer.ok()
    assert len(counter.provider.customers) == 1
    assert len(counter.provider.sessions) == 1 or trouble == "fail"
    assert [one["status"] for one in counter.provider.sessions.values()][-1] == "open"


async def test_a_customer_whose_making_failed_half_way_is_found_again(counter: Counter) -> None:
    """The provider made the customer, then failed, and would repeat the failure for the same idempotency key."""
    counter.provider.trouble = lambda _method, path: "fail" if path.endswith("customers") else None
    assert (await counter.checkout()).status == 500
    (row,) = counter.people.rows("select id from billing_customers")
    counter.provider.trouble = no_trouble
    made = {"id": "cus_half", "object": "customer", "metadata": {"customer_key": str(row["id"])}}
    counter.provider.customers["cus_half"] = made
    assert (await counter.checkout()).status == 200
    assert list(counter.provider.customers) == ["cus_half"]


async def test_a_customer_is_linked_by_its_news(counter: Counter) -> None:
    """The answer was lost, and the idempotency key is forgotten by now."""
    counter.provider.trouble = lambda _method, path: "lose" if path.endswith("customers") else None
    assert (await counter.checkout()).status == 500
    (made,) = counter.provider.customers.values()
    forged = {"id": "cus_forged", "metadata": {"org_id": str(counter.acme.id), "customer_key": str(uuid4())}}
    await counter.tell("customer.created", forged)
    await counter.tell("customer.created", made)
    (row,) = counter.people.rows("select external_id from billing_customers")
    assert row["external_id"] == made["id"]
    counter.provider.trouble = no_trouble
    assert (await counter.checkout()).status == 200
    assert len(counter.provider.customers) == 1


async def test_a_customer_that_was_deleted_at_the_provider_is_made_anew(counter: Counter) -> None:
    counter.customer("cus_deleted")
    assert (await counter.checkout()).status == 200
    assert len(counter.provider.customers) == 1
    assert counter.people.rows("select external_id from billing_customers where ended_at is not null") == [{"external_id": "cus_deleted"}]


async def test_refusals_are_told_in_our_words(counter: Counter) -> None:
    answer = await counter.checkout(counter.priced("price_unknown"))
    assert (answer.status, answer.error_code, "billing_price_id" in answer.json()["error"]) == (500, "BILLING_ERROR", True)
    # The next try uses a new idempotency key.
    assert (await counter.checkout(counter.pro)).status == 200


_CLOSED: Final = {
    "the organization is deleted": ("update all_organizations set deleted_at = now() where slug = 'acme'", 404),
    "the organization is suspended": ("update all_organizations set status = 'suspended', suspended_at = now() where slug = 'acme'", 403),
    "the service is deleted": ("update all_services set deleted_at = now() where slug = 'shop'", 404),
}


@pytest.mark.parametrize(("change", "status"), _CLOSED.values(), ids=list(_CLOSED))
@pytest.mark.parametrize("has_customer", [False, True])
@pytest.mark.parametrize("step", ["offer", "begin_checkout"])
async def test_what_closes_on_the_way_sells_nothing(
    counter: Counter, monkeypatch: pytest.MonkeyPatch, step: str, change: str, status: int, *, has_customer: bool
) -> None:
    if has_customer:
        (await counter.checkout(by=counter.owner)).ok()
    meanwhile(monkeypatch, BillingRows, step, lambda: counter.people.change(change))
    assert (await counter.checkout()).status == status
    open_for = [one["form"]["client_reference_id"] for one in counter.provider.sessions.values() if one["status"] == "open"]
    assert open_for == [str(counter.owner.user)] * has_customer


async def test_who_is_gone_on_the_way_buys_nothing(counter: Counter, monkeypatch: pytest.MonkeyPatch) -> None:
    ada = counter.user()
    token = await counter.tenants.token_in(ada, counter.shop)
    meanwhile(monkeypatch, BillingRows, "offer", lambda: counter.people.change("delete from users where id = %s", ada.user))
    body = {"plan_id": str(counter.pro), "success_url": f"{APP}/welcome", "cancel_url": f"{APP}/pricing"}
    answer = await counter.client.post(CHECKOUT, body, token=token)
    assert (answer.status, answer.error_code) == (500, "BILLING_ERROR")
    assert counter.provider.sessions == {}


async def test_a_key_that_the_provider_does_not_accept(database_url: str, tmp_path: Path, log: CapturedLog) -> None:
    async with counter_on(database_url, tmp_path, log, POSTERN_BILLING_KEY="sk_test_other") as counter:
        answer = await counter.checkout()
        assert (answer.status, "key" in answer.json()["error"]) == (500, True)
        assert b"Somebody's words" not in answer.body


async def test_a_checkout_that_cannot_be_closed_is_in_the_way(database_url: str, tmp_path: Path, log: CapturedLog) -> None:
    """Otherwise both checkouts could be paid."""
    async with counter_on(database_url, tmp_path, log) as counter:
        assert (await counter.checkout()).status == 200
        counter.provider.trouble = lambda _method, path: "fail" if path.endswith("expire") else None
        answer = await counter.checkout(counter.team)
        assert (answer.status, answer.error_code, len(counter.provider.sessions)) == (500, "BILLING_ERROR", 1)
        counter.provider.trouble = no_trouble
        # With another key of the operator's.
        other = {**counter.environment, "POSTERN_BILLING_KEY": "sk_test_other"}
        async with open_postern(read(other)) as postern:
            token = await counter.tenants.token(counter.member)
            body = {"plan_id": str(counter.team), "success_url": f"{APP}/welcome", "cancel_url": f"{APP}/pricing"}
            answer = await unlimited(postern).post(CHECKOUT, body, token=token)
            assert (answer.status, "key" in answer.json()["error"]) == (500, True)


async def test_without_a_provider_everything_says_so(database_url: str, tmp_path: Path, log: CapturedLog) -> None:
    async with counter_on(database_url, tmp_path, log, POSTERN_BILLING_KEY="", POSTERN_BILLING_WEBHOOK_SECRETS="") as counter:
        answer = await counter.checkout()
        assert (answer.status, answer.error_code, "not set up" in answer.json()["error"]) == (500, "BILLING_ERROR", True)
        portal = await counter.request("POST", PORTAL, {"return_url": f"{APP}/billing"}, by=counter.owner)
        assert (portal.status, portal.error_code) == (500, "BILLING_ERROR")
        assert (await counter.send(counter.provider.event("x", {}))).status == 401
        assert not counter.postern.services.billing_reconciliation.is_set_up


async def test_the_owner_opens_the_portal(counter: Counter) -> None:
    async def ask(by: Person, return_url: str = f"{APP}/billing") -> Any:
        return await counter.request("POST", PORTAL, {"return_url": return_url}, by=by)

    answer = await ask(counter.owner)
    assert (answer.status, "checkout" in answer.json()["error"]) == (400, True)
    customer = counter.customer()
    url = (await ask(counter.owner)).ok()["url"]
    assert urlsplit(url).path == f"/{customer}"
    assert parse_qs(urlsplit(url).query)["back"] == [f"{APP}/billing"]
    assert (await ask(counter.owner, "https://id.example.org/ui")).status == 200
    assert (await ask(counter.owner, "https://evil.example/")).status == 400
    for body in ({}, {"return_url": None}, None):
        url = (await counter.request("POST", PORTAL, body, by=counter.owner)).ok()["url"]
        assert parse_qs(urlsplit(url).query)["back"] == ["https://id.example.org/ui"]
    for person in (counter.admin, counter.member):
        assert (await ask(person)).status == 403
    counter.provider.trouble = lambda _method, _path: "fail"
    assert (await ask(counter.owner)).status == 500


async def test_to_open_the_portal_confirms_an_ownership_that_was_handed_on(counter: Counter) -> None:
    counter.customer()
    handed = {"new_owner_user_id": str(counter.admin.user)}
    assert (await counter.request("POST", "/api/organizations/acme/transfer-ownership", handed, by=counter.owner)).status == 200
    unconfirmed = "select from ownerships where confirmed_at is null"
    assert counter.people.rows(unconfirmed)
    (await counter.request("POST", PORTAL, {"return_url": f"{APP}/billing"}, by=counter.admin)).ok()
    assert not counter.people.rows(unconfirmed)


async def test_round_trips(counter: Counter) -> None:
    assert (await counter.checkout()).status == 200
    assert (await counter.checkout(by=counter.admin)).status == 200
    assert 0 < counter.log.events("request")[-1]["db_round_trips"] <= 6


def open_sessions(counter: Counter) -> list[str]:
    return [name for name, session in counter.provider.sessions.items() if session["status"] == "open"]


async def test_two_wishes_at_once_leave_one_checkout_open(counter: Counter) -> None:
    """Each person pays once, even if the provider answers the first request late."""
    assert (await counter.checkout(by=counter.admin)).status == 200
    counter.provider.trouble = lambda _method, path: "late" if path.endswith("sessions") else None
    answers = await all_at_once(lambda: counter.checkout(counter.pro), lambda: counter.checkout(counter.team))
    assert sorted(answer.status for answer in answers) == [200, 500]
    (given,) = [answer.json()["session_id"] for answer in answers if answer.status == 200]
    assert open_sessions(counter)[1:] == [given]


async def test_whoever_is_overtaken_begins_again(counter: Counter, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another checkout of the same person begins right after the look for an open one."""
    meanwhile(monkeypatch, BillingRows, "offer", lambda: begin_another(counter))
    opened = (await counter.checkout()).ok()
    assert open_sessions(counter) == [opened["session_id"]]


def begin_another(counter: Counter) -> None:
    counter.people.change(
        "insert into billing_checkouts (service_id, user_id, id, digest, asked_at) values (%s, %s, gen_random_uuid(), 'other', now())"
        " on conflict do nothing",
        counter.shop.id,
        counter.member.user,
    )


@pytest.mark.parametrize("trouble", [None, "fail"])
async def test_whoever_is_overtaken_while_the_provider_opens_a_checkout_does_not_get_it(
    counter: Counter, trouble: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(payments, "_PAUSES", (0.001,) * len(payments._PAUSES))

    def overtake(_method: str, path: str) -> str | None:
        if path.endswith("sessions"):
            counter.people.change("update billing_checkouts set id = gen_random_uuid()")
        return trouble if path.endswith("expire") else None

    counter.provider.trouble = overtake
    answer = await counter.checkout()
    assert (answer.status, answer.error_code) == (500, "BILLING_ERROR")
    assert len(counter.provider.sessions) == 1
    assert len(open_sessions(counter)) == len(counter.log.events("checkout_left_open")) == (0 if trouble is None else 1)


async def test_a_checkout_that_nobody_learns_of_may_stay_open(counter: Counter) -> None:
    assert (await counter.checkout(by=counter.admin)).status == 200
    counter.provider.trouble = lambda _method, path: "late" if path.endswith("sessions") else "fail" if path.endswith("expire") else None
    answers = await all_at_once(lambda: counter.checkout(counter.pro), lambda: counter.checkout(counter.team))
    assert sorted(answer.status for answer in answers) == [200, 500]
    assert counter.log.events("checkout_left_open")


async def test_another_wish_sent_twice_is_one_checkout(counter: Counter) -> None:
    """The second request finds the last checkout closed, which does not mean that it was paid."""
    assert (await counter.checkout()).status == 200
    counter.provider.trouble = lambda _method, path: "late" if path.endswith("expire") else None
    answers = await all_at_once(*[lambda: counter.checkout(counter.team)] * 3)
    assert len({answer.ok()["session_id"] for answer in answers}) == len(open_sessions(counter)) == 1


async def test_who_has_cancelled_may_buy_again_at_once(counter: Counter) -> None:
    counter.provider.customers[counter.customer()] = {"metadata": {}}
    first = (await counter.checkout()).ok()
    counter.provider.sessions[first["session_id"]]["status"] = "complete"
    bought = counter.bought(counter.member)
    await counter.tell("customer.subscription.created", bought)
    assert (await counter.checkout()).status == 400
    bought.update(status="canceled", ended_at=bought["created"])
    await counter.tell("customer.subscription.deleted", bought)
    second = (await counter.checkout()).ok()
    assert open_sessions(counter) == [second["session_id"]]
    assert (await counter.checkout(counter.team)).status == 200


async def test_what_the_provider_bills_counts_whatever_the_api_says_of_it(counter: Counter) -> None:
    ada = counter.user()
    counter.customer()
    await counter.tell("customer.subscription.created", counter.bought(ada))
    await counter.ask("PATCH", f"/{ada.user}", {"status": "cancelled"})
    token = await counter.tenants.token_in(ada, counter.shop)
    body = {"plan_id": str(counter.team), "success_url": f"{APP}/", "cancel_url": f"{APP}/"}
    answer = await counter.client.post(CHECKOUT, body, token=token)
    assert (answer.status, "portal" in answer.json()["error"]) == (400, True)


async def test_another_price_is_another_checkout(counter: Counter) -> None:
    assert (await counter.checkout()).status == 200
    counter.people.change("update plans set billing_price_id = 'price_pro_next' where id = %s", counter.pro)
    second = (await counter.checkout()).ok()
    assert open_sessions(counter) == [second["session_id"]]
    assert counter.provider.sessions[second["session_id"]]["form"]["line_items[0][price]"] == "price_pro_next"


async def test_a_customer_that_is_deleted_again_and_again_is_given_up(counter: Counter) -> None:
    def gone(_method: str, path: str) -> None:
        if path.endswith("sessions"):
            counter.provider.customers.clear()

    counter.provider.trouble = gone
    answer = await counter.checkout()
    assert (answer.status, answer.error_code, counter.provider.sessions) == (500, "BILLING_ERROR", {})
    counter.provider.trouble = no_trouble
    assert (await counter.checkout()).status == 200


async def test_a_portal_that_is_refused_is_told_in_our_words(database_url: str, tmp_path: Path, log: CapturedLog) -> None:
    async with counter_on(database_url, tmp_path, log, POSTERN_BILLING_KEY="sk_test_other") as counter:
        counter.customer()
        answer = await counter.request("POST", PORTAL, {"return_url": f"{APP}/settings"}, by=counter.owner)
        assert (answer.status, answer.error_code, "key" in answer.json()["error"]) == (500, "BILLING_ERROR", True)
        assert b"Somebody's words" not in answer.body


async def test_an_organization_that_is_suspended_meanwhile_sells_nothing(counter: Counter) -> None:
    """The suspension comes after the caller was let in."""
    counter.people.change("update all_organizations set status = 'suspended' where id = %s", counter.acme.id)
    wish = Wish("acme", "shop", counter.pro, UserId(counter.member.user), f"{APP}/welcome", f"{APP}/pricing")
    with pytest.raises(OrganizationNotActive):
        await counter.postern.services.checkouts.open(wish)
    assert counter.provider.calls == []


def test_any_other_refusal_is_told_by_its_code_alone() -> None:
    failed = _failed(PaymentRefused(402, "card_declined", "Somebody's words"))
    assert failed.message == "The payment provider refused the request: card_declined"


async def test_a_customer_that_somebody_else_has_just_made_is_not_made_again(counter: Counter) -> None:
    known = counter.customer()
    assert await counter.postern.services.checkouts._customer(OrganizationId(counter.acme.id)) == known
    assert counter.provider.calls == []


async def test_a_customer_that_news_bring_meanwhile_is_sold_to(counter: Counter, monkeypatch: pytest.MonkeyPatch) -> None:
    checkouts = counter.postern.services.checkouts
    kind: Any = type(checkouts.provider)
    create = kind.create_customer

    async def overtaken(*given: Any) -> str:
        made: str = await create(*given)
        await trio.to_thread.run_sync(counter.people.change, "update billing_customers set external_id = 'cus_before'")
        return made

    monkeypatch.setattr(kind, "create_customer", overtaken)
    assert await checkouts._customer(OrganizationId(counter.acme.id)) == "cus_before"
    assert counter.people.rows("select external_id from billing_customers") == [{"external_id": "cus_before"}]
