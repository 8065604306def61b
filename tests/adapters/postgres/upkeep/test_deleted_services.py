"""All rows of a deleted service are removed, and no row of any other service."""

from datetime import UTC, datetime, timedelta
from typing import Any, Final
from uuid import UUID, uuid4

import pytest
import trio

from adapters.postgres.upkeep.purging import SERVICE_PARTS, PostgresDeletedServices
from core.domain.identifiers import OrganizationId, PrivacyRequestId, ServiceId, UserId
from core.domain.services.services import PURGE_JOB, purge_job
from tests.adapters.postgres.conftest import Store
from tests.adapters.postgres.served import ACME, APP, PLANS, SHOP, USERS, counted, delete, everything_of, fill, left_of
from tests.adapters.postgres.upkeep.purging import BATCH, purge, purge_beside_a_holder, purge_by_five, purge_twice
from tests.patience import PATIENCE

_WRITE_LATE: Final = """
    insert into plans (id, service_id, name, price_cents, currency, created_at, updated_at)
    values (%(plan)s, %(shop)s, 'Late', 0, 'usd', now(), now());
    insert into subscriptions (id, service_id, user_id, plan_id, status, current_period_end, created_at, updated_at)
    values (gen_random_uuid(), %(shop)s, %(user)s, %(plan)s, 'active', now(), now(), now());
    insert into service_users (service_id, user_id, org_id, created_at) values (%(shop)s, %(user)s, %(acme)s, now());
    insert into sessions (id, user_id, organization_id, service_id, created_at, last_seen_at, expires_at)
    values (gen_random_uuid(), %(user)s, %(acme)s, %(shop)s, now(), now(), now());
    update users set origin_service_id = %(shop)s where id = %(user)s
"""

_GROW: Final = """
    insert into users (id, email, email_key, origin_service_id)
    select gen_random_uuid(), 'g' || n, 'g' || n, %(shop)s from generate_series(1, 2000) as n;
    insert into service_users (service_id, user_id, org_id, created_at)
    select %(shop)s, id, %(acme)s, now() from users where email like 'g%%';
    insert into sessions (id, user_id, organization_id, service_id, created_at, last_seen_at, expires_at)
    select gen_random_uuid(), id, %(acme)s, %(shop)s, now(), now(), now() from users where email like 'g%%';
    insert into preauthentications (id, user_id, organization_id, service_id, created_at, expires_at)
    select gen_random_uuid(), id, %(acme)s, %(shop)s, now(), now() from users where email like 'g%%';
    insert into subscriptions (id, service_id, user_id, plan_id, status, current_period_end, created_at, updated_at)
    select gen_random_uuid(), %(shop)s, users.id, plans.id, 'expired', now(), now(), now()
      from users, plans where plans.service_id = %(shop)s and email like 'g%%';
    insert into billing_checkouts (id, service_id, user_id, digest, asked_at)
    select gen_random_uuid(), %(shop)s, id, '', now() from users where email like 'g%%';
    insert into identities (id, user_id, provider, issuer, subject, email, linked_at)
    select gen_random_uuid(), id, 'codehost', 'https://code.example', id::text, '', now() from users where email like 'g%%';
    insert into identity_grants (id, identity_id, service_id, client_id, scopes, updated_at)
    select gen_random_uuid(), identities.id, %(shop)s, 'client', '{}', now()
      from identities join users on users.id = identities.user_id where users.email like 'g%%';
    insert into consents (id, user_id, service_id, scopes, granted_at)
    select gen_random_uuid(), id, %(shop)s, '{openid}', now() from users where email like 'g%%';
    insert into logout_notices (id, service_id, session_id, user_id, created_at, updated_at)
    select gen_random_uuid(), %(shop)s, gen_random_uuid(), id, now(), now() from users where email like 'g%%';
    insert into login_events (id, user_id, organization_id, service_id, provider, success, created_at)
    select gen_random_uuid(), id, %(acme)s, %(shop)s, 'password', true, now() from users where email like 'g%%'
"""

_SUBSCRIBE: Final = """
    insert into subscriptions (id, service_id, user_id, plan_id, status, current_period_end, created_at, updated_at)
    values (%(id)s, %(shop)s, %(user)s, %(plan)s, 'expired', now(), now(), now())
"""


@pytest.fixture
async def remains(store: Store) -> PostgresDeletedServices:
    await fill(store)
    return PostgresDeletedServices(store.pool)


async def test_all_of_it_goes_and_nothing_of_another(store: Store, remains: PostgresDeletedServices) -> None:
    before, other = await counted(store, SHOP), await everything_of(store, APP)
    assert all(before.values()), "the test fills every table, also those that came later"
    await delete(store, SHOP)
    batches = await purge(remains, SHOP)
    # Nothing is left to the last step, which would do it all in one transaction.
    assert await left_of(store, SHOP) == 0
    assert await remains.finish(SHOP)
    assert await store.query("select slug from all_services") == [{"slug": "app"}]
    assert await everything_of(store, APP) == other
    # Its people are still there, with what is theirs; and the organization knows when they came.
    assert await store.count("users") == USERS
    (events,) = await store.query("select count(*) as n from login_events where organization_id = %(acme)s", {"acme": ACME})
    assert events["n"] == 4 * USERS
    assert await store.count("refresh_tokens") == USERS
    # In batches, each of them small.
    assert {part: sum(rows) for part, rows in batches.items()} == {
        "apis": 20,
        "trusted_issuers": 10,
        "resource_admissions": 20,
        "resource_exchanges": 20,
        "sessions": USERS,
        "preauthentications": 20,
        "subscriptions": PLANS * USERS,
        "billing_checkouts": USERS,
        "plans": PLANS,
        "api_keys": 20,
        "user_keys": USERS,
        "user_key_settings": 1,
        "service_logos": 1,
        "proxies": 1,
        "proxy_hosts": 1,
        "provisioning_connections": 1,
        "signal_settings": 1,
        "signal_streams": 5,
        "client_secrets": 2,
        "authorization_codes": 20,
        "client_assertions": 20,
        "device_codes": 20,
        "pushed_requests": 20,
        "afar_requests": 20,
        "afar_blocks": USERS,
        "consents": USERS,
        "saml_configurations": 1,
        "service_claims": 20,
        "saml_certificates": 1,
        "saml_requests": 20,
        "saml_sessions": 20,
        "authorization_refusals": 20,
        "awaited_sign_ins": 20,
        "saml_exchanges": 20,
        "flows": 8,
        "identity_grants": USERS,
        "relations": USERS,
        "service_roles": 20,
        "permissions": 20,
        "former_slugs_of_services": 5,
        "logout_notices": USERS,
        "logout_receivers": 1,
        "origins": 25,
        "service_users": USERS,
        "login_events": 2 * USERS,
    }
    assert max(rows for part in batches for rows in batches[part]) <= BATCH


async def test_a_living_service_loses_nothing(store: Store, remains: PostgresDeletedServices) -> None:
    before = await everything_of(store, SHOP)
    # The service before it in the same organization goes.
    await delete(store, APP)
    batches = await purge(remains, SHOP)
    assert set(map(tuple, batches.values())) == {()}
    assert not await remains.finish(SHOP)
    assert await everything_of(store, SHOP) == before


async def test_it_may_be_repeated_and_taken_up_in_the_middle(store: Store, remains: PostgresDeletedServices) -> None:
    await delete(store, SHOP)
    await purge_twice(remains, SHOP)


async def test_several_at_once_are_in_nobodys_way(store: Store, remains: PostgresDeletedServices) -> None:
    await delete(store, SHOP)
    await purge_by_five(remains, SHOP)
    assert await left_of(store, SHOP) == 0


async def test_what_is_written_into_it_late_goes_with_it(store: Store, remains: PostgresDeletedServices) -> None:
    """A request that found it alive may still be at work when its part has been swept: a new plan, and somebody who is subscribed to it."""
    await delete(store, SHOP)
    await purge(remains, SHOP)
    (user,) = await store.query("select id from users limit 1")
    late = {"shop": SHOP, "acme": ACME, "user": user["id"], "plan": UUID(int=7)}
    for statement in _WRITE_LATE.split(";"):
        await store.query(statement, late)
    assert await remains.finish(SHOP)
    assert await left_of(store, SHOP) == 0
    assert await store.count("users") == USERS


async def test_rows_that_somebody_holds_are_waited_for_and_not_passed_over(store: Store, remains: PostgresDeletedServices) -> None:
    await delete(store, SHOP)
    (first,) = await store.query("select id from sessions where service_id = %(shop)s order by id limit 1", {"shop": SHOP})
    await purge_beside_a_holder(store, remains, SHOP, first["id"])
    assert (await counted(store, SHOP))["sessions"] == 0


async def test_a_purge_and_a_request_about_the_same_user_lock_subscriptions_in_one_order(
    store: Store, remains: PostgresDeletedServices
) -> None:
    """The user has had two, on two plans. Somebody holds the first row of the one plan, where the purge waits: it must not have the user's
    later row by then, of the other plan, for the request has the earlier one already. Which plan a purge comes to first is the planner's
    choice, so both ways are tried.
    """
    plans = await store.query("select id from plans where service_id = %(shop)s order by id limit 2", {"shop": SHOP})
    other, user = await store.query("select user_id from service_users where service_id = %(shop)s order by 1 limit 2", {"shop": SHOP})
    await delete(store, SHOP)
    for plan, other_plan in (plans, reversed(plans)):
        await store.query("delete from subscriptions")
        for number, whose, on in ((1, other, plan), (2, user, plan), (3, user, other_plan)):
            row = {"id": UUID(int=number), "shop": SHOP, "user": whose["user_id"], "plan": on["id"]}
            await store.query(_SUBSCRIBE, row)
        with trio.fail_after(PATIENCE):
            await purge_beside_a_request(store, remains, UserId(user["user_id"]))


async def purge_beside_a_request(store: Store, remains: PostgresDeletedServices, user: UserId) -> None:
    requested = trio.Event()

    async def request() -> None:
        async with store.unit_of_work() as uow:
            await uow.subscriptions.find_for_update(ServiceId(SHOP), user)
            await uow.commit()
        requested.set()

    async def sweep() -> None:
        assert (await remains.sweep("subscriptions", SHOP, None, 100)).rows == 3

    async with trio.open_nursery() as nursery, store.pool.connection() as connection, connection.transaction():
        await connection.execute("select from subscriptions where id = %s for update", (UUID(int=1),))
        nursery.start_soon(sweep)
        while await store.waiting() < 1:
            await trio.sleep(0.01)
        nursery.start_soon(request)
        while not requested.is_set() and await store.waiting() < 2:
            await trio.sleep(0.01)


@pytest.mark.parametrize("goes", ["leaves", "is deleted"])
async def test_a_purge_and_somebody_who_goes_lock_subscriptions_in_one_order(
    store: Store, remains: PostgresDeletedServices, goes: str
) -> None:
    """The purge has the user's earlier one and waits for somebody else's. Who goes must not have the later one by then."""
    (plan, *_) = await store.query("select id from plans where service_id = %(shop)s", {"shop": SHOP})
    other, user = await store.query("select user_id from service_users where service_id = %(shop)s order by 1 limit 2", {"shop": SHOP})
    await delete(store, SHOP)
    await store.query("delete from subscriptions")
    for number, whose in ((3, user), (2, other), (1, user)):
        await store.query(_SUBSCRIBE, {"id": UUID(int=number), "shop": SHOP, "user": whose["user_id"], "plan": plan["id"]})
    # So that any index finds the user's later one first.
    await store.query("update subscriptions set created_at = %(at)s", {"at": datetime(2026, 1, 31, tzinfo=UTC)})
    gone = trio.Event()

    async def go() -> None:
        async with store.unit_of_work() as uow:
            person = UserId(user["user_id"])
            assert await uow.service_users.find_for_update(ServiceId(SHOP), person)
            if goes == "leaves":
                await uow.service_users.leave(ServiceId(SHOP), OrganizationId(ACME), person)
            else:
                await uow.service_users.delete_account(person, PrivacyRequestId(uuid4()), datetime.now(UTC))
            await uow.commit()
        gone.set()

    with trio.fail_after(PATIENCE):
        async with trio.open_nursery() as nursery, store.pool.connection() as connection, connection.transaction():
            await connection.execute("select from subscriptions where id = %s for update", (UUID(int=2),))
            nursery.start_soon(remains.sweep, "subscriptions", SHOP, None, 100)
            while await store.waiting() < 1:
                await trio.sleep(0.01)
            nursery.start_soon(go)
            while await store.waiting() < 2:
                await trio.sleep(0.01)
    assert gone.is_set()
    assert await store.count("subscriptions") == 0


async def test_stranded_is_what_was_deleted_and_has_no_job_left(store: Store, remains: PostgresDeletedServices) -> None:
    patience = timedelta(minutes=15)
    assert await remains.stranded(timedelta(0), 10) == []
    for service in (SHOP, APP):
        await delete(store, service)
    async with store.unit_of_work() as uow:
        await uow.jobs.add(purge_job(SHOP))
        await uow.commit()
    assert await remains.stranded(patience, 10) == []  # not yet
    await store.query("update all_services set deleted_at = deleted_at - interval '16 minutes'")
    assert await remains.stranded(patience, 10) == [APP]
    # Its job died, or an operator took it away: then it is stranded too.
    await store.query("update jobs set state = 'dead', died_at = now() where kind = %(kind)s", {"kind": PURGE_JOB})
    assert sorted(await remains.stranded(patience, 10)) == [SHOP, APP]
    assert len(await remains.stranded(patience, 1)) == 1


async def test_a_later_batch_reads_no_more_than_an_earlier_one(fresh_store: Store) -> None:
    """Thousands of rows before it, deleted or not, are not stepped over: each part is found by an index that ends with the id."""
    await fill(fresh_store)
    await grow(fresh_store)
    (middle,) = await fresh_store.query(
        "select id from users where origin_service_id = %(shop)s order by id offset 1000 limit 1", {"shop": SHOP}
    )
    await delete(fresh_store, SHOP)
    for part in set(PostgresDeletedServices(fresh_store.pool).parts) - {
        "plans"
    }:  # of which there are few, and not before their subscriptions
        for after in (UUID(int=0), middle["id"]):
            read = await rows_read(fresh_store, SERVICE_PARTS[part], {"owner": SHOP, "after": after, "limit": 100})
            assert read <= 400, (part, after)


async def grow(store: Store) -> None:
    for statement in _GROW.split(";"):
        await store.query(statement, {"acme": ACME, "shop": SHOP})
    await store.query("vacuum analyze")


async def rows_read(store: Store, statement: str, parameters: dict[str, Any]) -> int:
    """The most that any step of the plan took in hand, the deletions undone afterwards."""

    def steps(plan: dict[str, Any]) -> list[dict[str, Any]]:
        return [plan, *(step for inner in plan.get("Plans", ()) for step in steps(inner))]

    async with store.pool.connection() as connection, connection.transaction(force_rollback=True):
        # Some thousand rows are still read sooner than looked up one by one: here the table stands for one of millions.
        await connection.execute("set local enable_hashjoin = off; set local enable_mergejoin = off; set local enable_seqscan = off")
        cursor = await connection.execute(f"explain (analyze, format json) {statement}".encode(), parameters)
        row = await cursor.fetchone()
    assert row is not None
    return int(max(step["Actual Rows"] * step["Actual Loops"] + step.get("Rows Removed by Filter", 0) for step in steps(row[0][0]["Plan"])))
