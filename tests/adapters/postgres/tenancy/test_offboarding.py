"""What a look at late receivers costs, where few organizations of many have a deadline: steps in indexes, whatever the others do."""

from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime, timedelta
from typing import Final

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from adapters.postgres.driver.connection import TripCounter, round_trips
from adapters.postgres.driver.pool import Pool
from adapters.postgres.record.entry_receivers import OPEN_OF_ENTRIES
from adapters.postgres.statements import Statements
from adapters.postgres.tenancy.offboarding import _CLAIM, _ENTER, _TAKE_LATE, OffboardingDeadlineRows
from core.domain.tenancy.offboarding import ActJudgment
from tests.adapters.postgres.conftest import Store, make_store
from tests.adapters.postgres.questions import generic_plan
from tests.conftest import fresh_database

# Two thousand organizations with fifty removals each in the last hour. Two have a deadline.
_FILL: Final = """
    insert into all_organizations (id, slug, name, status, created_at, updated_at)
    select md5('o' || n)::uuid, 'o' || n, 'O', 'active', now(), now() from generate_series(0, 1999) as n;
    insert into audit_entries (id, organization_id, action, target_type, target_id, success, details, created_at)
    select gen_random_uuid(), md5('o' || n % 2000)::uuid, case n % 3 when 0 then 'user.removed' else 'service.updated' end, 'user',
           gen_random_uuid()::text, true, '{}', now() - n * interval '36 milliseconds'
      from generate_series(0, 99999) as n;
    insert into offboarding_deadlines (id, org_id, removal_minutes, seen_to, created_at, updated_at)
    select gen_random_uuid(), md5('o' || n)::uuid, 60, now() - interval '1 minute', now() - interval '1 day', now()
      from generate_series(0, 1) as n;
    insert into offboarding_watches (entry_id, deadline_id, act, act_at, look_at)
    select gen_random_uuid(), id, 'removal', now() - interval '1 day', now() + interval '1 hour'
      from offboarding_deadlines cross join generate_series(1, 10000);
"""


@pytest.fixture(scope="module")
def many_url(worker_id: str) -> Iterator[str]:
    for url in fresh_database(f"offboarding_{worker_id}"):
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute(_FILL.encode())
            connection.execute("vacuum analyze")
        yield url


@pytest.fixture
async def many(many_url: str) -> AsyncIterator[Store]:
    pool = Pool(many_url)
    await pool.open()
    try:
        yield make_store(many_url, pool)
    finally:
        await pool.aclose()


@pytest.mark.parametrize("statement", [_ENTER, _CLAIM, OPEN_OF_ENTRIES])
async def test_a_plan_for_all_parameters_reads_no_large_table_whole(many: Store, statement: str) -> None:
    plan = await generic_plan(make_conninfo(many.url, options="-c enable_seqscan=off"), statement)
    large = {"audit_entries", "offboarding_watches", "audit_links", "all_organizations"}
    reads = [step for step in plan if step.get("Relation Name") in large and step["Node Type"].endswith("Scan")]
    assert {step["Relation Name"] for step in reads if "Index Cond" not in step and step["Node Type"] != "Bitmap Heap Scan"} == set()


async def test_a_look_reads_the_acts_of_those_with_a_deadline_alone(many: Store) -> None:
    rows = OffboardingDeadlineRows(Statements(many.pool))
    now = datetime.now(UTC)
    round_trips.set(trips := TripCounter())
    assert await rows.enter(now, 100) == 2
    entered = await many.query("select deadline_id from offboarding_watches where act_at > now() - interval '1 hour'")
    assert await rows.enter(now, 100) == 0
    claimed = await rows.claim(now, 1000)
    assert len(claimed) == len(entered)
    assert await rows.claim(now, 1000) == []
    assert trips.count == 5
    # Of two thousand organizations, three minutes of two.
    assert 0 < len(entered) <= 10
    assert all(now - one.act_at < timedelta(minutes=4) for one in claimed)


async def test_of_two_who_judge_the_same_act_one_reports(many: Store) -> None:
    """The lease of the first ran out, and another process has claimed the act meanwhile."""
    rows = OffboardingDeadlineRows(Statements(many.pool))
    now = datetime.now(UTC)
    await many.query("update offboarding_watches set look_at = now() where entry_id = (select entry_id from offboarding_watches limit 1)")
    (watched,) = await rows.claim(now + timedelta(minutes=1), 1)
    judgment = ActJudgment((), ("webhook:1",), 1, now + timedelta(hours=1))
    assert [await rows.judge(watched, judgment) for _ in range(2)] == [True, False]


async def test_the_mail_reads_an_index_of_what_is_late(many: Store) -> None:
    plan = await generic_plan(make_conninfo(many.url, options="-c enable_seqscan=off"), _TAKE_LATE)
    assert "offboarding_deadlines_late" in {step.get("Index Name") for step in plan}
