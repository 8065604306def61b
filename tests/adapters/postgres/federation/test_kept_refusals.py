"""Of a service's refused requests, the newest are kept, and never more, whoever adds and looks meanwhile."""

from datetime import UTC, datetime
from typing import Any
from uuid import UUID, uuid4

import psycopg
import pytest
import trio

from adapters.postgres.federation.authorizations import PostgresAuthorizationRefusals
from core.domain.federation.authorization_refusals import MOST_REFUSALS, AuthorizationRefusal, RefusingEndpoint
from core.domain.federation.oauth.refusals import RefusalReason
from core.domain.identifiers import AuthorizationRefusalId, ClientId
from tests.adapters.postgres.conftest import Store
from tests.adapters.postgres.tenants import StoredTenants
from tests.patience import PATIENCE


class RefusedShop:
    """A service whose requests are refused."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.client = ClientId(str(uuid4()))
        self.refusals = PostgresAuthorizationRefusals(store.pool)

    async def move_in(self) -> None:
        acme = await StoredTenants(self.store).add("acme")
        await self.store.query(
            "insert into all_services (id, org_id, slug, name, service_type, client_id, created_at, updated_at)"
            " values (gen_random_uuid(), %(org)s, 'shop', 'Shop', 'web', %(client)s, now(), now())",
            {"org": acme, "client": self.client},
        )

    def refused(self, number: int) -> list[AuthorizationRefusal]:
        return [
            AuthorizationRefusal(
                id=AuthorizationRefusalId(self.store.ids.new()),
                client=self.client,
                at=RefusingEndpoint.TOKEN,
                reason=RefusalReason.SECRET_WRONG,
                received="",
                occurred_at=datetime.now(UTC),
            )
            for _ in range(number)
        ]

    async def kept(self) -> set[UUID]:
        return {row["id"] for row in await self.store.query("select id from authorization_refusals")}


@pytest.fixture
async def shop(fresh_store: Store) -> RefusedShop:
    shop = RefusedShop(fresh_store)
    await shop.move_in()
    return shop


async def test_nobody_sees_more_while_the_oldest_go(shop: RefusedShop) -> None:
    """Here, whoever deletes a refusal waits for the test: between both statements, so to speak."""
    await shop.refusals.add(shop.refused(MOST_REFUSALS))
    before = await shop.kept()
    await shop.store.query(
        "create function wait() returns trigger language plpgsql as"
        " $$ begin perform pg_advisory_xact_lock(1); return old; end $$;"
        " create trigger waits before delete on authorization_refusals for each row execute function wait()"
    )
    newer = shop.refused(4)
    with trio.fail_after(PATIENCE):
        async with trio.open_nursery() as nursery:
            with psycopg.connect(shop.store.url) as other:
                other.execute("select pg_advisory_xact_lock(1)")
                nursery.start_soon(shop.refusals.add, newer)
                await shop.store.somebody_waits()
                assert await shop.kept() == before
    assert await shop.kept() == set(sorted(before)[4:]) | {one.id for one in newer}


async def test_a_row_that_somebody_holds_goes_all_the_same(shop: RefusedShop) -> None:
    await shop.refusals.add(shop.refused(MOST_REFUSALS))
    with trio.fail_after(PATIENCE):
        async with trio.open_nursery() as nursery:
            with psycopg.connect(shop.store.url) as other:
                other.execute("select from authorization_refusals order by id limit 1 for update")
                nursery.start_soon(shop.refusals.add, shop.refused(1))
                await _until_added_or_waiting(shop)
    assert len(await shop.kept()) == MOST_REFUSALS


async def test_many_that_add_at_once_keep_the_newest(shop: RefusedShop) -> None:
    batches = [shop.refused(7) for _ in range(20)]
    most: list[int] = []
    done = trio.Event()

    async def look() -> None:
        while not done.is_set():
            most.append(len(await shop.kept()))

    async def add(batch: list[AuthorizationRefusal], left: list[Any]) -> None:
        await shop.refusals.add(batch)
        left.pop()
        if not left:
            done.set()

    left = list(batches)
    with trio.fail_after(PATIENCE):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(look)
            for batch in batches:
                nursery.start_soon(add, batch, left)
    assert max(most) <= MOST_REFUSALS
    assert len(await shop.kept()) == MOST_REFUSALS


async def _until_added_or_waiting(shop: RefusedShop) -> None:
    while not await shop.store.waiting() and len(await shop.kept()) == MOST_REFUSALS:
        await trio.sleep(0.01)
