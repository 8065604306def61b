"""What the receivers of an entry cost, where an organization has had 100 000 deliveries in a week: steps in indexes, and no whole table."""

from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from time import perf_counter
from typing import Final
from uuid import UUID

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from adapters.postgres.driver.connection import TripCounter, round_trips
from adapters.postgres.driver.pool import Pool
from adapters.postgres.record.entry_receivers import OF_ENTRY, OF_PERSON, PostgresEntryReceivers
from core.domain.identifiers import AuditEntryId, OrganizationId, UserId
from core.domain.record.entry_receivers import MOST_OFFBOARDING
from tests.adapters.postgres.conftest import Store, make_store
from tests.adapters.postgres.questions import generic_plan
from tests.conftest import fresh_database

ACME: Final = OrganizationId(UUID("01900000-0000-7000-8000-00000000000a"))
ADA: Final = UserId(UUID("01900000-0000-7000-8000-0000000000ad"))
OTHER: Final = OrganizationId(UUID(int=9))
MOST_SECONDS: Final = 0.05
# One event in two minutes, over a week, which each webhook and each stream hears of; ten thousand sessions that ended.
_FILL: Final = """
    create function at(n int) returns timestamptz language sql as $$ select now() - n * interval '2 minutes' $$;
    create function made(n int, kind text) returns uuid language sql as $$
        select (lpad(to_hex((extract(epoch from at(n)) * 1000)::bigint), 12, '0') || '7000' || substr(md5(kind || n), 1, 16))::uuid
    $$;
    insert into all_organizations (id, slug, name, status, created_at, updated_at)
    select case n when 0 then :acme else md5('o' || n)::uuid end, 'o' || n, 'O', 'active', now(), now()
      from generate_series(0, 200) as n;
    insert into users (id, email, email_key)
    select case n when 0 then :ada else md5('u' || n)::uuid end, 'u' || n || '@x.example',
           'u' || n || '@x.example'
      from generate_series(0, 5000) as n;
    insert into all_services (id, org_id, slug, name, service_type, client_id, created_at, updated_at, backchannel_logout_uri)
    select md5('s' || n)::uuid, case when n < 20 then :acme else md5('o' || n % 200 + 1)::uuid end,
           's' || n, 'S', 'web', gen_random_uuid(), now(), now(), 'https://s.example/out'
      from generate_series(0, 2000) as n;
    insert into webhooks (id, org_id, name, url, events, sealed_secret, created_at, updated_at)
    select md5('w' || n)::uuid, case when n < 10 then :acme else md5('o' || n % 200 + 1)::uuid end,
           'W' || n, 'https://w.example/', '{user.removed}', '', now() - interval '1 month', now()
      from generate_series(0, 1000) as n;
    insert into signal_settings (service_id, events, hosts, updated_at)
    select id, '{session-revoked,account-disabled}', '{}', now() from all_services;
    insert into signal_streams (id, service_id, method, events, status, created_at, updated_at)
    select md5('t' || n)::uuid, md5('s' || n)::uuid, 'poll', '{session-revoked,account-disabled}', 'enabled', now(), now()
      from generate_series(0, 500) as n where n < 10 or n >= 20;
    insert into audit_entries (id, organization_id, action, target_type, target_id, success, details, created_at)
    select made(n, 'a'), :acme, case n % 2 when 0 then 'user.removed' else 'security.account.locked' end,
           'user', case when n % 50 < 2 then :ada::text else md5('u' || n % 5000 + 1)::uuid::text end, true, '{}',
           at(n)
      from generate_series(0, 5000 - 1) as n;
    insert into audit_links (chain_id, sequence, entry_id, digest)
    select organization_id, row_number() over (order by id), id, '' from audit_entries;
    insert into events (id, name, organization_id, target_type, target_id, details, occurred_at)
    select made(n, 'e'), entries.action, entries.organization_id, 'user', entries.target_id, '{}', entries.created_at
      from generate_series(0, 5000 - 1) as n join audit_entries as entries on entries.id = made(n, 'a');
    insert into webhook_deliveries (id, webhook_id, event_id, event_name, attempts, delivered_at, created_at, updated_at, kind)
    select gen_random_uuid(), md5(kinds.letter || receiver)::uuid, events.id, events.name, 1, at(0), events.occurred_at, at(0), kinds.kind
      from events
     cross join generate_series(0, 9) as receiver
     cross join (values ('w', 'webhook'), ('t', 'signal')) as kinds (letter, kind);
    insert into logout_notices (id, service_id, session_id, user_id, attempts, delivered_at, created_at, updated_at)
    select (left(made(n / 2, 'n')::text, 18) || substr(gen_random_uuid()::text, 19))::uuid, md5('s' || n % 20)::uuid, gen_random_uuid(),
           case when n % 50 < 4 then :ada else md5('u' || n % 5000)::uuid end, 1, at(0), at(n / 2), at(0)
      from generate_series(0, 9999) as n;
    insert into provisioning_connections (id, org_id, service_id, preset, base_url, mapping, state)
    select md5('c' || n)::uuid, all_services.org_id, all_services.id, 'generic', 'https://c.example/', '[]', 'active'
      from generate_series(0, 500) as n join all_services on all_services.id = md5('s' || n)::uuid;
    insert into provisioned_people (connection_id, user_id, far_id, active, state, changed_at)
    select md5('c' || n % 500)::uuid, users.id, users.id::text, true, 'sent', now()
      from (select id, row_number() over () as n from users) as users;
    insert into provisioning_marks (connection_id, user_id, marked_at) select connection_id, user_id, now() from provisioned_people;
    insert into provisioning_runs (id, connection_id, kind, state, begun_at, ended_at, settings_digest)
    select made(n, 'r'), md5('c' || n % 500)::uuid, 'changes', 'done', at(n), at(n), '' from generate_series(0, 4999) as n;
    insert into provisioning_run_people (run_id, place, what, user_id)
    select provisioning_runs.id, place, 'ended', md5('u' || 1 + (place * 7 + n) % 5000)::uuid
      from (select id, row_number() over () as n from provisioning_runs) as provisioning_runs cross join generate_series(1, 5) as place;
    insert into siem_configurations (id, org_id, name, provider_type, endpoint_url, batch_size, created_at, updated_at, audit_sequence)
    select gen_random_uuid(), id, 'SIEM', 'generic', 'https://siem.example/', 1, now(), now(), 100 from all_organizations;
    drop function made(int, text);
    drop function at(int);
"""


@pytest.fixture(scope="module")
def busy_url(worker_id: str) -> Iterator[str]:
    """One filled database for all: filling takes longer than asking."""
    for url in fresh_database(f"entry_receivers_{worker_id}"):
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute(_FILL.replace(":acme", f"'{ACME}'::uuid").replace(":ada", f"'{ADA}'::uuid").encode())
            connection.execute("vacuum analyze")
        yield url


@pytest.fixture
async def busy(busy_url: str) -> AsyncIterator[Store]:
    pool = Pool(busy_url)
    await pool.open()
    try:
        yield make_store(busy_url, pool)
    finally:
        await pool.aclose()


async def one_removal(store: Store) -> AuditEntryId:
    """An entry about Ada, of the middle of the week."""
    asked = "select id from audit_entries where action = 'user.removed' and target_id = %(ada)s order by id offset 25 limit 1"
    (row,) = await store.query(asked, {"ada": str(ADA)})
    return AuditEntryId(row["id"])


async def read_whole(store: Store, statement: str) -> set[str]:
    """The tables with more than a few rows that the plan reads from end to end."""
    large = {row["relname"] for row in await store.query("select relname from pg_class where relkind = 'r' and reltuples > 1000")}
    plan = await generic_plan(store.url, statement)
    return large & {step["Relation Name"] for step in plan if step["Node Type"] == "Seq Scan"}


@pytest.mark.parametrize("statement", [OF_ENTRY, OF_PERSON])
async def test_a_plan_for_all_parameters_reads_no_whole_table(busy: Store, statement: str) -> None:
    assert await read_whole(busy, statement) == set()


@pytest.mark.parametrize("statement", [OF_ENTRY, OF_PERSON])
async def test_each_table_has_an_index_for_the_statement(busy: Store, statement: str) -> None:
    """Small tables are read whole because that is cheaper. If it were not, nothing would be: not even a whole index."""
    plan = await generic_plan(make_conninfo(busy.url, options="-c enable_seqscan=off"), statement)
    reads = [step for step in plan if "Relation Name" in step and step["Node Type"] != "Bitmap Heap Scan"]
    assert {step["Relation Name"] for step in reads if "Index Cond" not in step} == set()


async def test_the_receivers_of_an_entry_are_one_statement_of_a_few_rows(busy: Store) -> None:
    entry = await one_removal(busy)
    receivers = PostgresEntryReceivers(busy.pool)
    await receivers.of_entry(ACME, entry)
    round_trips.set(trips := TripCounter())
    found = await receivers.of_entry(ACME, entry)
    assert trips.count == 1
    assert found is not None
    kinds = Counter(one.kind for one in found.receivers)
    assert kinds == {"webhook": 10, "signal": 10, "logout_notice": 20, "provisioning": 20, "siem": 1}
    # Each webhook has heard of this event, and of no other.
    assert [one.sent for one in found.receivers if one.kind == "webhook"] == [1] * 10
    assert sum(one.sent for one in found.receivers if one.kind == "logout_notice") >= 1
    assert await quickest(lambda: receivers.of_entry(ACME, entry)) < MOST_SECONDS
    assert await receivers.of_entry(OTHER, entry) is None


async def test_the_receivers_of_a_persons_entries_are_one_statement(busy: Store) -> None:
    receivers = PostgresEntryReceivers(busy.pool)
    await receivers.of_person(ACME, ADA)
    round_trips.set(trips := TripCounter())
    found = await receivers.of_person(ACME, ADA)
    assert trips.count == 1
    assert len(found) == MOST_OFFBOARDING
    assert all(one.receivers for one in found)
    assert await quickest(lambda: receivers.of_person(ACME, ADA)) < MOST_SECONDS
    assert await receivers.of_person(OTHER, ADA) == []


async def quickest(ask: Callable[[], Awaitable[object]]) -> float:
    """Of five times, so that what else the machine does counts little."""
    found = []
    for _ in range(5):
        began = perf_counter()
        await ask()
        found.append(perf_counter() - began)
    return min(found)
