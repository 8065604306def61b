"""A claim whose answer got lost has leased rows. The next claim takes them, and nobody else may."""

from datetime import timedelta
from typing import Final

import pytest

from adapters.postgres.driver.pool import Pool
from adapters.postgres.jobs import LostClaims, PostgresJobQueue
from adapters.postgres.record.deliveries import PostgresDeliveryQueue
from adapters.postgres.tenancy.webhooks import WEBHOOKS
from core.domain.errors import Unavailable
from core.domain.jobs import NewJob
from tests.adapters.postgres.conftest import Store
from tests.adapters.postgres.wire import Wire

LEASE = timedelta(minutes=1)


def lose_the_next_answer(wire: Wire) -> None:
    """The server gets the statement, which is prepared already, and carries it out."""
    wire.after(2, wire.cut)


async def test_jobs(store: Store) -> None:
    async with store.unit_of_work() as uow:
        await uow.jobs.add(NewJob("mail", {}))
        await uow.commit()
    async with Wire(store.url) as wire:
        pool = Pool(wire.url)
        queue = PostgresJobQueue(pool, store.keyring)
        for _ in range(6):
            assert await queue.claim(["another"], 1, LEASE) == []
        lose_the_next_answer(wire)
        with pytest.raises(Unavailable):
            await queue.claim(["mail"], 1, LEASE)
        assert await PostgresJobQueue(store.pool, store.keyring).claim(["mail"], 1, LEASE) == []
        (job,) = await queue.claim(["mail"], 1, LEASE)
        assert await queue.complete(job)
        await pool.aclose()


async def test_receivers_of_webhooks(store: Store) -> None:
    await store.query(_DUE)
    async with Wire(store.url) as wire:
        pool = Pool(wire.url)
        queue = PostgresDeliveryQueue(pool, WEBHOOKS)
        for _ in range(6):
            assert await queue.claim(10, LEASE, failing=True) == []
        lose_the_next_answer(wire)
        with pytest.raises(Unavailable):
            await queue.claim(10, LEASE, failing=False)
        assert await PostgresDeliveryQueue(store.pool, WEBHOOKS).claim(10, LEASE, failing=False) == []
        (claimed,) = await queue.claim(10, LEASE, failing=False)
        assert len(await queue.due(claimed, 10)) == 1
        await pool.aclose()


_DUE: Final = """
    with organization as (
             insert into all_organizations (id, slug, name, status, created_at, updated_at)
             values (gen_random_uuid(), 'acme', 'Acme', 'active', now(), now())
          returning id
         ),
         webhook as (
             insert into webhooks (id, org_id, name, url, events, sealed_secret, created_at, updated_at)
             select gen_random_uuid(), id, 'Hook', 'https://hook.example', '{user.login.success}', 'x', now(), now() from organization
          returning id
         ),
         event as (
             insert into events (id, name, organization_id, target_type, target_id, details, occurred_at)
             select gen_random_uuid(), 'user.login.success', id, 'user', 'u', '{}', now() from organization
          returning id
         )
    insert into webhook_deliveries (id, webhook_id, event_id, event_name, next_at, created_at, updated_at)
    select gen_random_uuid(), webhook.id, event.id, 'user.login.success', now(), now(), now() from webhook, event
"""


def test_the_id_of_a_lease_is_used_again_only_after_a_failure() -> None:
    claims = LostClaims()
    with claims.lease("mail") as first, claims.lease("mail") as beside:
        assert first != beside
    with claims.lease("mail") as second:
        assert second not in {first, beside}
    with pytest.raises(Unavailable), claims.lease("mail") as lost:
        raise Unavailable(retry_after=1)
    with claims.lease("another") as another:
        assert another != lost
    with claims.lease("mail") as again:
        assert again == lost
    with claims.lease("mail") as last:
        assert last != lost
