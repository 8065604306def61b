"""The cost of queries about services in a large database: the rows that they read, and the indexes that they use."""

from collections.abc import Iterator
from typing import Any, Final, LiteralString
from uuid import UUID

import pytest

from adapters.postgres.services.services import LIST, LIST_OF_TYPE, ServiceRows
from adapters.postgres.statements import Statements
from core.domain.identifiers import OrganizationId
from core.domain.services.services import ServiceType
from tests.adapters.postgres.conftest import Store

ACME: Final = OrganizationId(UUID("01900000-0000-7000-8000-00000000000a"))

# 500 services of one organization, of which a tenth are being deleted, and five of each of 300 others; two plans each.
_FILL: Final = """
    insert into organizations (id, slug, name, status, created_at, updated_at)
    select case n when 0 then '01900000-0000-7000-8000-00000000000a' else gen_random_uuid() end, 'o-' || n, 'O', 'active', now(), now()
      from generate_series(0, 300) as n;
    insert into all_services (id, org_id, slug, name, service_type, client_id, created_at, updated_at, deleted_at)
    select gen_random_uuid(), organizations.id, 's-' || n, 'S', case n %% 2 when 0 then 'web' else 'api' end, gen_random_uuid(),
           now() + n * interval '1 second', now(), case n %% 10 when 9 then now() end
      from organizations
      join lateral generate_series(1, case organizations.slug when 'o-0' then 500 else 5 end) as n on true;
    insert into plans (id, service_id, name, price_cents, currency, active_count, created_at, updated_at)
    select gen_random_uuid(), id, 'P', 0, 'usd', 7, now(), now() from all_services cross join generate_series(1, 2)
"""


@pytest.fixture
async def grown(fresh_store: Store) -> Store:
    for statement in _FILL.split(";"):
        await fresh_store.query(statement, {})
    for table in ("all_organizations", "all_services", "plans"):
        await fresh_store.query(f"vacuum analyze {table}")
    return fresh_store


def steps(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield plan
    for inner in plan.get("Plans", ()):
        yield from steps(inner)


async def explained(store: Store, statement: LiteralString, limit: int, offset: int) -> list[dict[str, Any]]:
    values = {"organization": ACME, "type": "web", "limit": limit, "offset": offset}
    (row,) = await store.query(f"explain (analyze, format json) {statement}", values)
    return list(steps(row["QUERY PLAN"][0]["Plan"]))


# One filled database for all: filling takes longer than asking.
async def test_a_list_reads_no_table_from_end_to_end_and_the_plans_of_its_page_alone(grown: Store) -> None:
    for statement in (LIST, LIST_OF_TYPE):
        for offset in (0, 180):
            plan = await explained(grown, statement, 20, offset)
            whole = {step["Relation Name"] for step in plan if step["Node Type"] == "Seq Scan"} - {"tiers"}
            assert whole == set(), (statement, offset)
            assert sum(step["Actual Rows"] * step["Actual Loops"] for step in plan if step.get("Relation Name") == "plans") <= 40
    lookup = ServiceRows(Statements(grown.pool))
    listed = await lookup.list(ACME)
    assert listed is not None
    assert (len(listed.services), listed.usage.current) == (450, 450)
    assert {(one.plan_count, one.subscription_count) for one in listed.services} == {(2, 14)}
    assert [one.service.slug for one in listed.services[:3]] == ["s-1", "s-2", "s-3"]
    page = await lookup.list(ACME, service_type=ServiceType.API, limit=2, offset=3)
    assert page is not None
    assert ([one.service.slug for one in page.services], page.usage.current) == (["s-7", "s-11"], 450)


async def test_an_organization_that_is_being_deleted_has_no_list(store: Store) -> None:
    assert await ServiceRows(Statements(store.pool)).list(ACME) is None
