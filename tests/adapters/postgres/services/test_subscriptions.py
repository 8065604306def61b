"""Subscriptions in PostgreSQL: what the questions read in a service with many of them, and the counts that the plans keep."""

from collections import Counter, defaultdict
from collections.abc import Iterator
from random import Random
from typing import Any, Final
from uuid import UUID

import psycopg
import pytest
import trio

from adapters.postgres.driver.connection import Connection
from adapters.postgres.services.plans import CURRENT_SUBSCRIPTION, EXPIRE_DUE, OWN_SUBSCRIPTIONS, SUBSCRIPTION_LISTS, SubscriptionRows
from adapters.postgres.statements import Statements
from core.domain.identifiers import ServiceId
from core.domain.services.plans import SubscriptionStatus
from tests.adapters.postgres.conftest import Store

ACME: Final = UUID("01900000-0000-7000-8000-00000000000a")
SHOP: Final = UUID("01900000-0000-7000-8000-00000000000b")
OTHER: Final = UUID("01900000-0000-7000-8000-00000000000c")
PLANS: Final = [UUID(f"01900000-0000-7000-8000-0000000001{number:02}") for number in range(4)]
USERS: Final = 6_000

_SERVICES: Final = """
    insert into organizations (id, slug, name, status, created_at, updated_at)
    values ('01900000-0000-7000-8000-00000000000a', 'acme', 'Acme', 'active', now(), now());
    insert into services (id, org_id, slug, name, service_type, client_id, created_at, updated_at)
    select id, '01900000-0000-7000-8000-00000000000a', slug, slug, 'web', id, now(), now()
      from (values ('01900000-0000-7000-8000-00000000000b'::uuid, 'shop'),
                   ('01900000-0000-7000-8000-00000000000c'::uuid, 'other')) as new (id, slug);
    insert into plans (id, service_id, name, price_cents, currency, created_at, updated_at)
    select ('01900000-0000-7000-8000-0000000001' || lpad(n::text, 2, '0'))::uuid,
           case n when 3 then '01900000-0000-7000-8000-00000000000c' else '01900000-0000-7000-8000-00000000000b' end::uuid,
           'Plan ' || n, 1, 'eur', now(), now()
      from generate_series(0, 3) as n
"""

# In the shop everybody once, in the other service half of them; every second one lives, and has long to go.
_FILL: Final = """
    insert into users (id, email, email_key)
    select ('01910000-0000-7000-8000-' || lpad(n::text, 12, '0'))::uuid, 'u' || n || '@example.org', 'u' || n || '@example.org'
      from generate_series(1, {users}) as n;
    insert into service_users (service_id, user_id, org_id, created_at)
    select services.id, users.id, services.org_id, now() from services, users;
    insert into subscriptions (id, service_id, user_id, plan_id, status, current_period_end, created_at, updated_at)
    select gen_random_uuid(), services.id, users.id,
           case services.slug when 'other' then '01900000-0000-7000-8000-000000000103'::uuid
                else ('01900000-0000-7000-8000-00000000010' || users.n % 3)::uuid end,
           (array['active', 'cancelled', 'past_due', 'expired'])[1 + users.n % 4], now() + interval '1 year',
           now() - interval '1 day' + users.n * interval '1 second', now()
      from services
      join (select id, row_number() over (order by id) as n from users) as users on services.slug = 'shop' or users.n % 2 = 0
"""


async def fill(store: Store, users: int) -> None:
    for statement in (_SERVICES + ";" + _FILL.format(users=users)).split(";"):
        await store.query(statement)


def nodes(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield plan
    for inner in plan.get("Plans", ()):
        yield from nodes(inner)


async def steps_of(store: Store, statement: str, **parameters: Any) -> list[dict[str, Any]]:
    (row,) = await store.query(f"explain (analyze, format json) {statement}", parameters)
    return list(nodes(row["QUERY PLAN"][0]["Plan"]))


def rows_read(steps: list[dict[str, Any]], table: str = "subscriptions") -> int:
    """The rows of this table that all scans together have read."""
    return sum(
        int(step["Actual Rows"] * step["Actual Loops"] + step.get("Rows Removed by Filter", 0))
        for step in steps
        if step.get("Relation Name") == table
    )


def indexes(steps: list[dict[str, Any]]) -> set[str]:
    return {step["Index Name"] for step in steps if "Index Name" in step}


# One filled database for all: filling takes longer than asking.
async def test_no_question_reads_more_than_its_page_and_the_way_to_it_from_the_nearer_end(fresh_store: Store) -> None:
    await fill(fresh_store, USERS)
    for table in ("users", "plans", "subscriptions", "service_users"):
        await fresh_store.query(f"vacuum analyze {table}")
    lookup, shop = SubscriptionRows(Statements(fresh_store.pool)), ServiceId(SHOP)
    for status, statement in SUBSCRIPTION_LISTS.items():
        total = USERS if status is None else USERS // 4
        for offset in (0, 500, total // 2, total - 600, total - 100, total - 1, total, 10 * total):
            steps = await steps_of(fresh_store, statement, service=SHOP, limit=100, offset=offset)
            assert indexes(steps) >= {"subscriptions_of_service" if status is None else "subscriptions_by_status"}, (status, offset)
            # Once to find them, and the page's rows once more.
            assert rows_read(steps) <= min(offset, max(total - offset, 0)) + 200, (status, offset)
            page = await lookup.list(shop, status, 100, offset)
            assert (page.total, len(page.items)) == (total, max(0, min(100, total - offset))), (status, offset)
    everything = [one.id for offset in range(0, USERS, 100) for one in (await lookup.list(shop, None, 100, offset)).items]
    rows = await fresh_store.query("select id from subscriptions where service_id = %(id)s order by created_at, id", {"id": SHOP})
    assert everything == [row["id"] for row in rows]

    user = UUID("01910000-0000-7000-8000-000000000002")
    for statement, parameters in (
        (CURRENT_SUBSCRIPTION, {"service": SHOP, "user": user}),
        (OWN_SUBSCRIPTIONS, {"organization": ACME, "slug": "shop", "user": user}),
    ):
        assert rows_read(await steps_of(fresh_store, statement, **parameters)) <= 2
    steps = await steps_of(fresh_store, EXPIRE_DUE, since=None, most=100)
    assert ("subscriptions_ending" in indexes(steps), rows_read(steps)) == (True, 0)


async def tally(store: Store) -> dict[UUID, Counter[str]]:
    counted: dict[UUID, Counter[str]] = defaultdict(Counter)
    for row in await store.query("select plan_id, status, count(*) as n from subscriptions group by plan_id, status"):
        counted[row["plan_id"]][row["status"]] = row["n"]
    return counted


async def require_counts(store: Store) -> None:
    actual = await tally(store)
    for row in await store.query("select * from plans"):
        counts = {status.value: row[f"{status.value}_count"] for status in SubscriptionStatus}
        assert counts == {status: actual[row["id"]][status] for status in counts}, row["id"]
        assert row["subscription_count"] == counts["active"] + counts["past_due"]


async def test_the_counts_are_right_after_every_kind_of_statement(store: Store) -> None:
    await fill(store, 400)
    await require_counts(store)
    drawn = Random(5)  # noqa: S311 - the same every time
    for _ in range(25):
        plan, other = drawn.sample(PLANS[:3], 2)
        status = drawn.choice(list(SubscriptionStatus))
        some = f"get_byte(uuid_send(id), {drawn.randrange(6)}) < 40"
        of_other = f"plan_id = '{other}' and {some}"
        # Whom a status does not make a second that lives.
        alike = f"(status in ('active', 'past_due')) = ('{status}' in ('active', 'past_due'))"
        statement = drawn.choice(
            [
                f"update subscriptions set status = '{status}' where {alike} and {some}",
                f"update subscriptions set plan_id = '{plan}' where {of_other}",
                f"update subscriptions set plan_id = '{plan}', status = 'expired' where {of_other}",
                "update subscriptions set current_period_end = now()",
                "update subscriptions set status = status, plan_id = plan_id",
                f"delete from subscriptions where {of_other}",
                "delete from subscriptions where false",
                f"delete from users where id in (select user_id from subscriptions where plan_id = '{plan}' limit 20)",
            ]
        )
        await store.query(statement)
        await require_counts(store)


async def test_a_second_that_lives_is_refused_by_the_database_itself(store: Store) -> None:
    await fill(store, 400)
    for first, second, fits in (
        ("active", "active", False),
        ("active", "past_due", False),
        ("past_due", "active", False),
        ("active", "expired", True),
        ("cancelled", "active", True),
    ):
        await store.query("delete from subscriptions")
        statement = (
            "insert into subscriptions (id, service_id, user_id, plan_id, status, current_period_end, created_at, updated_at)"
            " select gen_random_uuid(), %(service)s, (select id from users order by id limit 1), %(plan)s, %(status)s, now(), now(), now()"
        )
        await store.query(statement, {"service": SHOP, "plan": PLANS[0], "status": first})
        if fits:
            await store.query(statement, {"service": SHOP, "plan": PLANS[0], "status": second})
        else:
            with pytest.raises(psycopg.errors.UniqueViolation):
                await store.query(statement, {"service": SHOP, "plan": PLANS[0], "status": second})
        # In another service all the same.
        await store.query(statement, {"service": OTHER, "plan": PLANS[3], "status": first})


async def test_many_that_move_subscriptions_of_the_same_plans_at_once_do_not_deadlock(store: Store) -> None:
    """Each its own rows, of all plans, so that only the counts can be in the way."""
    await fill(store, 400)
    await store.query(
        "insert into plans (id, service_id, name, price_cents, currency, created_at, updated_at)"
        " select gen_random_uuid(), %(id)s, 'More', 1, 'eur', now(), now() from generate_series(1, 40)",
        {"id": SHOP},
    )
    await store.query(
        """
        with spread as (
                 select subscriptions.id, (array(select id from plans where service_id = %(id)s))[1 + row_number() over () %% 40] as plan_id
                   from subscriptions
                  where service_id = %(id)s
             )
        update subscriptions set plan_id = spread.plan_id from spread where subscriptions.id = spread.id
        """,
        {"id": SHOP},
    )

    async def move(part: int) -> None:
        async with await Connection.connect(store.url) as connection:
            for _ in range(12):
                await connection.execute(
                    b"update subscriptions set status = case status when 'cancelled' then 'expired' else 'cancelled' end"
                    b" where status in ('cancelled', 'expired') and service_id = %s and get_byte(uuid_send(id), 0) %% 8 = %s",
                    [SHOP, part],
                )

    async with trio.open_nursery() as nursery:
        for part in range(8):
            nursery.start_soon(move, part)
    await require_counts(store)
