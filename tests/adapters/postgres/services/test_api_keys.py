"""API keys in PostgreSQL: found by digest, and marked as used once a minute by any number of processes."""

from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Any, Final
from uuid import UUID

import trio

from adapters.postgres.columns import array
from adapters.postgres.services.api_keys import API_KEYS, FIND, LIST, PostgresApiKeys
from adapters.postgres.tenancy.management_keys import PostgresKeyUse
from core.domain.identifiers import ApiKeyId
from tests.adapters.postgres.conftest import Store
from tests.patience import PATIENCE

NOON: Final = datetime(2026, 11, 20, 12, tzinfo=UTC)
MINUTE: Final = timedelta(minutes=1)
_numbers = count(1)


async def service(store: Store) -> UUID:
    """A new one, in an organization of its own."""
    made: UUID = store.ids.new()
    await store.query(
        "with founded as (insert into all_organizations (id, slug, name, status, tier_id, created_at, updated_at)"
        "                 select %(id)s, %(slug)s, 'X', 'active', id, now(), now() from tiers where name = 'free')"
        " insert into all_services (id, org_id, slug, name, service_type, client_id, created_at, updated_at)"
        " values (%(id)s, %(id)s, 'shop', 'Shop', 'api', %(id)s, now(), now())",
        {"id": made, "slug": f"org-{next(_numbers)}"},
    )
    return made


async def key(store: Store, of: UUID, digest: bytes | None = None) -> ApiKeyId:
    made = ApiKeyId(store.ids.new())
    await store.query(
        "insert into api_keys (id, service_id, name, prefix, digest, permissions, created_by, created_at)"
        " values (%(id)s, %(service)s, 'key', %(prefix)s, %(digest)s, '{read:users}', %(id)s, now())",
        {"id": made, "service": of, "prefix": f"sk_{made}", "digest": digest or made.bytes},
    )
    return made


async def used(store: Store, *keys: ApiKeyId) -> list[datetime | None]:
    rows = await store.query("select id, last_used_at from api_keys")
    times = {row["id"]: row["last_used_at"] for row in rows}
    return [times[one] for one in keys]


async def test_the_first_use_is_written_and_the_next_one_a_minute_later(store: Store) -> None:
    use, one = PostgresKeyUse(store.pool, API_KEYS), await key(store, await service(store))
    for at, written in (
        (NOON, NOON),
        (NOON + timedelta(seconds=1), NOON),
        (NOON + timedelta(seconds=59.999), NOON),
        (NOON - timedelta(hours=1), NOON),
        (NOON + MINUTE, NOON + MINUTE),
        (NOON + 2 * MINUTE - timedelta(microseconds=1), NOON + MINUTE),
        (NOON + timedelta(days=1), NOON + timedelta(days=1)),
    ):
        await use.mark_seen({one: at})
        assert await used(store, one) == [written], at


async def test_many_are_written_in_one_statement_and_unknown_ones_passed_over(store: Store) -> None:
    of = await service(store)
    keys = [await key(store, of) for _ in range(5)]
    untouched = await key(store, of)
    times = {one: NOON + timedelta(seconds=number) for number, one in enumerate(keys)}
    await PostgresKeyUse(store.pool, API_KEYS).mark_seen({**times, ApiKeyId(store.ids.new()): NOON})
    assert await used(store, *keys, untouched) == [*times.values(), None]
    await PostgresKeyUse(store.pool, API_KEYS).mark_seen({})


async def test_processes_that_mark_the_same_keys_in_any_order_never_block_each_other_for_good(store: Store) -> None:
    of = await service(store)
    keys = [await key(store, of) for _ in range(50)]
    latest = NOON + 40 * MINUTE
    with trio.fail_after(PATIENCE):
        async with trio.open_nursery() as nursery:
            for step in range(41):
                order = keys if step % 2 else keys[::-1]
                nursery.start_soon(PostgresKeyUse(store.pool, API_KEYS).mark_seen, dict.fromkeys(order, NOON + step * MINUTE))
    assert await used(store, *keys) == [latest] * 50


async def test_of_many_processes_one_writes_within_the_minute(store: Store) -> None:
    """Any of them comes first: the others look again when they have waited for it."""
    one = await key(store, await service(store))
    times = [NOON + timedelta(seconds=second) for second in range(10)]
    async with trio.open_nursery() as nursery:
        for at in times:
            nursery.start_soon(PostgresKeyUse(store.pool, API_KEYS).mark_seen, {one: at})
    (written,) = await used(store, one)
    assert written in times
    await PostgresKeyUse(store.pool, API_KEYS).mark_seen({one: written + timedelta(seconds=59)})
    assert await used(store, one) == [written]


async def test_a_mark_stays_on_its_page(fresh_store: Store) -> None:
    """A heap-only update: no index learns of it, or the keys' indexes would grow with every request."""
    of = await service(fresh_store)
    keys = [await key(fresh_store, of) for _ in range(20)]
    for step in range(5):
        await PostgresKeyUse(fresh_store.pool, API_KEYS).mark_seen(dict.fromkeys(keys, NOON + step * MINUTE))
    # A connection tells what it did when it ends, or ten seconds later.
    await fresh_store.pool.aclose()
    statistics = "select n_tup_upd as changed, n_tup_hot_upd as hot from pg_stat_user_tables where relname = 'api_keys'"
    with trio.fail_after(PATIENCE):
        while (row := (await fresh_store.query(statistics))[0])["changed"] < 100:
            await trio.sleep(0.02)
    # All but those that found their page full. None, if an index had the mark.
    assert row["hot"] >= 50


async def test_a_key_is_found_by_its_digest_with_where_it_belongs(store: Store) -> None:
    lookup, of = PostgresApiKeys(store.pool), await service(store)
    one = await key(store, of, b"digest")
    known = await lookup.find(b"digest")
    assert known is not None
    assert (known.holder.key, known.holder.service, known.digest, known.expires_at) == (one, of, b"digest", None)
    assert (known.holder.service_slug, known.holder.organization, known.organization_is_active) == ("shop", of, True)
    assert await lookup.find(b"diges") is None
    assert await lookup.find(b"") is None


async def test_keys_that_are_asked_for_at_once_are_found_together_each_with_its_own_service(store: Store) -> None:
    lookup, services = PostgresApiKeys(store.pool), [await service(store) for _ in range(20)]
    keys = [await key(store, of) for of in services]
    found: dict[bytes, UUID | None] = {}

    async def find(digest: bytes) -> None:
        known = await lookup.find(digest)
        found[digest] = None if known is None else known.holder.service

    async with store.pool.connection() as connection:
        before = connection.round_trips
    async with trio.open_nursery() as nursery:
        for digest in (*(one.bytes for one in keys), b"unknown"):
            nursery.start_soon(find, digest)
    assert found == {**{one.bytes: of for one, of in zip(keys, services, strict=True)}, b"unknown": None}
    async with store.pool.connection() as connection:
        assert connection.round_trips - before == 2


async def plan(store: Store, statement: str, parameters: dict[str, Any]) -> str:
    await store.query("analyze")
    rows = await store.query(f"explain (costs off) {statement}", parameters)
    return "\n".join(row["QUERY PLAN"] for row in rows)


async def test_among_very_many_keys_the_indexes_find_the_one_and_the_page(fresh_store: Store) -> None:
    of = await service(fresh_store)
    await fresh_store.query(
        "insert into all_services (id, org_id, slug, name, service_type, client_id, created_at, updated_at)"
        " select gen_random_uuid(), %(org)s, 's' || number, 'S', 'api', gen_random_uuid(), now(), now()"
        "   from generate_series(1, 500) as number",
        {"org": of},
    )
    await fresh_store.query(
        "insert into api_keys (id, service_id, name, prefix, digest, permissions, created_by, created_at)"
        " select gen_random_uuid(), all_services.id, 'key', slug || '-' || number, sha256((slug || '-' || number)::bytea), '{}',"
        "        all_services.id, now()"
        "   from all_services, generate_series(1, 20) as number"
    )
    for digests in (["00"], [f"{number:064x}" for number in range(100)]):
        found = await plan(fresh_store, FIND, {"digests": array(digests)})
        assert "api_keys_digest_key" in found
        assert "Seq Scan on api_keys" not in found
    listed = await plan(fresh_store, LIST, {"organization": of, "slug": "shop", "limit": 50, "offset": 0})
    assert "api_keys_of_service" in listed
    assert "Seq Scan on api_keys" not in listed
