"""The janitor deletes old events that no month bounds, and none that a delivery still tells."""

from datetime import UTC, datetime, timedelta
from uuid import UUID, uuid4

import pytest
import trio

from adapters.postgres.driver.connection import Connection
from adapters.postgres.upkeep import housekeeping
from core.domain.identifiers import OrganizationId, WebhookId, first_id
from tests.adapters.postgres.conftest import Store
from tests.patience import PATIENCE

KEPT = timedelta(days=90)
ORGANIZATION = """
    insert into all_organizations (id, slug, name, status, created_at, updated_at)
    values (gen_random_uuid(), 'acme', 'Acme', 'active', now(), now())
    returning id
"""
WEBHOOK = """
    insert into webhooks (id, org_id, name, url, events, sealed_secret, created_at, updated_at)
    values (gen_random_uuid(), %(organization)s, 'Hook', 'https://hook.example', '{user.joined}', 'x', now(), now())
    returning id
"""
EVENT = """
    insert into events (id, name, organization_id, target_type, target_id, details, occurred_at)
    values (%(id)s, 'user.joined', %(organization)s, 'user', 'u', '{}', %(at)s)
"""
DELIVERY = """
    insert into webhook_deliveries (id, webhook_id, event_id, event_name, next_at, created_at, updated_at)
    values (gen_random_uuid(), %(webhook)s, %(event)s, 'user.joined', %(next)s, now(), now())
"""


def of(at: datetime) -> UUID:
    """An id that was made at this time."""
    return UUID(int=first_id(at).int | uuid4().int >> 48)


class Past:
    def __init__(self, store: Store, organization: OrganizationId, webhook: WebhookId) -> None:
        self.store = store
        self.organization = organization
        self.webhook = webhook
        self.sweep = housekeeping.sweep(store.pool, "PastEvents", KEPT)

    async def event(self, days: int, *, at: datetime | None = None, organization: OrganizationId | None = None) -> UUID:
        """`at`: when it happened, unless that was when its id was made."""
        made = datetime.now(UTC) - timedelta(days=days)
        event = of(made)
        await self.store.query(EVENT, {"id": event, "organization": organization or self.organization, "at": at or made})
        return event

    async def deliver(self, event: UUID, *, waits: bool) -> None:
        await self.store.query(DELIVERY, {"webhook": self.webhook, "event": event, "next": datetime.now(UTC) if waits else None})

    async def left(self) -> set[UUID]:
        return {row["id"] for row in await self.store.query("select id from events")}


@pytest.fixture
async def past(store: Store) -> Past:
    await store.witness()
    (organization,) = await store.query(ORGANIZATION)
    (webhook,) = await store.query(WEBHOOK, {"organization": organization["id"]})
    return Past(store, OrganizationId(organization["id"]), WebhookId(webhook["id"]))


async def test_events_go_in_batches_when_their_time_is_over(past: Past) -> None:
    kept = await past.event(89)
    for days in (91, 400, 3000):
        await past.event(days)
    assert await past.sweep.delete_expired(2) == 2
    assert await past.sweep.delete_expired(2) == 1
    assert await past.sweep.delete_expired(2) == 0
    assert await past.left() == {kept}


async def test_an_event_stays_as_long_as_one_of_its_deliveries(past: Past) -> None:
    waiting, delivered = await past.event(200), await past.event(300)
    await past.event(100)
    await past.deliver(waiting, waits=True)
    await past.deliver(delivered, waits=False)
    # Older ones that stay are in nobody's way.
    assert await past.sweep.delete_expired(1) == 1
    assert await past.left() == {waiting, delivered}
    await past.store.query("delete from webhook_deliveries where event_id = %(event)s", {"event": delivered})
    assert await past.sweep.delete_expired(10) == 1
    assert await past.left() == {waiting}


async def test_neither_an_odd_id_nor_an_odd_time_ends_an_event_early(past: Past) -> None:
    now = datetime.now(UTC)
    young = await past.event(200, at=now)
    ahead = await past.event(-400, at=now - timedelta(days=200))
    first = UUID(int=0)
    await past.store.query(EVENT, {"id": first, "organization": past.organization, "at": now - timedelta(days=200)})
    assert await past.sweep.delete_expired(10) == 1
    assert await past.left() == {young, ahead}


async def test_a_replay_keeps_its_events_from_the_janitor(past: Past) -> None:
    replayed = await past.event(200)
    await past.event(300)
    since = datetime.now(UTC) - timedelta(days=201)
    async with past.store.unit_of_work() as uow:
        assert (await uow.webhook_deliveries.replay(past.webhook, since, datetime.now(UTC), None, 10)).queued == 1
        assert await past.sweep.delete_expired(10) == 1
        assert await past.left() == {replayed}
        await uow.commit()
    assert await past.sweep.delete_expired(10) == 0
    assert await past.left() == {replayed}


async def test_a_replay_queues_nothing_that_the_janitor_has_just_deleted(past: Past) -> None:
    event = await past.event(200)
    since = datetime.now(UTC) - timedelta(days=201)
    queued: list[int] = []

    async def replay() -> None:
        async with past.store.unit_of_work() as uow:
            queued.append((await uow.webhook_deliveries.replay(past.webhook, since, datetime.now(UTC), None, 10)).queued)
            await uow.commit()

    with trio.fail_after(PATIENCE):
        async with await Connection.connect(past.store.url) as janitor, trio.open_nursery() as nursery, janitor.transaction():
            await janitor.execute("delete from events where id = %(event)s", {"event": event})
            nursery.start_soon(replay)
            await past.store.somebody_waits()
    assert queued == [0]
    assert await past.store.count("webhook_deliveries") == 0


async def test_two_janitors_at_once_delete_each_event_once(past: Past) -> None:
    for days in range(100, 120):
        await past.event(days)
    deleted: list[int] = []

    async def sweep() -> None:
        deleted.append(await past.sweep.delete_expired(15))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(sweep)
        nursery.start_soon(sweep)
    deleted.append(await past.sweep.delete_expired(100))
    assert sum(deleted) == 20
    assert await past.left() == set()
