"""The subscription expirer on the real store: its audit entries, its events, and the rows that it leaves alone."""

from datetime import datetime
from typing import Any
from uuid import UUID

import pytest
import trio

from actors.foundation import Mailbox
from actors.sweepers import DueSweeper, subscription_expirer
from adapters.postgres.driver.connection import Connection
from adapters.postgres.services.plans import SubscriptionRows
from adapters.postgres.statements import Statements
from core.usecases.services.plans import Subscriptions
from tests.actors.observed import no_doubt, no_spread
from tests.adapters.postgres.conftest import Rows, Store
from tests.conftest import CapturedLog
from tests.patience import PATIENCE


class Shop:
    """A service with its users and their subscriptions."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.subscriptions = Subscriptions(store.unit_of_work, SubscriptionRows(Statements(store.pool)), store.system)
        self.organization, self.service = store.ids.new(), store.ids.new()
        self.plans: list[UUID] = []

    async def open(self) -> None:
        await self.store.query(
            "insert into organizations (id, slug, name, status, created_at, updated_at)"
            " values (%(id)s, 'acme', 'A', 'active', now(), now())",
            {"id": self.organization},
        )
        await self.store.query(
            "insert into services (id, org_id, slug, name, service_type, client_id, created_at, updated_at)"
            " values (%(id)s, %(organization)s, 'shop', 'Shop', 'web', %(id)s, now(), now())",
            {"id": self.service, "organization": self.organization},
        )
        for _ in range(3):
            self.plans.append(self.store.ids.new())
            await self.store.query(
                "insert into plans (id, service_id, name, price_cents, currency, created_at, updated_at)"
                " values (%(id)s, %(service)s, 'Pro', 1, 'eur', now(), now())",
                {"id": self.plans[-1], "service": self.service},
            )

    async def subscribe(self, ends_in: str, *, status: str = "active", people: int = 1) -> None:
        await self.store.query(
            """
            with people as (
                     insert into users (id, email, email_key)
                     select id, id || '@example.org', id || '@example.org'
                       from (select gen_random_uuid() as id from generate_series(1, %(people)s)) as new
                  returning id
                 )
            insert into subscriptions (id, service_id, user_id, plan_id, status, current_period_end, created_at, updated_at)
            select gen_random_uuid(), %(service)s, id, (%(plans)s::uuid[])[1 + row_number() over (order by id) %% 3], %(status)s,
                   now() + %(ends_in)s::interval + row_number() over (order by id) * interval '1 microsecond', now() - interval '1 day',
                   now() - interval '1 day'
              from people
            """,
            {"people": people, "service": self.service, "plans": self.plans, "status": status, "ends_in": ends_in},
        )

    async def statuses(self) -> dict[str, int]:
        rows = await self.store.query("select status, count(*) as n from subscriptions group by status")
        return {row["status"]: row["n"] for row in rows}

    async def counts(self) -> list[tuple[int, ...]]:
        rows = await self.store.query(
            "select active_count, past_due_count, cancelled_count, expired_count, subscription_count from plans order by id"
        )
        return [tuple(row.values()) for row in rows]

    async def events(self) -> Rows:
        return await self.store.query("select name, organization_id, actor_id, target_id, details from events order by id")

    def expirer(self, batch: int = 100, interval: float = 3600.0) -> DueSweeper:
        return subscription_expirer(self.subscriptions, Mailbox(), doubt=no_doubt, spread=no_spread, batch=batch, interval=interval)

    async def until_nothing_is_due(self, *expirers: DueSweeper) -> None:
        """Work until a whole round is done, or fail."""
        due = "select id from subscriptions where status = 'active' and current_period_end <= now()"
        with trio.fail_after(PATIENCE):
            async with trio.open_nursery() as nursery:
                for expirer in expirers:
                    await nursery.start(expirer.run)
                while await self.store.query(due):
                    await trio.sleep(0.01)
                nursery.cancel_scope.cancel()


@pytest.fixture
async def shop(store: Store) -> Shop:
    shop = Shop(store)
    await shop.open()
    return shop


async def test_active_ones_whose_period_has_ended_expire_and_it_is_told(shop: Shop, log: CapturedLog) -> None:
    await shop.subscribe("-1 second", people=3)
    await shop.subscribe("1 hour")
    for status in ("past_due", "cancelled", "expired"):
        await shop.subscribe("-1 second", status=status)
    await shop.until_nothing_is_due(shop.expirer())
    assert await shop.statuses() == {"active": 1, "past_due": 1, "cancelled": 1, "expired": 4}
    assert [sum(column) for column in zip(*await shop.counts(), strict=True)] == [1, 1, 1, 4, 2]
    rows = await shop.store.query("select id::text, updated_at > created_at as touched from subscriptions where updated_at > created_at")
    told = await shop.events()
    assert [event["name"] for event in told] == ["subscription.updated"] * 3
    assert {event["target_id"] for event in told} == {row["id"] for row in rows}
    first: dict[str, Any] = told[0]
    assert (first["organization_id"], first["actor_id"]) == (shop.organization, None)
    assert (first["details"]["old_status"], first["details"]["status"], first["details"]["service_slug"]) == ("active", "expired", "shop")
    assert first["details"]["old_current_period_end"] == first["details"]["current_period_end"]
    audited = await shop.store.query("select action, actor_id, host(address) as address from audit_log")
    assert audited == [{"action": "subscription.updated", "actor_id": None, "address": None}] * 3
    assert [entry["subscriptions"] for entry in log.events("subscriptions_expired")] == [3]


async def test_many_go_in_batches_and_each_once_with_several_processes(shop: Shop, log: CapturedLog) -> None:
    await shop.subscribe("-1 hour", people=430)
    await shop.until_nothing_is_due(*(shop.expirer(batch=20) for _ in range(4)))
    assert await shop.statuses() == {"expired": 430}
    told = await shop.events()
    assert len(told) == len({event["target_id"] for event in told}) == 430
    assert sum(counted[3] for counted in await shop.counts()) == 430
    # Two expirers that lock the same plans in different orders would deadlock, which the actor takes for an outage.
    assert log.events("actor_waits") == []


async def test_each_batch_begins_where_the_last_one_ended(shop: Shop) -> None:
    await shop.subscribe("-1 hour", people=5)
    seen: list[tuple[int, datetime | None]] = []
    since: datetime | None = None
    for _ in range(4):
        expired, since = await shop.subscriptions.expire_due(since, 2)
        seen.append((expired, since))
    assert [expired for expired, _ in seen] == [2, 2, 1, 0]
    ends = [row["current_period_end"] for row in await shop.store.query("select current_period_end from subscriptions order by 1")]
    assert [end for _, end in seen] == [ends[1], ends[3], ends[4], ends[4]]


async def test_what_somebody_is_about_to_change_is_left_to_them_and_looked_at_again(shop: Shop) -> None:
    await shop.subscribe("-1 hour", people=2)
    (held, _) = await shop.store.query("select id from subscriptions")
    async with await Connection.connect(shop.store.url) as connection, connection.transaction():
        await connection.execute("select from subscriptions where id = %s for update", [held["id"]])
        with trio.fail_after(PATIENCE):
            assert (await shop.subscriptions.expire_due(None, 10))[0] == 1
    assert (await shop.subscriptions.expire_due(None, 10))[0] == 1


async def test_of_a_service_or_organization_that_is_being_deleted_nothing_is_told(shop: Shop) -> None:
    await shop.subscribe("-1 hour")
    await shop.store.query("update all_services set deleted_at = now()")
    assert (await shop.subscriptions.expire_due(None, 10))[0] == 1
    await shop.store.query("update all_services set deleted_at = null")
    await shop.store.query("update all_organizations set deleted_at = now()")
    await shop.subscribe("-1 hour")
    assert (await shop.subscriptions.expire_due(None, 10))[0] == 1
    assert await shop.events() == []
    assert await shop.statuses() == {"expired": 2}


async def test_cut_off_between_writing_and_telling_it_has_not_happened(shop: Shop) -> None:
    await shop.subscribe("-1 hour", people=2)
    async with shop.store.unit_of_work() as uow:
        assert len(await uow.subscriptions.expire_due(None, 10)) == 2
    assert (await shop.statuses(), await shop.events()) == ({"active": 2}, [])
