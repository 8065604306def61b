"""The cost of lists for platform owners in a large database: the rows that they read, and the indexes that they use."""

import re
from itertools import product
from typing import Any, Final
from uuid import uuid4

import pytest

from adapters.postgres.platform.governance import _LISTS, PostgresOrganizationRegister
from adapters.postgres.platform.platform_users import _METRICS, _MFA, _NEWEST, _OF_PART, _OF_USER, PostgresUserDirectory, containing
from adapters.postgres.tenancy.organizations import PostgresTiers
from core.domain.identifiers import TierId
from core.domain.platform.governance import OrganizationFilter
from core.domain.requests import MOST_ROWS_COUNTED
from core.domain.tenancy.organizations import OrganizationStatus
from core.domain.tenancy.tiers import FREE
from tests.adapters.postgres.conftest import Store
from tests.adapters.postgres.questions import generic_plan
from tests.adapters.postgres.services.test_end_users import nodes

ORGANIZATIONS: Final = 12_000
Nodes = list[dict[str, Any]]

# One in twenty waits for approval, one in a hundred is professional, one in fifty is being deleted.
_FILL: Final = """
    insert into users (id, email, email_key)
    select ('01910000-0000-7000-8000-' || lpad(n::text, 12, '0'))::uuid, 'u' || n || '@Example.org', 'u' || n || '@example.org'
      from generate_series(1, 12000) as n;
    insert into all_organizations (id, slug, name, status, tier_id, owner_user_id, created_at, updated_at, deleted_at)
    select gen_random_uuid(), 'o-' || n, 'O', case when n % 20 = 0 then 'pending' else 'active' end,
           ('01900000-0000-7000-8000-00000000000' || case when n % 100 = 1 then 2 else 1 end)::uuid,
           ('01910000-0000-7000-8000-' || lpad(n::text, 12, '0'))::uuid, now() - n * interval '1 minute', now(),
           case when n % 50 = 7 then now() end
      from generate_series(1, 12000) as n;
    insert into memberships (id, org_id, user_id, role, created_at)
    select gen_random_uuid(), id, owner_user_id, 'owner', now() from all_organizations where slug like 'o-1%';
    insert into mfa_secrets (user_id, sealed_secret, created_at, enabled_at) select id, '', now(), now() from users;
    insert into backup_codes (user_id, digest) select id, '' from users;
    insert into mfa_events (id, user_id, name, success, created_at)
    select gen_random_uuid(), id, case when email like '%9@%' then 'backup_code_used' else 'mfa_verify_attempt' end, true,
           now() - day * interval '1 day'
      from users, generate_series(1, 30, 10) as day;
"""


@pytest.fixture
async def grown(fresh_store: Store) -> Store:
    for statement in _FILL.split(";")[:-1]:
        await fresh_store.query(statement)
    await fresh_store.settle("users", "all_organizations", "memberships", "mfa_secrets", "backup_codes", "mfa_events", "tiers")
    return fresh_store


async def _plan(store: Store, statement: str, **parameters: Any) -> Nodes:
    (row,) = await store.query(f"explain (analyze, format json) {statement}", parameters)
    return list(nodes(row["QUERY PLAN"][0]["Plan"]))


def _read_as_a_whole(seen: Nodes) -> set[str]:
    """The large tables that a plan reads as a whole."""
    return {node["Relation Name"] for node in seen if node["Node Type"] == "Seq Scan"} - {"tiers"}


def _rows_of(seen: Nodes, relation: str) -> float:
    """The rows that were read in the table itself, not only in an index."""
    return sum(
        float(node["Actual Rows"] * node["Actual Loops"])
        for node in seen
        if node.get("Relation Name") == relation and node["Node Type"] in {"Index Scan", "Bitmap Heap Scan", "Seq Scan"}
    )


async def test_the_questions_about_organizations(grown: Store) -> None:
    lists = PostgresOrganizationRegister(grown.pool)
    living = ORGANIZATIONS * 49 // 50
    everything = await lists.list(OrganizationFilter(), 50, 0)
    assert everything.total == MOST_ROWS_COUNTED < living
    assert (everything.items[0].organization.slug, everything.items[0].members) == ("o-1", 1)
    assert (await lists.list(OrganizationFilter(), 50, living)).items == []
    assert len((await lists.list(OrganizationFilter(), 50, living - 1)).items) == 1
    waiting = await lists.list(OrganizationFilter(OrganizationStatus.PENDING), 2, 1)
    assert ([one.organization.slug for one in waiting.items], waiting.total) == (["o-40", "o-60"], 600)
    professional = await lists.list(OrganizationFilter(OrganizationStatus.ACTIVE, TierId(FREE)), 100, 0)
    assert all(one.tier.name == "free" for one in professional.items)
    assert await lists.find("o-57") is None
    found = await lists.find("o-58")
    assert found is not None
    assert found.owner is not None
    assert (found.owner.email, found.organization.slug) == ("u58@Example.org", "o-58")
    assert await lists.find("o-\x00") is None

    # A page far down is found in an index alone, and what is read of the table is what is on the page.
    for (by_status, by_tier), offset in product(_LISTS, (0, 5_000)):
        statement = _LISTS[by_status, by_tier]
        parameters = {"status": "active", "tier": FREE, "limit": 50, "offset": offset, "most": MOST_ROWS_COUNTED}
        seen = await _plan(grown, statement, **parameters)
        assert _read_as_a_whole(seen) == set(), (by_status, by_tier)
        assert any(node.get("Index Name", "").startswith("organizations_") for node in seen)
        assert _rows_of(seen, "users") <= 50
        assert _rows_of(seen, "all_organizations") <= 50, (by_status, by_tier)
        assert not any(node["Node Type"] == "Sort" and node["Actual Rows"] > 100 for node in seen)
        assert "all_organizations" not in _read_as_a_whole(await generic_plan(grown.url, statement))


async def test_the_questions_about_users(grown: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    directory = PostgresUserDirectory(grown.pool)
    found = await directory.search("1999@EXAMPLE".casefold(), None, 20)
    assert [one.account.email.address for one in found] == ["u11999@Example.org", "u1999@Example.org"]
    assert [of.slug for of in found[1].organizations] == ["o-1999"]
    assert len(await directory.search("example", None, 20)) == 20

    common = {"user": None, "limit": 20, "most": 100}
    for statement, sought in ((_OF_PART, "1999@"), (_OF_PART, "example"), (_OF_PART, "nobody"), (_NEWEST, "")):
        seen = await _plan(grown, statement, **{**common, "part": sought, "pattern": containing(sought)})
        assert _read_as_a_whole(seen) == set(), sought
        assert _rows_of(seen, "users") <= 20, sought
        assert not any(node["Node Type"] == "Sort" and node["Actual Rows"] > 100 for node in seen)
        assert _read_as_a_whole(await generic_plan(grown.url, statement)) == set()
    whole = "u1999@example.org"
    seen = await _plan(grown, _OF_PART, **{**common, "part": whole, "pattern": containing(whole)})
    assert sum(node["Actual Rows"] * node["Actual Loops"] for node in seen if node["Node Type"] == "Index Only Scan") <= 3
    someone = found[0].account.id
    for statement in (_OF_USER, _MFA):
        seen = await _plan(grown, statement, **{**common, "user": someone, "part": "", "pattern": "%", "attempt": "mfa_verify_attempt"})
        assert _read_as_a_whole(seen) == set()
    assert await directory.mfa(found[0].account.id) is not None

    seen = await _plan(grown, _METRICS, since="now", most=100, most_events=100, used="backup_code_used", failed="mfa_verify_failed")
    assert "mfa_events" not in _read_as_a_whole(seen)

    # Counts stop somewhere; from there on it is what the planner believes, which has just been told.
    monkeypatch.setattr("adapters.postgres.platform.platform_users.MOST_COUNTED", 100)
    monkeypatch.setattr("adapters.postgres.platform.platform_users.COUNTED_EXACTLY", 100)
    monkeypatch.setattr("adapters.postgres.database.COUNTED_EXACTLY", 100)
    (row,) = await grown.query("select now() - interval '7 days' as since")
    counted = await directory.mfa_metrics(row["since"])
    assert (counted.backup_codes_used, counted.failures) == (100, 0)
    assert (counted.users, counted.mfa_enabled, counted.adoption) == (12_000, 12_000, 100.0)


async def test_tiers(store: Store) -> None:
    tiers = PostgresTiers(store.pool)
    assert [tier.name for tier in await tiers.list()] == ["free", "professional"]
    free = await tiers.find(FREE)
    assert free is not None
    assert (free.id, free.default_max_services, free.default_max_users) == (FREE, 3, 100)
    assert await tiers.find(TierId(uuid4())) is None


def test_a_part_is_taken_literally() -> None:
    assert containing("a_b%c\\d") == r"%a\_b\%c\\d%"
    assert re.fullmatch("%+", containing(""))
