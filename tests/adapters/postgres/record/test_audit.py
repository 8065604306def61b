"""The cost of reading a long audit log, on any page: the index used, and the number of rows read."""

from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime
from itertools import combinations
from typing import Any, Final
from uuid import UUID

import psycopg
import pytest

from adapters.postgres.driver.connection import TripCounter, round_trips
from adapters.postgres.driver.pool import Pool
from adapters.postgres.record.audit import (
    LINKS,
    NEWEST,
    UNCHAINED,
    UNCHAINED_OF_ORGANIZATION,
    UNCHAINED_OF_PLATFORM,
    PostgresAuditLog,
    matching,
)
from core.domain.identifiers import OrganizationId, UserId
from core.domain.record.audit import AuditFilter
from core.domain.record.events import TargetType
from core.domain.requests import MOST_ROWS_COUNTED, Page
from tests.adapters.postgres.conftest import Store, make_store
from tests.adapters.postgres.questions import generic_plan
from tests.conftest import fresh_database

ACME: Final = OrganizationId(UUID("01900000-0000-7000-8000-00000000000a"))
ADA: Final = UserId(UUID("01900000-0000-7000-8000-0000000000ad"))
NOON: Final = datetime(2026, 5, 4, 12, 0, tzinfo=UTC)
ENTRIES: Final = 20_000

# Every second entry is acme's, one a second; the others are of a hundred organizations. The newest thirty wait to be linked.
_FILL: Final = """
    insert into users (id, email, email_key)
    select ('01910000-0000-7000-8000-' || lpad(n::text, 12, '0'))::uuid, 'u' || n || '@example.org', 'u' || n || '@example.org'
      from generate_series(1, 5000) as n;
    insert into audit_entries (id, organization_id, actor_id, action, target_type, target_id, success, details, created_at, personal_digest)
    select ('01920000-0000-7000-8000-' || lpad(n::text, 12, '0'))::uuid,
           case n % 2 when 0 then '01900000-0000-7000-8000-00000000000a'::uuid else md5('o' || n % 100)::uuid end,
           case n % 6 when 0 then '01900000-0000-7000-8000-0000000000ad'::uuid else md5('u' || n % 50)::uuid end,
           case when n % 1000 = 0 then 'branding.updated' when n % 4 = 0 then 'user.invited' else 'role.created' end,
           case when n % 1000 = 0 then 'branding' when n % 4 = 0 then 'user' else 'role' end,
           md5((n % 500)::text), n % 400 <> 0, '{}', '2026-05-04 00:00:00Z'::timestamptz + n * interval '1 second', ''
      from generate_series(1, 40000) as n;
    set session_replication_role = replica;
    insert into memberships (id, org_id, user_id, role, created_at)
    select gen_random_uuid(), md5('o' || n % 100)::uuid, md5('u' || n)::uuid, 'member', now() from generate_series(1, 5000) as n;
    insert into service_users (service_id, user_id, org_id, created_at)
    select md5('s' || n % 100)::uuid, md5('u' || n)::uuid, md5('o' || n % 100)::uuid, now() from generate_series(1, 5000) as n;
    insert into all_services (id, org_id, slug, name, service_type, client_id, created_at, updated_at)
    select md5('s' || n)::uuid, md5('o' || n % 100)::uuid, 's' || n, 'S', 'web', gen_random_uuid(), now(), now()
      from generate_series(1, 5000) as n;
    reset session_replication_role;
    insert into audit_personal (entry_id, address, salt) select id, '192.0.2.7', '' from audit_entries;
    insert into audit_links (chain_id, sequence, entry_id, digest)
    select organization_id, row_number() over (partition by organization_id order by id), id, sha256('')
      from audit_entries
     where id <= '01920000-0000-7000-8000-000000039940';
    insert into audit_pending (entry_id, chain_id)
    select id, organization_id from audit_entries where id > '01920000-0000-7000-8000-000000039940';
"""

ALL: Final[dict[str, Any]] = {
    "action": "user.invited",
    "target_type": TargetType.USER,
    "actor": ADA,
    "success": False,
    "since": NOON,
    "until": datetime(2026, 5, 4, 13, 0, tzinfo=UTC),
}


@pytest.fixture(scope="module")
def grown_url(worker_id: str) -> Iterator[str]:
    """One filled database for all: filling takes longer than asking."""
    for url in fresh_database(f"audit_{worker_id}"):
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute(_FILL.encode())
            connection.execute("vacuum analyze")
        yield url


@pytest.fixture
async def grown(grown_url: str) -> AsyncIterator[Store]:
    pool = Pool(grown_url)
    await pool.open()
    try:
        yield make_store(grown_url, pool)
    finally:
        await pool.aclose()


def nodes(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield plan
    for inner in plan.get("Plans", ()):
        yield from nodes(inner)


async def plan(store: Store, statement: str, **parameters: Any) -> list[dict[str, Any]]:
    (row,) = await store.query(f"explain (analyze, format json) {statement}", parameters)
    return list(nodes(row["QUERY PLAN"][0]["Plan"]))


# What waits is little, and so are the people who are being forgotten: they may be read from end to end.
def read_whole(steps: list[dict[str, Any]]) -> set[str]:
    return {step["Relation Name"] for step in steps if step["Node Type"] == "Seq Scan"} - {"audit_pending", "privacy_requests"}


def most_rows(steps: list[dict[str, Any]]) -> int:
    return int(max(step["Actual Rows"] * step["Actual Loops"] + step.get("Rows Removed by Filter", 0) for step in steps))


def indexes(steps: list[dict[str, Any]]) -> set[str]:
    return {step["Index Name"] for step in steps if "Index Name" in step}


async def test_a_page_far_back_reads_no_more_than_the_first(grown: Store) -> None:
    for number in (1, 2, 200, 390):
        page = Page(number, 50)
        steps = await plan(grown, NEWEST, organization=ACME, offset=page.offset, limit=page.limit)
        assert read_whole(steps) == set(), number
        assert most_rows(steps) <= 60, number
        assert "audit_links_pkey" in indexes(steps)
        found = await PostgresAuditLog(grown.pool).newest(ACME, page)
        assert (len(found.items), found.total) == (50, ENTRIES)
    assert read_whole(await generic_plan(grown.url, NEWEST)) == set()


async def test_the_pages_are_all_there_is_each_once(grown: Store) -> None:
    log = PostgresAuditLog(grown.pool)
    read = [entry.id for number in range(1, 202) for entry in (await log.newest(ACME, Page(number, 100))).items]
    rows = await grown.query("select id from audit_entries where organization_id = %(acme)s order by id desc", {"acme": ACME})
    assert read == [row["id"] for row in rows]


# The index that each filter is for.
SINGLE: Final = {
    "action": "audit_entries_by_action",
    "target_type": "audit_entries_by_target",
    "actor": "audit_entries_of_actor",
    "success": "audit_entries_failed",
    "since": "audit_entries_newest",
    "until": "audit_entries_newest",
}


async def asked(store: Store, wanted: AuditFilter, offset: int = 0) -> list[dict[str, Any]]:
    parameters = {name: getattr(wanted, name) for name in ("action", "target_type", "target_id", "actor", "since", "until")}
    return await plan(store, matching(wanted), **parameters, organization=ACME, most=MOST_ROWS_COUNTED, offset=offset, limit=50)


@pytest.mark.parametrize("names", [names for size in (1, 2, 6) for names in combinations(ALL, size)], ids="+".join)
async def test_a_filtered_list_reads_an_index_and_no_more_than_is_counted(grown: Store, names: tuple[str, ...]) -> None:
    wanted = AuditFilter(**{name: ALL[name] for name in names})
    meant = {SINGLE[names[0]]} if len(names) == 1 else set(SINGLE.values())
    for offset in (0, 5000):
        steps = await asked(grown, wanted, offset)
        assert read_whole(steps) == set()
        assert most_rows(steps) <= MOST_ROWS_COUNTED
        assert indexes(steps) & meant
    assert read_whole(await generic_plan(grown.url, matching(wanted))) == set()


async def test_what_is_rare_is_found_without_reading_what_is_not(grown: Store) -> None:
    for wanted, rows in (
        (AuditFilter(action="branding.updated"), 40),
        (AuditFilter(target_type=TargetType.BRANDING), 40),
        (AuditFilter(target_type=TargetType.USER, target_id="cfcd208495d565ef66e7dff9f98764da"), 40),
        (AuditFilter(success=False), 100),
        (AuditFilter(action="none"), 0),
    ):
        steps = await asked(grown, wanted)
        found = await PostgresAuditLog(grown.pool).matching(ACME, wanted, Page())
        assert found.total == rows, wanted
        assert most_rows(steps) <= max(rows, 1), wanted


@pytest.mark.parametrize("since", [0, 10_000, 19_900, 19_990])
async def test_verifying_reads_in_parts_that_do_not_grow(grown: Store, since: int) -> None:
    steps = await plan(grown, LINKS, chain=ACME, sequence=since, most=100)
    assert read_whole(steps) == set()
    assert most_rows(steps) <= 100
    place = (
        "select id as entry, created_at::text as at from audit_entries where organization_id = %(acme)s order by id limit 1 offset %(at)s"
    )
    (row,) = await grown.query(place, {"acme": ACME, "at": since})
    for statement in (UNCHAINED, UNCHAINED_OF_ORGANIZATION, UNCHAINED_OF_PLATFORM):
        steps = await plan(grown, statement, **row, organization=ACME, most=100)
        assert read_whole(steps) == set()
        assert most_rows(steps) <= 110
    for statement in (LINKS, UNCHAINED, UNCHAINED_OF_ORGANIZATION, UNCHAINED_OF_PLATFORM):
        assert read_whole(await generic_plan(grown.url, statement)) == set()


async def test_a_list_is_one_round_trip(grown: Store) -> None:
    log = PostgresAuditLog(grown.pool)
    for wanted in (None, AuditFilter(action="user.invited")):
        token = round_trips.set(trips := TripCounter())
        found = await (log.newest(ACME, Page()) if wanted is None else log.matching(ACME, wanted, Page()))
        round_trips.reset(token)
        assert found.items
        assert trips.count == 1


@pytest.mark.parametrize("kind", [TargetType.SERVICE, TargetType.USER])
@pytest.mark.parametrize("target", ["app", "-" * 36, "a" * 36, "01900000-0000-7000-8000-0000000000a-", ""])
async def test_an_entry_about_what_has_no_uuid_is_read_and_names_nothing(store: Store, kind: TargetType, target: str) -> None:
    await store.query(
        "insert into audit_entries (id, organization_id, action, target_type, target_id, success, details, created_at, personal_digest)"
        " values (gen_random_uuid(), %(acme)s, 'tried', %(kind)s, %(target)s, true, '{}', now(), '')",
        {"acme": ACME, "kind": kind.value, "target": target},
    )
    (entry,) = (await PostgresAuditLog(store.pool).matching(ACME, AuditFilter(action="tried"), Page())).items
    assert (entry.target_id, entry.service, entry.subject) == (target, None, None)
