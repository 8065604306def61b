"""What waits for SIEMs, in numbers: neither the many that wait for a dead receiver nor many exports cost anything when there is nothing to
do.
"""

from datetime import timedelta
from typing import Any, Final

import psycopg
import pytest

from adapters.postgres.statements import ask
from adapters.postgres.tenancy import siem
from adapters.postgres.tenancy.siem import FORGET_RECEIVED, PostgresSiemQueue
from adapters.postgres.upkeep import housekeeping
from tests.adapters.postgres.conftest import Store

LEASE: Final = timedelta(seconds=60)
# The first export has a dead receiver; some have received what they had; of some nothing is left but their rows.
_MANY: Final = """
    insert into all_organizations (id, slug, name, status, tier_id, created_at, updated_at)
    select gen_random_uuid(), 'o' || n, 'O', 'active', (select id from tiers limit 1), now(), now() from generate_series(1, 300) as n;
    insert into siem_configurations (id, org_id, name, provider_type, endpoint_url, batch_size, sign_ins, sign_in_sequence, created_at,
                                     updated_at)
    select gen_random_uuid(), id, 'S', 'generic', 'https://x.example/', 500, 20, 20, now(), now() from all_organizations;
    update siem_configurations set sign_ins = 50000, sign_in_sequence = 0, failures = 50, next_at = now() + interval '1 hour'
     where id = (select id from siem_configurations order by id limit 1);
    insert into sign_in_links (export_id, sequence, event_id, content, commitment, created_at)
    select id, n, gen_random_uuid(), '{}', '', now() from siem_configurations, generate_series(1, 50000) as n where failures > 0;
    insert into sign_in_links (export_id, sequence, event_id, content, commitment, created_at)
    select id, n, gen_random_uuid(), '{}', '', now()
      from (select id from siem_configurations where failures = 0 order by id limit 4) as healthy, generate_series(15, 22) as n;
    insert into sign_in_links (export_id, sequence, event_id, content, commitment, created_at)
    select id, n, gen_random_uuid(), '{}', '', now()
      from (select gen_random_uuid() as id from generate_series(1, 4)) as gone, generate_series(1, 5) as n
"""


@pytest.fixture
async def many(fresh_store: Store) -> Store:
    for statement in _MANY.split(";"):
        await fresh_store.query(statement)
    await fresh_store.query("vacuum analyze")
    return fresh_store


async def test_what_waits_for_a_dead_receiver_is_not_looked_at(many: Store) -> None:
    """Also with the plan that the server keeps for a statement that it has seen often."""
    with psycopg.connect(many.url) as connection:
        connection.execute("set plan_cache_mode = force_generic_plan")
        connection.execute(f"prepare forget (int) as {FORGET_RECEIVED.replace('%(limit)s', '$1')}".encode())
        for _ in range(2):
            (plans,) = connection.execute("explain (analyze, buffers, format json) execute forget (500)").fetchone() or ([],)
            touched = plans[0]["Plan"]["Shared Hit Blocks"] + plans[0]["Plan"]["Shared Read Blocks"]
            # Fifty thousand rows are hundreds of blocks, and as many looks.
            assert touched < 400, plans
            connection.commit()
        left = connection.execute("select count(*), count(*) filter (where sequence between 21 and 22) from sign_in_links").fetchone()
    assert left == (50_000 + 4 * 2, 2 + 4 * 2)


async def test_only_what_was_received_or_belongs_to_nobody_goes(many: Store) -> None:
    sweep = housekeeping.sweep(many.pool, "ReceivedSignIns")
    assert [await sweep.delete_expired(30) for _ in range(3)] == [30, 14, 0]
    rows = await many.query("select sequence, count(*) as n from sign_in_links group by sequence having count(*) > 1 order by 1")
    assert rows == [{"sequence": 21, "n": 5}, {"sequence": 22, "n": 5}]


async def test_a_claim_that_finds_nothing_costs_the_same_however_many_exports_there_are(
    many: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(siem, "_LOOKED_AT", 20)
    looks = 0

    async def counted(*given: Any) -> Any:
        nonlocal looks
        looks += 1
        return await ask(*given)

    monkeypatch.setattr(siem, "ask", counted)
    queue = PostgresSiemQueue(many.pool)
    assert await queue.claim(10, LEASE, failing=False) == []
    assert looks == siem._PARTS
    # The next ones go on from there: one that has something to send, at the very end, is found in its turn.
    await many.query(
        "update siem_configurations set sign_ins = sign_in_sequence + 1 where id = (select max(id::text)::uuid from siem_configurations)"
    )
    found = [await queue.claim(10, LEASE, failing=False) for _ in range(4)]
    assert [len(one) for one in found if one] == [1]
    assert looks <= 5 * siem._PARTS
