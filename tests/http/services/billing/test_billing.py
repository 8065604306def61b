"""Events of the payment provider: accepted by their signature, with the same result in any order."""

import json
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from time import time
from typing import Any, Final

import pytest
import trio

from adapters.postgres.services.billing import BillingRows
from core.domain.errors import Unavailable
from core.domain.services.billing_news import NewsType
from tests.changed_fields import answer_by, put
from tests.conftest import CapturedLog
from tests.http.cast import all_at_once
from tests.http.postbox import Postbox
from tests.http.services.paying import OTHER_SECRET, RECEIVER, Counter, beside, counter_on, send
from tests.meanwhile import meanwhile
from tests.patience import PATIENCE
from tests.payment_provider import MONTH, signed

CREATED, UPDATED, DELETED = NewsType.SUBSCRIPTION_CREATED.value, NewsType.SUBSCRIPTION_UPDATED.value, NewsType.SUBSCRIPTION_DELETED.value
PAID, FAILED = NewsType.PAID.value, NewsType.PAYMENT_FAILED.value
HOUR: Final = 3600


@pytest.fixture
async def counter(database_url: str, tmp_path: Path, log: CapturedLog) -> AsyncIterator[Counter]:
    async with counter_on(database_url, tmp_path, log) as opened:
        opened.customer()
        yield opened


def at(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat().replace("+00:00", "Z")


@pytest.mark.parametrize("new_shape", [True, False])
async def test_a_subscription_begins_is_renewed_fails_and_ends(counter: Counter, *, new_shape: bool) -> None:
    counter.provider.new_shape = new_shape
    counter.people.change("update services set logo_digest = %s", "0f" * 32)
    ada, now = counter.user(), int(time())
    bought = counter.bought(ada, created=now - 60)
    await counter.tell(CREATED, bought, now - 60)
    own = await counter.own(ada)
    assert (own["plan"], own["status"], own["current_period_end"]) == ("Pro", "active", at(now - 60 + MONTH))
    # A renewal: the period comes from the invoice alone, and then from the subscription as well.
    await counter.tell(PAID, counter.provider.invoice(bought, now + 2 * MONTH), now - 50)
    assert (await counter.own(ada))["current_period_end"] == at(now + 2 * MONTH)
    counter.provider.until(bought, now + 2 * MONTH)
    await counter.tell(UPDATED, bought, now - 50)
    await counter.tell(FAILED, counter.provider.invoice(bought, now + 3 * MONTH), now - 40)
    assert (await counter.own(ada))["status"] == "past_due"
    await counter.tell(PAID, counter.provider.invoice(bought, now + 3 * MONTH), now - 30)
    assert (await counter.own(ada))["status"] == "active"
    bought.update(status="canceled", ended_at=now - 20)
    await counter.tell(DELETED, bought, now - 20)
    own = await counter.own(ada)
    assert (own["status"], own["current_period_end"]) == ("cancelled", at(now - 20))
    # One event for each change of state, without an actor.
    assert [(event["name"], event["actor_id"]) for event in counter.told()] == [
        ("subscription.created", None),
        ("subscription.updated", None),
        ("subscription.updated", None),
        ("subscription.updated", None),
        ("subscription.canceled", None),
    ]
    assert [entry["action"] for entry in counter.audited("subscription.%")] == [event["name"] for event in counter.told()]
    # One mail, about the payment that failed.
    (mail,) = await Postbox(counter.postern).empty()
    assert f"/logos/{'0f' * 32}" in mail.html


@pytest.mark.parametrize(
    ("status", "shown"),
    [
        ("trialing", "active"),
        ("active", "active"),
        ("past_due", "past_due"),
        ("unpaid", "past_due"),
        ("incomplete", None),
        ("incomplete_expired", "expired"),
        ("paused", "expired"),
        ("canceled", "cancelled"),
        ("a_word_of_tomorrow", "past_due"),
    ],
)
async def test_the_providers_words_become_ours(counter: Counter, status: str, shown: str | None) -> None:
    ada = counter.user()
    await counter.tell(CREATED, counter.bought(ada, status=status))
    assert [row["status"] for row in counter.records(ada)] == ([] if shown is None else [shown])


async def test_what_was_kept_alive_by_hand_makes_room_for_what_is_paid_for(counter: Counter) -> None:
    ada, now = counter.user(), int(time())
    over = counter.bought(ada, created=now - 100)
    await counter.tell(CREATED, over, now - 100)
    over.update(status="canceled", ended_at=now - 50)
    await counter.tell(DELETED, over, now - 50)
    # Days of grace, given by the service.
    assert (await counter.ask("PATCH", f"/{ada.user}", {"status": "active"})).status == 200
    paid_for = counter.bought(ada, counter.team, "price_team", created=now - 10)
    await counter.tell(CREATED, paid_for, now - 10)
    await counter.tell(UPDATED, paid_for, now - 5)
    assert [(row["name"], row["status"]) for row in counter.records(ada)] == [("Pro", "cancelled"), ("Team", "active")]
    assert len(counter.told_about("subscription.created")) == 2
    # A state that is set by hand holds until the provider says otherwise, also beside another subscription.
    assert (await counter.ask("PATCH", f"/{ada.user}", {"status": "expired"})).status == 200
    await counter.tell(UPDATED, over, now - 49)
    assert [row["status"] for row in counter.records(ada)] == ["cancelled", "expired"]


async def test_one_that_comes_alive_again_makes_an_end_of_the_one_that_was_kept_alive_by_hand(counter: Counter) -> None:
    ada, now = counter.user(), int(time())
    first = counter.bought(ada, created=now - 100, status="paused")
    second = counter.bought(ada, counter.team, "price_team", created=now - 90, status="paused")
    await counter.tell(CREATED, first, now - 100)
    await counter.tell(CREATED, second, now - 90)
    assert (await counter.ask("PATCH", f"/{ada.user}", {"status": "active"})).status == 200
    first["status"] = "active"
    await counter.tell(UPDATED, first, now - 50)
    assert [(row["name"], row["status"]) for row in counter.records(ada)] == [("Pro", "active"), ("Team", "expired")]


async def test_who_signs_and_when_decides(counter: Counter) -> None:
    event = counter.provider.event(CREATED, counter.bought(counter.user()))
    body, now = json.dumps(event).encode(), int(time())
    good = signed(body).partition("v1=")[2]

    async def status(signature: str | None, sent: bytes = body) -> int:
        return (await send(counter.client, {}, signature=signature, body=sent)).status

    assert await status(None) == 400
    assert await status(signed(body), body + b" ") == 401
    for wrong in (
        "x",
        "t=1",
        f"v1={good}",
        f"t={now}",
        f"t={now},v1=",
        f"t={now},v0={good}",
        f"t={now},v1={'0' * 64}",
        f"t={now},t={now},v1={good}",
        f"t=-{now},v1={good}",
        f"t={now}.0,v1={good}",
        f"t={'9' * 30},v1={good}",
        ",".join([f"t={now}", *[f"v1={good}"] * 17]),
        "x" * 5000,
        f"t={now},v1={good.upper()}",
        f"t={now},v1=ä",
    ):
        assert await status(wrong) == 401, wrong
    assert await status(signed(body, "whsec_wrong")) == 401
    assert [await status(signed(body, at=now + drift)) for drift in (-290, 290)] == [200, 200]
    assert [await status(signed(body, at=now + drift)) for drift in (-310, 310)] == [401, 401]
    # While the secrets are changed, the provider signs with both; either is enough.
    assert await status(signed(body, OTHER_SECRET)) == 200
    both = f"t={now},v1={'0' * 64},v1={signed(body, OTHER_SECRET, now).partition('v1=')[2]},v0=1"
    assert await status(both) == 200
    spaced = signed(body).replace(",", ", ")
    assert await status(spaced) == 200
    # The provider's own header name.
    headers = [("content-type", "application/json"), ("stripe-signature", signed(body))]
    assert (await counter.client.request("POST", RECEIVER, body=body, headers=headers)).status == 200
    assert len(counter.told_about("subscription.created")) == 1


async def test_what_is_no_event_is_refused_whoever_signs_it(counter: Counter) -> None:
    bought = counter.bought(counter.user())
    event = counter.provider.event(CREATED, bought)
    for body in (
        b"\xff\xfe",
        b"{",
        b"[]",
        b"[" * 200_000,
        b"{}",
        json.dumps({**event, "id": 5}).encode(),
        json.dumps({**event, "created": "yesterday"}).encode(),
        json.dumps({**event, "created": 10**30}).encode(),
        json.dumps({**event, "data": None}).encode(),
        json.dumps({**event, "data": {"object": {}}}).encode(),
        json.dumps({**event, "data": {"object": {**bought, "status": None}}}).encode(),
    ):
        signature = signed(body) if body.isascii() else "t=1,v1=0"
        assert (await send(counter.client, {}, signature=signature, body=body)).status == 400, body[:80]
    assert counter.outcomes() == {}
    headers = [("content-type", "text/plain"), ("billing-signature", signed(b"{}"))]
    assert (await counter.client.request("POST", RECEIVER, body=b"{}", headers=headers)).status == 415


async def test_what_does_not_concern_us_is_taken_and_changes_nothing(counter: Counter) -> None:
    ada = counter.user()
    bought = counter.bought(ada)
    await counter.tell("charge.succeeded", {"id": "ch_1", "amount": 5})
    await counter.tell("payment_method.attached", {"id": "pm_1", "customer": "cus_acme"})
    await counter.tell(PAID, {"id": "in_1", "customer": "cus_acme", "lines": {"data": []}})
    # An event of the account's other mode: our key is a test key.
    live = counter.provider.event(CREATED, bought, livemode=True)
    assert (await counter.send(live)).status == 200
    assert set(counter.outcomes().values()) == {"ignored"}
    # An event of another product in the same account.
    await counter.tell(CREATED, counter.provider.subscribe("cus_of_another", "price_x", {"their": "own"}))
    assert counter.records(ada) == []
    assert counter.log.events("billing_event_refused") == []


async def test_forged_metadata_has_no_effect_and_is_on_record(counter: Counter) -> None:
    ada, eve = counter.user(), counter.people.add()
    theirs = counter.priced("price_theirs", counter.theirs)
    globex: dict[str, Any] = {"org_id": str(counter.globex.id)}
    forged = [
        ("cus_acme", counter.metadata(ada, theirs)),
        ("cus_acme", counter.metadata(ada, service_id=str(counter.theirs.id))),
        ("cus_acme", counter.metadata(ada, theirs, service_id=str(counter.theirs.id))),
        ("cus_acme", counter.metadata(ada, theirs, service_id=str(counter.theirs.id), **globex)),
        ("cus_acme", counter.metadata(ada, **globex)),
        # A person who has nothing to do with the shop.
        ("cus_acme", counter.metadata(eve)),
        ("cus_acme", counter.metadata(ada, user_id="00000000-0000-7000-8000-000000000000")),
        ("cus_acme", counter.metadata(ada, user_id="'; drop table users; --")),
        # Right metadata with a customer of another organization.
        ("cus_globex", counter.metadata(ada)),
    ]
    counter.people.change(
        "insert into billing_customers (id, org_id, external_id, created_at) values (gen_random_uuid(), %s, 'cus_globex', now())",
        counter.globex.id,
    )
    for customer, metadata in forged:
        event = await counter.tell(CREATED, counter.provider.subscribe(customer, "price_pro", metadata))
        assert counter.outcomes()[event["id"]] == "refused", metadata
    assert len(counter.log.events("billing_event_refused")) == len(forged)
    assert counter.people.rows("select id from subscriptions") == []
    assert counter.told() == []
    # The event has no effect on bought subscriptions either.
    bought = counter.bought(ada)
    await counter.tell(CREATED, bought, int(time()) - 30)
    for customer, metadata in forged:
        event = await counter.tell(UPDATED, {**bought, "customer": customer, "metadata": metadata}, int(time()) - 20)
        assert counter.outcomes()[event["id"]] == "refused", metadata
    (record,) = counter.records(ada)
    assert (record["name"], record["status"]) == ("Pro", "active")
    assert counter.records(eve) == []
    assert len(counter.told()) == 1


def nobody_is_customer(counter: Counter) -> None:
    counter.people.change("delete from billing_customers")


def customers(counter: Counter) -> list[tuple[str, str | None]]:
    rows = counter.people.rows("select org_id, external_id from billing_customers order by created_at, id")
    return [(str(row["org_id"]), row["external_id"]) for row in rows]


async def test_subscriptions_are_brought_along_with_the_customer_that_comes_first(counter: Counter) -> None:
    """Subscriptions that were made directly at the provider, by an earlier shop system."""
    nobody_is_customer(counter)
    ada, grace = counter.user(), counter.user()
    event = await counter.tell(CREATED, counter.provider.subscribe("cus_before", "price_pro", counter.metadata(ada)))
    assert counter.outcomes()[event["id"]] == "applied"
    assert [record["status"] for record in counter.records(ada)] == ["active"]
    assert customers(counter) == [(str(counter.acme.id), "cus_before")]
    (told,) = counter.log.events("billing_customer_kept")
    assert (told["organization"], told["customer"]) == (str(counter.acme.id), "cus_before")
    # The same customer's other subscriptions come along.
    event = await counter.tell(CREATED, counter.provider.subscribe("cus_before", "price_pro", counter.metadata(grace)))
    assert counter.outcomes()[event["id"]] == "applied"
    assert customers(counter) == [(str(counter.acme.id), "cus_before")]


async def test_a_customer_that_nobody_has_becomes_one_more_of_the_organization(counter: Counter) -> None:
    ada, grace, third = counter.user(), counter.user(), counter.user()
    for person in (ada, grace):
        event = await counter.tell(CREATED, counter.provider.subscribe("cus_second", "price_pro", counter.metadata(person)))
        assert counter.outcomes()[event["id"]] == "applied"
        assert [record["status"] for record in counter.records(person)] == ["active"]
    assert customers(counter) == [(str(counter.acme.id), "cus_acme"), (str(counter.acme.id), "cus_second")]
    # Checkouts and the portal stay with the first.
    assert counter.people.rows("select external_id from billing_customers where ended_at is null") == [{"external_id": "cus_acme"}]
    # Its end at the provider ends nothing of the first, and it stays the organization's.
    await counter.tell("customer.deleted", {"id": "cus_second"})
    assert counter.people.rows("select external_id from billing_customers where ended_at is null") == [{"external_id": "cus_acme"}]
    # From now on it belongs to this organization, and to no other.
    theirs = counter.priced("price_theirs", counter.theirs)
    counter.tenants.uses(third, counter.theirs)
    metadata = counter.metadata(third, theirs, service_id=str(counter.theirs.id), org_id=str(counter.globex.id))
    event = await counter.tell(CREATED, counter.provider.subscribe("cus_second", "price_theirs", metadata))
    assert counter.outcomes()[event["id"]] == "refused"
    assert counter.records(third) == []


async def test_after_the_end_of_its_customer_the_next_one_takes_its_place(counter: Counter) -> None:
    ada = counter.user()
    await counter.tell("customer.deleted", {"id": "cus_acme"})
    event = await counter.tell(CREATED, counter.provider.subscribe("cus_second", "price_pro", counter.metadata(ada)))
    assert counter.outcomes()[event["id"]] == "applied"
    assert counter.people.rows("select external_id from billing_customers where ended_at is null") == [{"external_id": "cus_second"}]


async def test_of_two_organizations_at_once_one_gets_the_customer(counter: Counter) -> None:
    ada, bob = counter.user(), counter.people.add()
    counter.tenants.uses(bob, counter.theirs)
    theirs = counter.priced("price_theirs", counter.theirs)
    metadata = counter.metadata(bob, theirs, service_id=str(counter.theirs.id), org_id=str(counter.globex.id))
    counter.people.change(
        "insert into billing_customers (id, org_id, external_id, created_at) values (gen_random_uuid(), %s, 'cus_globex', now())",
        counter.globex.id,
    )
    events = [
        counter.provider.event(CREATED, counter.provider.subscribe("cus_second", "price_pro", counter.metadata(ada))),
        counter.provider.event(CREATED, counter.provider.subscribe("cus_second", "price_theirs", metadata)),
    ]
    async with trio.open_nursery() as nursery:
        for event in events:
            nursery.start_soon(counter.send, event)
    billing = counter.postern.services.billing
    for subject, is_customer in await counter.postern.services.billing_inbox.due(counter.now + timedelta(hours=1), 10):
        await billing.apply(subject, is_customer=is_customer)
    assert sorted(counter.outcomes().values()) == ["applied", "refused"]
    assert len([record for record in customers(counter) if record[1] == "cus_second"]) == 1


@pytest.mark.parametrize("wrong", ["plan", "service", "organization", "person", "no user", "other's customer", "first without metadata"])
async def test_what_does_not_belong_together_brings_no_customer(counter: Counter, wrong: str) -> None:
    nobody_is_customer(counter)
    ada, customer = counter.user(), "cus_new"
    metadata = counter.metadata(ada)
    if wrong == "plan":
        metadata = counter.metadata(ada, counter.priced("price_theirs", counter.theirs))
    elif wrong == "service":
        metadata = counter.metadata(ada, service_id=str(counter.theirs.id))
    elif wrong == "organization":
        metadata = counter.metadata(ada, org_id=str(counter.globex.id))
    elif wrong == "person":
        metadata = counter.metadata(counter.people.add())
    elif wrong == "no user":
        metadata = counter.metadata(ada, user_id="00000000-0000-7000-8000-000000000000")
    elif wrong == "other's customer":
        counter.customer(customer)
        counter.people.change("update billing_customers set org_id = %s", counter.globex.id)
    sold = counter.provider.subscribe(customer, "price_pro", metadata)
    if wrong == "first without metadata":
        await counter.tell(CREATED, {**sold, "customer": "cus_elsewhere", "metadata": {}}, int(time()) - 30)
    before = customers(counter)
    event = await counter.tell(CREATED, sold)
    assert counter.outcomes()[event["id"]] == "refused"
    assert [record for record in customers(counter) if record[1] is not None] == before
    assert counter.people.rows("select id from subscriptions") == []


async def test_of_customers_at_once_one_is_the_first_and_all_are_the_organizations(counter: Counter) -> None:
    nobody_is_customer(counter)
    buyers = {f"cus_{number}": counter.user() for number in range(6)}
    events = [
        counter.provider.event(CREATED, counter.provider.subscribe(customer, "price_pro", counter.metadata(person)))
        for customer, person in buyers.items()
    ]
    async with trio.open_nursery() as nursery:
        for event in events:
            nursery.start_soon(counter.send, event)
    billing = counter.postern.services.billing
    for subject, is_customer in await counter.postern.services.billing_inbox.due(counter.now + timedelta(hours=1), 10):
        await billing.apply(subject, is_customer=is_customer)
    assert {name for _, name in customers(counter)} == set(buyers)
    assert set(counter.outcomes().values()) == {"applied"}
    assert all(counter.records(person) for person in buyers.values())
    assert len(counter.people.rows("select from billing_customers where ended_at is null")) == 1


async def test_copies_of_one_event_count_once(counter: Counter, database_url: str, tmp_path: Path) -> None:
    """Several processes on the same database get the event."""
    ada = counter.user()
    event = counter.provider.event(CREATED, counter.bought(ada))
    async with beside(database_url, tmp_path) as other:
        clients = (counter.client, other)
        answers = await all_at_once(*[lambda client=clients[n % 2]: send(client, event) for n in range(200)])
    assert {answer.status for answer in answers} == {200}
    assert len(counter.records(ada)) == 1
    assert (len(counter.told()), len(counter.audited("subscription.%"))) == (1, 1)


async def test_a_move_to_another_plan_is_told_once(counter: Counter) -> None:
    ada, now = counter.user(), int(time())
    bought = counter.bought(ada)
    await counter.tell(CREATED, bought, now - 20)
    bought["items"]["data"][0]["price"]["id"] = "price_team"
    # The metadata still name the first plan, but the paid price decides.
    await counter.tell(UPDATED, bought, now - 10)
    assert (await counter.own(ada))["plan"] == "Team"
    assert [event["name"] for event in counter.told()] == ["subscription.created", "subscription.updated"]
    assert (counter.counts(counter.pro)[0], counter.counts(counter.team)[0]) == (0, 1)


async def test_what_the_provider_manages_never_ends_by_our_clock(counter: Counter) -> None:
    ada, now = counter.user(), int(time())
    bought = counter.bought(ada, created=now - 2 * MONTH, end=now - 6 * HOUR)
    await counter.tell(CREATED, bought, now - 2 * MONTH)
    assert await counter.postern.services.subscriptions.expire_due(None, 100) == (0, None)
    assert (await counter.own(ada))["status"] == "active"
    assert (await counter.get(ada))["status"] == "active"


async def test_news_older_than_what_is_known_change_nothing(counter: Counter) -> None:
    ada, now = counter.user(), int(time())
    bought = counter.bought(ada)
    earlier = counter.provider.event(CREATED, {**bought, "status": "incomplete"}, now - 30)
    later = counter.provider.event(UPDATED, bought, now - 30)
    failed = counter.provider.event(FAILED, counter.provider.invoice(bought, now), now - 40)
    for event in (later, earlier, failed, later):
        assert (await counter.send(event)).status == 200
    assert (await counter.own(ada))["status"] == "active"
    assert len(counter.told()) == 1
    assert counter.mails() == 0


async def test_an_invoice_may_come_before_its_subscription(counter: Counter) -> None:
    ada, now = counter.user(), int(time())
    bought = counter.bought(ada)
    await counter.tell(PAID, counter.provider.invoice(bought, now + 2 * MONTH), now - 5)
    assert counter.records(ada) == []
    await counter.tell(CREATED, {**bought, "status": "incomplete"}, now - 10)
    own = await counter.own(ada)
    assert own["status"] == "active"


async def test_a_status_set_through_the_api_holds_until_newer_news(counter: Counter) -> None:
    ada, now = counter.user(), int(time())
    bought = counter.bought(ada, created=now - 100)
    await counter.tell(CREATED, bought, now - 100)
    assert (await counter.ask("PATCH", f"/{ada.user}", {"status": "expired"})).ok()["status"] == "expired"
    await counter.tell(PAID, counter.provider.invoice(bought, now), now - 90)
    await counter.tell(UPDATED, bought, now - 80)
    assert (await counter.get(ada))["status"] == "expired"
    await counter.tell(UPDATED, bought, now + 5)
    assert (await counter.get(ada))["status"] == "active"


async def test_what_is_paid_takes_the_place_of_what_was_given(counter: Counter) -> None:
    ada = counter.user()
    await counter.subscribed(ada, counter.team)
    await counter.tell(CREATED, counter.bought(ada))
    assert sorted((row["name"], row["status"]) for row in counter.records(ada)) == [("Pro", "active"), ("Team", "cancelled")]
    assert (await counter.subscribe(ada, counter.team)).status == 409


async def test_of_two_that_live_the_younger_counts(counter: Counter) -> None:
    ada, now = counter.user(), int(time())
    first = counter.bought(ada, created=now - 1000)
    second = counter.bought(ada, counter.team, "price_team", created=now - 500)
    await counter.tell(CREATED, second, now - 500)
    await counter.tell(CREATED, first, now - 400)
    assert [(row["name"], row["status"]) for row in counter.records(ada)] == [("Pro", "expired"), ("Team", "active")]
    second.update(status="canceled", ended_at=now)
    await counter.tell(DELETED, second, now)
    assert [(row["name"], row["status"]) for row in counter.records(ada)] == [("Pro", "active"), ("Team", "cancelled")]


async def test_people_are_told_what_they_have_to_do(counter: Counter) -> None:
    ada, now = counter.user(), int(time())
    bought = counter.bought(ada, status="trialing")
    await counter.tell(CREATED, bought, now - 50)
    trial = await counter.tell(NewsType.TRIAL_WILL_END.value, bought, now - 40)
    assert counter.mails() == 1
    await counter.send(trial)
    await counter.tell(NewsType.ACTION_REQUIRED.value, counter.provider.invoice(bought, now), now - 30)
    assert counter.mails() == 2
    # Done meanwhile, or long ago.
    await counter.tell(PAID, counter.provider.invoice(bought, now + MONTH), now - 20)
    await counter.tell(NewsType.ACTION_REQUIRED.value, counter.provider.invoice(bought, now), now - 25)
    await counter.tell(NewsType.TRIAL_WILL_END.value, bought, now - 5 * 86_400)
    counter.people.change("update users set deactivated_at = now() where id = %s", ada.user)
    await counter.tell(FAILED, counter.provider.invoice(bought, now), now - 10)
    assert counter.mails() == 2


async def test_a_customer_that_is_gone_is_made_anew_and_its_subscriptions_end(counter: Counter) -> None:
    ada, now = counter.user(), int(time())
    bought = counter.bought(ada)
    await counter.tell(CREATED, bought, now - 20)
    await counter.tell("customer.updated", {"id": "cus_acme"})
    await counter.tell("customer.deleted", {"id": "cus_acme"}, now - 10)
    bought.update(status="canceled", ended_at=now - 10)
    await counter.tell(DELETED, bought, now - 10)
    assert (await counter.own(ada))["status"] == "cancelled"
    (row,) = counter.people.rows("select ended_at from billing_customers")
    assert row["ended_at"] is not None


async def test_what_fails_is_kept_and_tried_again(counter: Counter, monkeypatch: pytest.MonkeyPatch) -> None:
    ada = counter.user()
    counter.log.allow("billing_event_failed")
    billing = counter.postern.services.billing

    async def broken(*_given: Any, **_named: Any) -> None:
        raise ZeroDivisionError

    with monkeypatch.context() as patched:
        answer_by(patched, billing, "_observe", broken)
        event = await counter.tell(CREATED, counter.bought(ada))
    (listed,) = await billing.events(waiting=True, limit=10)
    assert (listed.id, listed.attempts, listed.error) == (event["id"], 1, "ZeroDivisionError")
    assert (await billing.waiting()).events == 1
    inbox, clock = counter.postern.services.billing_inbox, counter.postern.foundation.clock
    assert await inbox.due(clock.now(), 10) == []
    assert await billing.retry("evt_unknown") == 0
    assert await billing.retry(None) == 1
    for subject, is_customer in await inbox.due(clock.now(), 10):
        await billing.apply(subject, is_customer=is_customer)
    assert (await counter.own(ada))["status"] == "active"
    assert await billing.events(waiting=True, limit=10) == []
    assert [one.outcome for one in await billing.events(waiting=False, limit=10)] == ["applied"]


async def test_the_provider_does_not_wait_for_others_news(counter: Counter, monkeypatch: pytest.MonkeyPatch) -> None:
    """If all slots are busy, the accepted event is left to the reconciler."""
    billing, released, begun = counter.postern.services.billing, trio.Event(), trio.Event()
    applied = billing.apply

    async def slow(subject: str, *, is_customer: bool) -> None:
        begun.set()
        await released.wait()
        await applied(subject, is_customer=is_customer)

    people = [counter.user() for _ in range(6)]
    with monkeypatch.context() as patched:
        answer_by(patched, billing, "apply", slow)
        async with trio.open_nursery() as nursery:
            for person in people[:4]:
                nursery.start_soon(counter.tell, CREATED, counter.bought(person))
            await begun.wait()
            with trio.fail_after(PATIENCE):
                while counter.postern.services.billing_turns._turns.available_tokens:
                    await trio.sleep(0.01)
                await counter.tell(CREATED, counter.bought(people[4]))
                await counter.postern.services.billing_mailbox.wait()
            assert counter.records(people[4]) == []
            released.set()
    assert len(counter.records(people[0])) == 1


async def test_round_trips(counter: Counter) -> None:
    ada = counter.user()
    event = counter.provider.event(CREATED, counter.bought(ada))
    await counter.send(event)
    assert 0 < counter.log.events("request")[-1]["db_round_trips"] <= 6


async def test_a_buyer_who_goes_at_this_moment_gets_nothing(counter: Counter, monkeypatch: pytest.MonkeyPatch) -> None:
    """The service removes the buyer after the buyer was found, and before the rows are locked."""
    ada = counter.user()
    candidate = BillingRows.candidate

    async def deleted_meanwhile(rows: BillingRows, *given: Any) -> Any:
        found = await candidate(rows, *given)
        await trio.to_thread.run_sync(counter.people.change, "delete from service_users where user_id = %s", ada.user)
        return found

    monkeypatch.setattr(BillingRows, "candidate", deleted_meanwhile)
    event = await counter.tell("customer.subscription.created", counter.bought(ada))
    assert counter.outcomes() == {event["id"]: "refused"}
    assert counter.records(ada) == []


async def test_while_the_database_is_away_news_count_as_not_tried(counter: Counter) -> None:
    ada = counter.user()

    def away() -> Any:
        raise Unavailable(retry_after=1)

    billing = counter.postern.services.billing
    unit_of_work = billing.unit_of_work
    put(billing, unit_of_work=away)
    event = await counter.tell("customer.subscription.created", counter.bought(ada))
    with pytest.raises(Unavailable):
        await billing.apply("sub_000001", is_customer=False)
    put(billing, unit_of_work=unit_of_work)
    (row,) = counter.people.rows("select attempts, applied_at from billing_events where id = %s", event["id"])
    assert (row["attempts"], row["applied_at"]) == (0, None)
    await billing.apply("sub_000001", is_customer=False)
    assert counter.outcomes() == {event["id"]: "applied"}


async def test_who_buys_for_an_organization_that_is_deleted_at_this_moment_gets_nothing(
    counter: Counter, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first subscription of a new customer would link the customer to the organization, which is gone once the buyer is found."""
    nobody_is_customer(counter)
    ada = counter.user()
    delete = "update all_organizations set deleted_at = now() where id = %s"
    meanwhile(monkeypatch, BillingRows, "candidate", lambda: counter.people.change(delete, counter.acme.id))
    event = await counter.tell(CREATED, counter.provider.subscribe("cus_new", "price_pro", counter.metadata(ada)))
    assert counter.outcomes() == {event["id"]: "refused"}
    assert (counter.records(ada), customers(counter)) == ([], [])
    assert counter.people.rows("select external_id, service_id from billing_subscriptions where service_id is not null") == []


async def test_a_customer_that_becomes_anothers_at_this_moment_brings_nothing(counter: Counter, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody had the customer when the buyer was looked for. The second look finds whose it is."""
    ada = counter.user()
    take = (
        "insert into billing_customers (id, org_id, external_id, created_at)"
        " values (gen_random_uuid(), %s, 'cus_second', now()) on conflict do nothing"
    )
    meanwhile(monkeypatch, BillingRows, "candidate", lambda: counter.people.change(take, counter.globex.id))
    event = await counter.tell(CREATED, counter.provider.subscribe("cus_second", "price_pro", counter.metadata(ada)))
    assert counter.outcomes() == {event["id"]: "refused"}
    assert counter.records(ada) == []
    assert customers(counter) == [(str(counter.acme.id), "cus_acme"), (str(counter.globex.id), "cus_second")]
