"""Users of a service in PostgreSQL: the marks that find a page however deep it is, and what the questions and changes read."""

import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from random import Random
from typing import Any, Final
from uuid import UUID

import pytest
import trio
from psycopg.errors import ForeignKeyViolation

from adapters.postgres.driver.connection import Connection
from adapters.postgres.services.service_users import DELETE_ACCOUNT, DETAIL, FIND_HELD, JOIN, LEAVE, LIST, ServiceUserRows
from adapters.postgres.services.services import AT_ONCE, COUNT_SERVICE_USE, PostgresServiceAnalytics
from adapters.postgres.statements import Statements
from core.domain.identifiers import ServiceId
from tests.adapters.postgres.conftest import Store
from tests.adapters.postgres.questions import generic_plan
from tests.patience import PATIENCE

ACME: Final = UUID("01900000-0000-7000-8000-00000000000a")
SHOP: Final = UUID("01900000-0000-7000-8000-00000000000b")
OTHER: Final = UUID("01900000-0000-7000-8000-00000000000c")
USERS: Final = 9_000
# Of a mark, before it is split.
MOST: Final = 2_000

_FILL: Final = """
    insert into organizations (id, slug, name, status, created_at, updated_at)
    values ('01900000-0000-7000-8000-00000000000a', 'acme', 'Acme', 'active', now(), now());
    insert into services (id, org_id, slug, name, service_type, client_id, created_at, updated_at)
    select id, '01900000-0000-7000-8000-00000000000a', slug, slug, 'web', id, now(), now()
      from (values ('01900000-0000-7000-8000-00000000000b'::uuid, 'shop'),
                   ('01900000-0000-7000-8000-00000000000c'::uuid, 'other')) as new (id, slug);
    insert into users (id, email, email_key)
    select ('01910000-0000-7000-8000-' || lpad(n::text, 12, '0'))::uuid, 'u' || n || '@example.org', 'u' || n || '@example.org'
      from generate_series(1, {users}) as n
"""

# At the same moment for every three of them, in an order that is not that of their ids.
_JOIN: Final = """
    insert into service_users (service_id, user_id, org_id, created_at)
    select services.id, users.id, services.org_id,
           '2026-01-01'::timestamptz + (('x' || substr(md5(users.id::text), 1, 4))::bit(16)::integer / 3) * interval '1 second'
      from services, users
     where services.id = any(%(services)s) and users.id = any(%(users)s)
        on conflict do nothing
"""

_LEAVE: Final = "delete from service_users where service_id = any(%(services)s) and user_id = any(%(users)s)"


def user(number: int) -> UUID:
    return UUID(f"01910000-0000-7000-8000-{number:012}")


@pytest.fixture
async def grown(fresh_store: Store) -> Store:
    for statement in _FILL.format(users=USERS).split(";"):
        await fresh_store.query(statement)
    return fresh_store


async def change(store: Store, statement: str, services: Sequence[UUID], numbers: Sequence[int]) -> None:
    await store.query(statement, {"services": list(services), "users": [user(number) for number in numbers]})


async def require_exact(store: Store, *services: UUID) -> list[int]:
    """Every mark counts what is there, and together they count everybody. Returns what the marks count."""
    kept = await store.query(
        "select marks.service_id, marks.users,"
        "       (select count(*) from service_users"
        "         where service_id = marks.service_id and (created_at, user_id) >= (marks.created_at, marks.user_id)"
        "           and (next is null or (created_at, user_id) < (marks.next, marks.next_user))) as found"
        "  from (select *, lead(created_at) over following as next, lead(user_id) over following as next_user from service_user_marks"
        "        window following as (partition by service_id order by created_at, user_id)) as marks"
    )
    assert [row for row in kept if row["users"] != row["found"]] == []
    for service in services:
        counted = sum(row["users"] for row in kept if row["service_id"] == service)
        (row,) = await store.query(
            "select user_count, (select count(*) from service_users where service_id = %(id)s) as found from services where id = %(id)s",
            {"id": service},
        )
        assert counted == row["user_count"] == row["found"]
    return [row["users"] for row in kept]


async def test_marks_stay_exact_while_users_come_and_go(grown: Store) -> None:
    random, there = Random(5), set[int]()  # noqa: S311 - the same every time
    for round_ in range(30):
        joining = random.sample(range(1, USERS + 1), random.choice((1, 10, 700, 4_500 if round_ < 4 else 1_500)))
        await change(grown, _JOIN, [SHOP, OTHER], joining)
        there |= set(joining)
        leaving = random.sample(sorted(there), min(len(there), random.choice((1, 10, 400))))
        await change(grown, _LEAVE, [SHOP, OTHER], leaving)
        there -= set(leaving)
        assert max(await require_exact(grown, SHOP, OTHER)) <= MOST
    assert await grown.count("service_user_marks") > 6
    await change(grown, _LEAVE, [SHOP], sorted(there))
    await require_exact(grown, SHOP, OTHER)
    # Marks without users are removed, except the first.
    assert await grown.query("select users from service_user_marks where service_id = %(id)s", {"id": SHOP}) == [{"users": 0}]


async def test_marks_stay_exact_when_many_come_and_go_at_once(grown: Store) -> None:
    await change(grown, _JOIN, [SHOP, OTHER], range(1, 6_000))

    async def work(seed: int) -> None:
        random = Random(seed)  # noqa: S311 - the same every time
        async with await Connection.connect(grown.url) as connection:
            # One person a statement, as the product does it; the deletion of an account leaves several services in one statement.
            for number in random.sample(range(1, USERS + 1), 250):
                if seed % 3 == 0:
                    await connection.execute(b"delete from users where id = %s", [user(number)])
                else:
                    statement = (_JOIN, _LEAVE)[seed % 3 - 1]
                    # A person who is deleted at the same moment does not join.
                    with suppress(ForeignKeyViolation):
                        await connection.execute(statement.encode(), {"services": [SHOP, OTHER], "users": [user(number)]})

    async with trio.open_nursery() as nursery:
        for seed in range(6):
            nursery.start_soon(work, seed)
    await require_exact(grown, SHOP, OTHER)


async def test_a_service_that_is_being_deleted_is_not_counted_any_more(grown: Store) -> None:
    await change(grown, _JOIN, [SHOP, OTHER], range(1, 3_000))
    await grown.query("update all_services set deleted_at = now() where id = %(id)s", {"id": SHOP})
    await change(grown, _LEAVE, [SHOP, OTHER], range(1, 2_000))
    await require_exact_of_the_other(grown)
    assert await grown.query("select users from service_user_marks where service_id = %(id)s", {"id": SHOP}) == []
    await change(grown, _LEAVE, [SHOP], range(2_000, 3_000))
    await grown.query("delete from all_services where id = %(id)s", {"id": SHOP})
    assert await grown.query("select users from service_user_marks where service_id = %(id)s", {"id": SHOP}) == []


async def require_exact_of_the_other(store: Store) -> None:
    (row,) = await store.query(
        "select sum(users) as marked, (select user_count from services where id = %(id)s) as counted"
        "  from service_user_marks where service_id = %(id)s",
        {"id": OTHER},
    )
    assert row["marked"] == row["counted"] == 1_000


def nodes(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield plan
    for inner in plan.get("Plans", ()):
        yield from nodes(inner)


async def steps_of(store: Store, statement: str, **parameters: Any) -> list[dict[str, Any]]:
    (row,) = await store.query(f"explain (analyze, format json) {statement}", parameters)
    return list(nodes(row["QUERY PLAN"][0]["Plan"]))


def rows_read(steps: list[dict[str, Any]], table: str) -> int:
    """The rows of this table that all scans together have read."""
    return sum(
        int(step["Actual Rows"] * step["Actual Loops"] + step.get("Rows Removed by Filter", 0))
        for step in steps
        # Random ids are of no month.
        if step.get("Relation Name") == {"login_events": "login_events_rest"}.get(table, table)
    )


def read_whole(steps: list[dict[str, Any]]) -> set[str]:
    """The tables that a plan reads from one end to the other. Of some there is next to nothing here, and nothing in the months ahead."""
    read = {step["Relation Name"] for step in steps if step["Node Type"] == "Seq Scan"}
    few = {"all_services", "all_organizations", "plans", "all_profile_fields", "profile_values"}
    return {name for name in read if not re.search(r"_(past|\d{4}_\d\d)$", name)} - few


async def vacuum(store: Store, *tables: str) -> None:
    for table in tables:
        await store.query(f"vacuum analyze {table}")


async def test_a_page_costs_the_same_however_deep_it_lies(grown: Store) -> None:
    await change(grown, _JOIN, [SHOP, OTHER], range(1, USERS + 1))
    await vacuum(grown, "users", "service_users", "service_user_marks")
    lookup, shop = ServiceUserRows(Statements(grown.pool)), ServiceId(SHOP)
    for offset in (0, 50, 1_000, 4_499, USERS - 150, USERS - 100, USERS - 1, USERS, 10 * USERS):
        steps = await steps_of(grown, LIST, service=SHOP, limit=100, offset=offset)
        assert {step["Index Name"] for step in steps if "Index Name" in step} >= {"service_users_oldest", "users_pkey"}, offset
        assert rows_read(steps, "service_users") <= MOST + 100, offset
        assert rows_read(steps, "users") <= 100, offset
        page = await lookup.list(shop, 100, offset)
        assert (page.total, len(page.items)) == (USERS, max(0, min(100, USERS - offset))), offset
    assert read_whole(await generic_plan(grown.url, LIST)) <= {"service_user_marks"}
    everybody = [one.id for offset in range(0, USERS + 100, 100) for one in (await lookup.list(shop, 100, offset)).items]
    rows = await grown.query("select user_id from service_users where service_id = %(id)s order by created_at, user_id", {"id": SHOP})
    assert everybody == [row["user_id"] for row in rows]


_TRACES: Final = """
    insert into sessions (id, user_id, organization_id, service_id, created_at, last_seen_at, expires_at)
    select gen_random_uuid(), user_id, org_id, service_id, now(), now(), now() + interval '1 day' from service_users;
    insert into refresh_tokens (digest, session_id, created_at) select sha256(id::text::bytea), id, now() from sessions;
    insert into login_events (id, user_id, organization_id, service_id, provider, success, created_at)
    select gen_random_uuid(), user_id, org_id, service_id, 'password', true, now() from service_users
     where service_id = '01900000-0000-7000-8000-00000000000c' or user_id <= '01910000-0000-7000-8000-000000000500';
    insert into mfa_events (id, user_id, name, success, created_at) select gen_random_uuid(), id, 'x', true, now() from users;
    insert into mfa_secrets (user_id, sealed_secret, created_at) select id, 'x', now() from users;
    insert into passkeys
           (id, user_id, credential_id, public_key, sign_count, name, aaguid, transports, backup_eligible, backed_up, created_at)
    select gen_random_uuid(), id, id::text::bytea, 'x', 0, 'x', id, '{}', false, false, now() from users;
    insert into devices (id, user_id, name, device_type, last_used_at, created_at, updated_at)
    select gen_random_uuid(), id, 'X', 'cli', now(), now(), now() from users;
    insert into preauthentications (id, user_id, created_at, expires_at) select gen_random_uuid(), id, now(), now() from users;
    insert into audit_entries (id, organization_id, actor_id, action, target_type, target_id, success, details, created_at)
    select gen_random_uuid(), case service_id when '01900000-0000-7000-8000-00000000000b' then org_id else user_id end, user_id, 'x',
           'user', user_id::text, true, '{}', now()
      from service_users;
    insert into audit_personal (entry_id, actor_id, salt) select id, actor_id, 's' from audit_entries;
    insert into memberships (id, org_id, user_id, role, created_at)
    select id, '01900000-0000-7000-8000-00000000000a', id, 'member', now() from users order by id limit 4000;
    insert into plans (id, service_id, name, price_cents, currency, created_at, updated_at)
    select id, id, 'x', 1, 'eur', now(), now() from services;
    insert into subscriptions (id, service_id, user_id, plan_id, status, current_period_end, created_at, updated_at)
    select gen_random_uuid(), service_id, user_id, service_id, 'active', now(), now(), now() from service_users
"""


# One filled database for all: filling takes longer than asking.
async def test_no_question_and_no_deletion_reads_more_than_is_about_one_user(grown: Store) -> None:
    await change(grown, _JOIN, [SHOP, OTHER], range(1, USERS + 1))
    for statement in _TRACES.split(";"):
        await grown.query(statement)
    tables = re.findall(r"insert into (\w+)", _TRACES)
    await vacuum(grown, "users", "service_users", "service_user_marks", *tables)
    one: dict[str, Any] = {
        "service": SHOP,
        "organization": ACME,
        "user": user(7),
        "target": str(user(7)),
        "email_key": "u7@example.org",
        "request": UUID(int=1),
        "by": None,
    }
    for statement in (DETAIL, JOIN, FIND_HELD, *LEAVE, *DELETE_ACCOUNT):
        assert read_whole(await generic_plan(grown.url, statement)) == set(), statement
        plain = statement.replace("%(at)s", "now()").replace("%(until)s", "now()")
        used = set(re.findall(r"%\((\w+)\)s", plain))
        async with await Connection.connect(grown.url) as connection, connection.transaction(force_rollback=True):
            cursor = await connection.execute(
                f"explain (analyze, format json) {plain}".encode(), {name: value for name, value in one.items() if name in used}
            )
            row = await cursor.fetchone()
        assert row is not None
        steps = list(nodes(row[0][0]["Plan"]))
        assert read_whole(steps) == set(), statement
        if "audit_entries" in statement:
            # By way of any other index, all organizations there are would be gone through.
            way = "audit_entries_about" if statement in DELETE_ACCOUNT else "audit_entries_of_target"
            assert way in {step.get("Index Name") for step in steps}, statement
        for table in ("users", "service_users", *tables):
            assert rows_read(steps, table) <= 4, (statement, table)
    steps = await steps_of(grown, COUNT_SERVICE_USE, service=SHOP, since="2020-01-01")
    assert any(re.match(r"login_events_\w+_service_id_created_at", step.get("Index Name", "")) for step in steps)
    # A few random ids are of the past.
    assert 450 <= rows_read(steps, "login_events") <= 500


async def test_counting_sign_ins_leaves_connections_to_others(grown: Store) -> None:
    analytics, lookup = PostgresServiceAnalytics(grown.pool), ServiceUserRows(Statements(grown.pool))
    counted: list[object] = []

    async def count() -> None:
        counted.append(await analytics.find(ServiceId(SHOP), datetime(2020, 1, 1, tzinfo=UTC)))

    async with await Connection.connect(grown.url) as busy, trio.open_nursery() as nursery, busy.transaction():
        await busy.execute(b"lock table login_events")
        for _ in range(30):
            nursery.start_soon(count)
        with trio.fail_after(PATIENCE):
            while grown.pool.statistics().in_use < AT_ONCE:
                await trio.sleep(0.01)
            assert (await lookup.list(ServiceId(SHOP), 1, 0)).total == 0
        statistics = grown.pool.statistics()
        assert statistics.connections - statistics.idle == AT_ONCE
        assert counted == []
    assert len(counted) == 30
