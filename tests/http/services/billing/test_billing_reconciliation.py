"""Reconciliation asks the provider for states that no event told: lost events, late events, and subscriptions whose person or service is
gone.
"""

from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path
from time import time
from typing import Any, Final

import pytest
import trio

from actors.billing import BillingReconciler
from adapters.postgres.services.billing import PostgresBillingInbox
from adapters.postgres.upkeep.purging import PostgresDeletedServices, PostgresForgottenPeople
from core.domain.errors import Unavailable
from core.domain.identifiers import UserId
from core.domain.identity.privacy import PrivacyRequester, forget_job
from core.domain.record.events import SYSTEM
from core.usecases.jobs import Purge
from tests.changed_fields import answer_by
from tests.conftest import CapturedLog
from tests.http.services.paying import Counter, beside, counter_on, send
from tests.patience import PATIENCE
from tests.payment_provider import MONTH, no_trouble

CREATED: Final = "customer.subscription.created"
UPDATED: Final = "customer.subscription.updated"
HOUR: Final = 3600


@pytest.fixture
async def counter(database_url: str, tmp_path: Path, log: CapturedLog) -> AsyncIterator[Counter]:
    async with counter_on(database_url, tmp_path, log) as opened:
        opened.customer()
        yield opened


def reconciler(counter: Counter, **more: Any) -> BillingReconciler:
    services = counter.postern.services
    return BillingReconciler(
        services.billing,
        services.billing_reconciliation,
        services.billing_inbox,
        services.billing_mailbox,
        metrics=counter.postern.foundation.metrics,
        clock=counter.postern.foundation.clock,
        spread=lambda: 0.0,
        **{"poll": 0.05, "ask": 0.05, "breath": 0.001, "rest": 0.05, "young": timedelta(0), **more},
    )


def asked(counter: Counter) -> list[str]:
    return [f"{method} {path}" for method, path in counter.provider.calls]


async def test_what_was_sold_before_comes_along_with_the_daily_look(counter: Counter) -> None:
    """Holds also for subscriptions whose events were refused once, as an earlier release refused them all."""
    counter.people.change("delete from billing_customers")
    ada = counter.people.add()
    sold = counter.provider.subscribe("cus_before", "price_pro", counter.metadata(ada))
    event = await counter.tell(CREATED, sold)
    assert counter.outcomes()[event["id"]] == "refused"
    counter.tenants.uses(ada, counter.shop)
    await reconciler(counter).ask_all()
    assert [row["status"] for row in counter.records(ada)] == ["active"]
    assert counter.people.rows("select external_id from billing_customers") == [{"external_id": "cus_before"}]


async def test_news_that_were_lost_are_found_by_the_daily_look(counter: Counter) -> None:
    counter.provider.page_size = 2
    people = [counter.user() for _ in range(5)]
    bought = [counter.bought(person) for person in people]
    foreign = counter.provider.subscribe("cus_of_another", "price_x", {})
    await reconciler(counter).ask_all()
    assert [[row["status"] for row in counter.records(person)] for person in people] == [["active"]] * 5
    assert counter.people.rows("select external_id from billing_subscriptions where external_id = %s", foreign["id"]) == []
    # Once a day, by one process.
    calls = len(counter.provider.calls)
    bought[0]["status"] = "canceled"
    await reconciler(counter).ask_all()
    assert len(counter.provider.calls) == calls
    counter.people.change("update billing_sweeps set due_at = now() - interval '1 second'")
    await reconciler(counter).ask_all()
    assert [row["status"] for row in counter.records(people[0])] == ["cancelled"]
    assert len(counter.log.events("billing_drift")) == 6
    # Nothing else was written, and no event was sent again.
    assert len(counter.told()) == 6


async def test_a_page_is_read_in_no_time(counter: Counter) -> None:
    for _ in range(45):
        counter.provider.subscribe("cus_of_another", "price_x", {})
    assert (await counter.postern.services.billing_reconciliation.reconcile()).looked_at == 45
    assert asked(counter) == ["GET /v1/subscriptions"] * 3


async def test_news_of_a_renewal_may_be_hours_late(counter: Counter) -> None:
    ada, now = counter.user(), int(time())
    bought = counter.bought(ada, created=now - 2 * MONTH, end=now - 6 * HOUR)
    await counter.tell(CREATED, bought, now - 2 * MONTH)
    assert (await counter.own(ada))["status"] == "active"
    counter.provider.until(bought, now + MONTH)
    assert await counter.postern.services.billing_reconciliation.check_one()
    assert asked(counter) == [f"GET /v1/subscriptions/{bought['id']}"]
    (record,) = counter.records(ada)
    assert (record["status"], int(record["current_period_end"].timestamp())) == ("active", now + MONTH)
    assert not await counter.postern.services.billing_reconciliation.check_one()


async def test_as_long_as_the_answer_stays_the_same_we_ask_once_an_hour(counter: Counter) -> None:
    ada, now = counter.user(), int(time())
    await counter.tell(CREATED, counter.bought(ada, end=now - HOUR), now - 100)
    assert await counter.postern.services.billing_reconciliation.check_one()
    (row,) = counter.people.rows("select extract(epoch from check_at - now()) as again from billing_subscriptions")
    assert HOUR - 100 < row["again"] <= HOUR


@pytest.mark.parametrize("sweep", [True, False])
async def test_the_providers_word_ends_doubts_also_where_we_had_guessed_well(counter: Counter, *, sweep: bool) -> None:
    ada, now = counter.user(), int(time())
    bought = counter.bought(ada, created=now - 100)
    await counter.tell(UPDATED, {**bought, "status": "past_due"}, now - 100)
    await counter.tell(UPDATED, bought, now - 100)
    services = counter.postern.services
    assert await (services.billing_reconciliation.sweep_page() if sweep else services.billing_reconciliation.check_one())
    (row,) = counter.people.rows("select facets -> 'is_doubtful' as doubtful, check_at > now() as later from billing_subscriptions")
    assert row == {"doubtful": False, "later": True}
    assert (await counter.own(ada))["status"] == "active"


async def test_a_provider_that_does_not_know_it_ends_nothing(counter: Counter) -> None:
    ada, now = counter.user(), int(time())
    bought = counter.bought(ada, end=now - HOUR)
    await counter.tell(CREATED, bought)
    del counter.provider.subscriptions[bought["id"]]
    await reconciler(counter).ask_all()
    await counter.postern.services.billing_reconciliation.reconcile()
    assert (await counter.own(ada))["status"] == "active"
    assert len(counter.log.events("billing_subscription_unknown")) == 1


async def test_a_look_that_finds_nothing_new_is_no_news(counter: Counter) -> None:
    """A state that somebody set through the API stays."""
    ada, now = counter.user(), int(time())
    bought = counter.bought(ada, created=now - 100)
    await counter.tell(CREATED, bought, now - 100)
    await counter.ask("PATCH", f"/{ada.user}", {"status": "cancelled"})
    found = await counter.postern.services.billing_reconciliation.reconcile()
    assert (found.looked_at, found.changed) == (1, 0)
    assert (await counter.get(ada))["status"] == "cancelled"


async def test_what_somebody_changed_past_us_is_put_right(counter: Counter) -> None:
    ada = counter.user()
    await counter.tell(CREATED, counter.bought(ada), int(time()) - 10)
    # As an older release would have written it, by our clock.
    counter.people.change("update subscriptions set status = 'expired'")
    assert (await counter.postern.services.billing_reconciliation.reconcile()).changed == 1
    assert (await counter.own(ada))["status"] == "active"


async def test_whoever_is_deleted_pays_no_longer(counter: Counter) -> None:
    people = [counter.user() for _ in range(4)]
    bought = [counter.bought(person) for person in people]
    for one in bought:
        await counter.tell(CREATED, one)
    by_api, by_leaving, by_account, stays = people
    assert (await counter.ask("DELETE", f"/{by_api.user}")).status == 204
    counter.people.change("delete from service_users where user_id = %s", by_leaving.user)
    counter.people.change("delete from users where id = %s", by_account.user)
    # Late events do not revive the subscription.
    await counter.tell(UPDATED, bought[0], int(time()) + 1)
    assert counter.records(by_api) == []
    counter.people.change("update billing_sweeps set due_at = now() + interval '1 day'")
    counter.provider.trouble = lambda method, _path: "fail" if method == "DELETE" else None
    actor = reconciler(counter)
    with pytest.raises(Exception, match="500"):
        await actor.ask_all()
    counter.provider.trouble = no_trouble
    counter.people.change("update billing_subscriptions set cancel_at = now() where cancel_at is not null")
    await actor.ask_all()
    assert [one["status"] for one in bought] == ["canceled"] * 3 + ["active"]
    assert counter.people.rows("select user_id from billing_subscriptions where released_at is not null and user_id is not null") == []
    assert (await counter.own(stays))["status"] == "active"
    # The provider's event about its end has no effect.
    await counter.tell("customer.subscription.deleted", bought[0], int(time()) + 2)
    assert counter.records(by_api) == []


async def test_nobody_pays_for_a_person_who_was_forgotten(counter: Counter) -> None:
    people = [counter.user() for _ in range(2)]
    bought = [counter.bought(person) for person in people]
    for one in bought:
        await counter.tell(CREATED, one)
    foundation, privacy = counter.postern.foundation, counter.postern.identity.privacy
    request = await privacy.forget(UserId(people[0].user), PrivacyRequester(operator="root"), SYSTEM)
    counter.people.change("update billing_sweeps set due_at = now() + interval '1 day'")
    remains = PostgresForgottenPeople(foundation.pool, foundation.keyring)
    assert await Purge(foundation.unit_of_work, remains, forget_job).run(request.id, trio.lowlevel.checkpoint)
    await reconciler(counter).ask_all()
    assert [one["status"] for one in bought] == ["canceled", "active"]
    # The provider's event ends it here, as usual.
    await counter.tell("customer.subscription.deleted", bought[0], int(time()) + 1)
    assert [row["status"] for row in counter.records(people[0])] == ["cancelled"]


async def test_what_a_forgotten_person_had_begun_to_buy_is_cancelled(counter: Counter) -> None:
    """The provider's page was still open, and somebody paid there afterwards."""
    ada = counter.user()
    foundation, privacy = counter.postern.foundation, counter.postern.identity.privacy
    request = await privacy.forget(UserId(ada.user), PrivacyRequester(operator="root"), SYSTEM)
    remains = PostgresForgottenPeople(foundation.pool, foundation.keyring)
    assert await Purge(foundation.unit_of_work, remains, forget_job).run(request.id, trio.lowlevel.checkpoint)
    bought = counter.bought(ada)
    await counter.tell(CREATED, bought)
    await reconciler(counter).ask_all()
    assert bought["status"] == "canceled"
    await counter.tell("customer.subscription.deleted", bought, int(time()) + 1)
    assert [row["status"] for row in counter.records(ada)] == ["cancelled"]
    assert counter.people.rows("select external_id from billing_subscriptions where cancel_at is not null") == []


async def test_a_cancellation_that_came_to_nothing_is_made_up_for(counter: Counter) -> None:
    """With the key of another account, the provider did not know the subscription."""
    ada = counter.user()
    bought = counter.bought(ada)
    await counter.tell(CREATED, bought)
    counter.people.change("delete from service_users where user_id = %s", ada.user)
    elsewhere = counter.provider.subscriptions.pop(bought["id"])
    await reconciler(counter).ask_all()
    assert counter.people.rows("select external_id from billing_subscriptions where cancel_at is not null") == []
    counter.provider.subscriptions[bought["id"]] = elsewhere
    counter.people.change("update billing_sweeps set due_at = now()")
    await reconciler(counter).ask_all()
    assert bought["status"] == "canceled"
    assert len(counter.log.events("billing_cancellation_lost")) == 1
    assert (await counter.postern.services.billing_reconciliation.reconcile()).changed == 0
    assert counter.people.rows("select external_id from billing_subscriptions where cancel_at is not null") == []


async def test_a_deleted_service_ends_what_was_bought_there(counter: Counter) -> None:
    ada, bob = counter.user(), counter.user()
    bought = counter.bought(ada)
    unpaid = counter.bought(bob, status="incomplete")
    for one in (bought, unpaid):
        await counter.tell(CREATED, one)
    path = "/api/organizations/acme/services/shop"
    assert (await counter.request("DELETE", path, by=counter.owner)).status == 204
    # Events at these moments are accepted, without effect.
    await counter.tell(UPDATED, bought, int(time()) + 1)
    remains = PostgresDeletedServices(counter.postern.foundation.pool)
    for part in remains.parts:
        await remains.sweep(part, counter.shop.id, None, 100)
    await reconciler(counter).ask_all()
    assert (bought["status"], unpaid["status"]) == ("canceled", "canceled")


async def test_a_key_that_the_provider_does_not_accept_changes_nothing(database_url: str, tmp_path: Path, log: CapturedLog) -> None:
    async with counter_on(database_url, tmp_path, log, POSTERN_BILLING_KEY="sk_test_other") as counter:
        counter.customer()
        ada, bob, now = counter.user(), counter.user(), int(time())
        await counter.tell(CREATED, counter.bought(ada, end=now - HOUR))
        await counter.tell(CREATED, counter.bought(bob))
        counter.people.change("delete from service_users where user_id = %s", bob.user)
        await reconciler(counter).ask_all()
        assert (await counter.own(ada))["status"] == "active"
        assert [len(log.events(f"billing_{what}")) for what in ("cancellation_refused", "subscription_unknown", "sweep_refused")] == [
            1,
            1,
            1,
        ]
        # Each of these is looked at again.
        assert len(counter.people.rows("select external_id from billing_subscriptions where cancel_at > now() or check_at > now()")) == 2


async def test_without_a_provider_nothing_is_asked(database_url: str, tmp_path: Path, log: CapturedLog) -> None:
    async with counter_on(database_url, tmp_path, log, POSTERN_BILLING_KEY="") as counter:
        reconciliation = counter.postern.services.billing_reconciliation
        assert not await reconciliation.cancel_one()
        assert not await reconciliation.check_one()
        assert not await reconciliation.sweep_page()
        assert (await reconciliation.reconcile()).looked_at == 0


async def test_the_actor_applies_asks_and_rests(counter: Counter) -> None:
    ada, bob = counter.user(), counter.user()
    counter.provider.trouble = lambda _method, _path: "fail"
    event = counter.provider.event(CREATED, counter.bought(ada))
    counter.bought(bob)
    async with trio.open_nursery() as nursery:
        await nursery.start(reconciler(counter).run)
        await _until(lambda: bool(counter.log.events("billing_provider_away")))
        counter.provider.trouble = no_trouble
        # Events accepted by a process that died before it applied them.
        assert (await counter.postern.services.billing_inbox.waiting()).events == 0
        counter.people.change("delete from billing_events")
        await _taken_only(counter, event)
        # The others look after their longest silence at the latest.
        counter.postern.services.billing_mailbox.post()
        await _until(lambda: bool(counter.records(ada)))
        counter.people.change("update billing_sweeps set due_at = now(), leased_until = null")
        await _until(lambda: bool(counter.records(bob)))
        nursery.cancel_scope.cancel()
    assert counter.records(ada)[0]["status"] == "active"


async def test_one_that_nobody_has_foreseen_costs_no_other_its_look(counter: Counter, monkeypatch: pytest.MonkeyPatch) -> None:
    counter.log.allow("billing_look_failed")
    people = [counter.user() for _ in range(3)]
    bought = [counter.bought(person) for person in people]
    billing = counter.postern.services.billing
    observe = billing.observe

    async def odd(subject: str, *others: Any) -> bool:
        if subject == bought[0]["id"]:
            raise OverflowError("a year")
        return await observe(subject, *others)

    answer_by(monkeypatch, billing, "observe", odd)
    await reconciler(counter).ask_all()
    assert [[row["status"] for row in counter.records(person)] for person in people] == [[], ["active"], ["active"]]
    assert len(counter.log.events("billing_look_failed")) == 1


async def test_a_step_that_nobody_has_foreseen_ends_nothing(counter: Counter, monkeypatch: pytest.MonkeyPatch) -> None:
    counter.log.allow("work_broken")
    ada = counter.user()
    counter.bought(ada)

    async def odd() -> bool:
        raise OverflowError("a year")

    answer_by(monkeypatch, counter.postern.services.billing_reconciliation, "cancel_one", odd)
    await reconciler(counter).ask_all()
    assert counter.records(ada)[0]["status"] == "active"
    assert {one["actor"] for one in counter.log.events("work_broken")} == {"billing_reconciler"}


async def test_a_rate_limit_is_respected(counter: Counter) -> None:
    counter.provider.trouble = lambda _method, _path: "rest"
    async with trio.open_nursery() as nursery:
        await nursery.start(reconciler(counter).run)
        await _until(lambda: bool(counter.log.events("billing_provider_away")))
        nursery.cancel_scope.cancel()
    (told,) = counter.log.events("billing_provider_away")
    assert told["again_in"] == HOUR
    assert counter.provider.calls == []


async def test_a_process_without_a_key_applies_and_asks_nothing(counter: Counter, database_url: str, tmp_path: Path) -> None:
    ada = counter.user()
    async with beside(database_url, tmp_path) as other:
        assert (await send(other, counter.provider.event(CREATED, counter.bought(ada)))).status == 200
    assert counter.records(ada)[0]["status"] == "active"
    assert counter.provider.calls == []


async def _taken_only(counter: Counter, event: dict[str, Any]) -> None:
    import json  # noqa: PLC0415

    from tests.payment_provider import signed  # noqa: PLC0415

    body = json.dumps(event).encode()
    assert await counter.postern.services.billing.take(signed(body), body) is not None


async def _until(condition: Any) -> None:
    with trio.fail_after(PATIENCE):
        while not condition():
            await trio.sleep(0.01)


@pytest.mark.parametrize("sweep", [True, False])
async def test_a_payment_that_failed_in_the_second_of_the_description_is_asked_about(counter: Counter, *, sweep: bool) -> None:
    ada, now = counter.user(), int(time())
    bought = counter.bought(ada, created=now - 100)
    await counter.tell(UPDATED, bought, now - 100)
    await counter.tell("invoice.payment_failed", counter.provider.invoice(bought, now + MONTH), now - 100)
    assert (await counter.own(ada))["status"] == "active", "nobody knows better yet"
    bought["status"] = "past_due"
    services = counter.postern.services
    assert await (services.billing_reconciliation.sweep_page() if sweep else services.billing_reconciliation.check_one())
    assert [row["status"] for row in counter.records(ada)] == ["past_due"]
    # The answer is newer than both, so nothing is open.
    assert not await services.billing_reconciliation.check_one()


async def test_news_of_which_nobody_knows_whether_they_are_stored_wake_the_reconciler(
    counter: Counter, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The provider sends them again, and then they came before."""
    take, turns, now = PostgresBillingInbox.take, counter.postern.services.billing_turns, int(time())

    async def lost(*given: Any) -> bool:
        await take(*given)
        raise Unavailable(retry_after=1)

    event = counter.provider.event(UPDATED, counter.bought(counter.user(), created=now - 100), now - 100)
    with monkeypatch.context() as patched:
        patched.setattr(PostgresBillingInbox, "take", lost)
        assert (await counter.send(event)).status == 503
    assert turns._mailbox.is_full()
