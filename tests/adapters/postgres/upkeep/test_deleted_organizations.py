"""All rows of a deleted organization are removed, and no row of any other organization."""

from collections.abc import Iterator
from datetime import timedelta
from typing import Any, Final
from uuid import UUID

import psycopg
import pytest

from adapters.postgres.upkeep.purging import ORGANIZATION_PARTS, PostgresDeletedOrganizations
from core.domain.identifiers import OrganizationId
from core.domain.tenancy.organizations import PURGE_JOB, purge_job
from tests.adapters.postgres.conftest import Store
from tests.adapters.postgres.populous import ACME, KEPT, MEMBERS, OTHER, counted, everything_of, fill, left_of
from tests.adapters.postgres.upkeep.purging import BATCH, purge, purge_beside_a_holder, purge_by_five, purge_twice

KEPT_BY_HOOK: Final = UUID(int=7)


@pytest.fixture
async def remains(store: Store) -> PostgresDeletedOrganizations:
    await fill(store)
    return PostgresDeletedOrganizations(store.pool)


async def delete(store: Store, organization: OrganizationId = ACME, *, job: bool = False) -> None:
    async with store.unit_of_work() as uow:
        now = store.clock.now()
        assert await uow.organizations.delete(organization, now)
        if job:
            await uow.jobs.add(purge_job(organization))
        await uow.commit()


async def test_all_of_it_goes_and_nothing_of_another(store: Store, remains: PostgresDeletedOrganizations) -> None:
    before, other = await counted(store, ACME), await everything_of(store, OTHER)
    assert [table for table in before if not before[table]] in ([], ["audit_links"]), (
        "the test fills every table, also those that came later"
    )
    await delete(store)
    batches = await purge(remains, ACME)
    # Nothing is left to the last step, which would do it all in one transaction.
    assert await left_of(store, ACME) == 0
    assert await remains.finish(ACME)
    left = await counted(store, ACME)
    assert {table: rows for table, rows in left.items() if rows} == {table: before[table] for table in KEPT if before[table]}
    assert await store.query("select id from all_organizations where id = %(acme)s", {"acme": ACME}) == []
    assert await everything_of(store, OTHER) == other
    # Its people are still there, with what is theirs.
    assert await store.count("users") == MEMBERS
    assert await store.count("login_events") == 2 * MEMBERS
    assert await store.query("select id from login_events where organization_id is null and service_id is not null") == []
    (personal,) = await store.query(
        "select count(*) as n, count(*) filter (where e.organization_id = %(acme)s) as acme"
        " from audit_personal join audit_entries as e on e.id = entry_id",
        {"acme": ACME},
    )
    assert personal == {"n": MEMBERS, "acme": 0}
    (refresh,) = await store.query("select count(*) as n from refresh_tokens")
    assert refresh["n"] == 2 * MEMBERS
    # In batches, each of them small.
    assert sum(batches["memberships"]) == MEMBERS
    of_services = ("subscriptions", "plans", "api_keys", "client_secrets", "flows", "pushed_requests", "consents", "origins", "services")
    assert [sum(batches[part]) for part in of_services] == [3 * MEMBERS, 3, 3, 3, 3, 3, 3 * MEMBERS, 25, 3]
    assert max(rows for part in set(batches) - {"service_users"} for rows in batches[part]) <= BATCH
    assert max(batches["service_users"]) <= BATCH * 3


async def test_sign_ins_that_stay_do_not_say_what_its_hooks_refused(store: Store, remains: PostgresDeletedOrganizations) -> None:
    kept = {"key": f"{KEPT_BY_HOOK}/{ACME}"}
    await store.query("update login_events set hook_verdicts = jsonb_build_object(%(key)s::text, '{}'::jsonb) returning id", kept)
    await delete(store)
    await purge(remains, ACME)
    (left,) = await store.query(
        "select count(*) filter (where organization_id is null) as its, count(*) filter (where organization_id is not null) as others"
        " from login_events where hook_verdicts is not null"
    )
    assert left == {"its": 0, "others": MEMBERS}


async def test_a_living_organization_loses_nothing(store: Store, remains: PostgresDeletedOrganizations) -> None:
    before = await everything_of(store, ACME)
    batches = await purge(remains, ACME)
    assert set(map(tuple, batches.values())) == {()}
    assert not await remains.finish(ACME)
    assert await everything_of(store, ACME) == before


async def test_it_may_be_repeated_and_taken_up_in_the_middle(store: Store, remains: PostgresDeletedOrganizations) -> None:
    await delete(store)
    await purge_twice(remains, ACME)


async def test_several_at_once_are_in_nobodys_way(store: Store, remains: PostgresDeletedOrganizations) -> None:
    await delete(store)
    await purge_by_five(remains, ACME)
    assert await left_of(store, ACME) == 0


async def test_what_is_written_into_it_late_goes_with_it(store: Store, remains: PostgresDeletedOrganizations) -> None:
    """A request that found it alive may still be at work when its part has been swept."""
    (user,) = await store.query("select id from users limit 1")
    await delete(store)
    await purge(remains, ACME)
    late = {"acme": ACME, "user": user["id"]}
    await store.query(
        "insert into memberships (id, org_id, user_id, role, created_at) values (gen_random_uuid(), %(acme)s, %(user)s, 'member', now())",
        late,
    )
    await store.query(
        "insert into relations (organization_id, user_id, relation, object_type, object_id)"
        " values (%(acme)s, %(user)s, 'member', 'organization', %(acme)s)",
        late,
    )
    await store.query(
        "insert into sessions (id, user_id, organization_id, created_at, last_seen_at, expires_at)"
        " values (gen_random_uuid(), %(user)s, %(acme)s, now(), now(), now())",
        late,
    )
    assert await remains.finish(ACME)
    assert await left_of(store, ACME) == 0


async def test_rows_that_somebody_holds_are_waited_for_and_not_passed_over(store: Store, remains: PostgresDeletedOrganizations) -> None:
    await delete(store)
    (first,) = await store.query("select id from sessions where organization_id = %(acme)s order by id limit 1", {"acme": ACME})
    await purge_beside_a_holder(store, remains, ACME, first["id"])
    assert (await counted(store, ACME))["sessions"] == 0


async def test_stranded_is_what_was_deleted_and_has_no_job_left(store: Store, remains: PostgresDeletedOrganizations) -> None:
    patience = timedelta(minutes=15)
    assert await remains.stranded(timedelta(0), 10) == []
    await delete(store, ACME, job=True)
    await delete(store, OTHER)
    assert await remains.stranded(patience, 10) == []  # not yet
    await store.query("update all_organizations set deleted_at = deleted_at - interval '16 minutes'")
    assert await remains.stranded(patience, 10) == [OTHER]
    # Its job died, or an operator took it away: then it is stranded too.
    await store.query("update jobs set state = 'dead', died_at = now() where kind = %(kind)s", {"kind": PURGE_JOB})
    assert sorted(await remains.stranded(patience, 10)) == [ACME, OTHER]
    assert len(await remains.stranded(patience, 1)) == 1


# Many small organizations and a large one: what the planner expects of any organization is little.
_MANY: Final = """
    insert into users (id, email, email_key) select gen_random_uuid(), 'u' || n, 'u' || n from generate_series(1, 2000) as n;
    insert into all_organizations (id, slug, name, status, created_at, updated_at, deleted_at)
    select case n when 0 then '01900000-0000-7000-8000-00000000000a' else gen_random_uuid() end, 'o-' || n, 'O', 'active', now(), now(),
           case n when 0 then now() end
      from generate_series(0, 300) as n;
    insert into memberships (id, org_id, user_id, role, created_at)
    select gen_random_uuid(), o.id, u.id, 'member', now()
      from all_organizations as o
     cross join lateral (select id from users order by id limit case o.slug when 'o-0' then 2000 else 5 end) as u;
    insert into relations (organization_id, user_id, relation, object_type, object_id)
    select org_id, user_id, 'member', 'organization', org_id from memberships;
    insert into services (id, org_id, slug, name, service_type, client_id, created_at, updated_at)
    select gen_random_uuid(), id, 's', 'S', 'web', gen_random_uuid(), now(), now() from all_organizations;
    insert into service_users (service_id, user_id, org_id, created_at)
    select services.id, user_id, org_id, now() from memberships join services using (org_id);
    insert into plans (id, service_id, name, price_cents, currency, created_at, updated_at)
    select gen_random_uuid(), id, 'Plan', 0, 'usd', now(), now() from services;
    insert into subscriptions (id, service_id, user_id, plan_id, status, current_period_end, created_at, updated_at)
    select gen_random_uuid(), plans.service_id, user_id, plans.id, 'active', now(), now(), now()
      from service_users join plans using (service_id);
    insert into users (id, email, email_key, origin_service_id)
    select gen_random_uuid(), user_id::text || service_id, user_id::text || service_id, service_id from service_users;
    insert into sessions (id, user_id, organization_id, created_at, last_seen_at, expires_at)
    select gen_random_uuid(), user_id, org_id, now(), now(), now() from memberships;
    insert into events (id, name, organization_id, target_type, target_id, details, occurred_at)
    select gen_random_uuid(), 'x', org_id, 'user', '', '{}', now() from memberships;
    insert into login_events (id, user_id, organization_id, provider, success, created_at)
    select gen_random_uuid(), user_id, org_id, 'password', true, now() from memberships;
    insert into audit_entries (id, organization_id, action, target_type, target_id, success, details, created_at)
    select gen_random_uuid(), org_id, 'x', 'user', '', true, '{}', now() from memberships;
    insert into audit_personal (entry_id, salt) select id, '' from audit_entries;
    insert into invitations (id, org_id, email, email_key, role, token_digest, expires_at, created_at)
    select gen_random_uuid(), org_id, user_id::text, user_id::text, 'member', sha256(memberships.id::text::bytea), now(), now()
      from memberships
"""
_LIMIT: Final = 50


@pytest.fixture
async def many(fresh_store: Store) -> Store:
    for statement in _MANY.split(";"):
        await fresh_store.query(statement)
    # Of a shared database, the next test's planner would believe what this one leaves.
    await fresh_store.query("vacuum analyze")
    return fresh_store


def scans(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    if "Relation Name" in plan:
        yield plan
    for inner in plan.get("Plans", ()):
        yield from scans(inner)


_LARGE: Final = (
    *("sessions", "memberships", "invitations", "service_users", "subscriptions", "origins", "events", "login_events", "audit_personal"),
)


async def test_a_batch_reads_what_it_takes_away_and_little_more(many: Store) -> None:
    """Also with the plan that the server keeps for a statement that it has seen often."""
    middle = UUID(int=1 << 127)
    with psycopg.connect(many.url) as connection:
        connection.execute("set plan_cache_mode = force_generic_plan")
        connection.commit()
        for part in _LARGE:
            numbered: str = ORGANIZATION_PARTS[part]
            for number, name in enumerate(("owner", "after", "limit"), start=1):
                numbered = numbered.replace(f"%({name})s", f"${number}")
            connection.execute(f"prepare {part} (uuid, uuid, int) as {numbered}".encode())
            explained = connection.execute(f"explain (analyze, format json) execute {part} ('{ACME}', '{middle}', {_LIMIT})".encode())
            (plans,) = explained.fetchone() or ([],)
            connection.rollback()
            read = list(scans(plans[0]["Plan"]))
            assert read
            for scan in read:
                rows = scan["Actual Rows"] * scan["Actual Loops"] + scan.get("Rows Removed by Filter", 0)
                assert rows <= 2 * _LIMIT, (part, scan)
                # A month ahead is empty.
                assert scan["Node Type"] != "Seq Scan" or (rows == 0 and scan["Plan Rows"] <= 1), (part, scan)
