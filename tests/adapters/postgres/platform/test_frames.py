"""What frames count, of many organizations."""

from collections.abc import Iterator, Mapping
from typing import Any

from adapters.postgres.platform import todos
from tests.adapters.postgres.conftest import Store

# Of a thousand organizations with own texts, three wait.
_ORGANIZATIONS = """
    insert into all_organizations (id, slug, name, status, texts_digest, approved_texts, created_at, updated_at)
    select gen_random_uuid(), 'acme-' || n, 'Acme', 'active', digest, case when n > 3 then digest end, now(), now()
      from generate_series(1, 1000) as n, lpad(n::text, 64, '0') as digest
"""


def rows_read(plan: Mapping[str, Any]) -> Iterator[int]:
    if plan.get("Relation Name") == "all_organizations":
        yield (plan["Actual Rows"] + plan.get("Rows Removed by Filter", 0)) * plan["Actual Loops"]
    for part in plan.get("Plans", ()):
        yield from rows_read(part)


async def test_a_page_of_the_installation_reads_those_organizations_alone_that_wait(fresh_store: Store) -> None:
    await fresh_store.query(_ORGANIZATIONS)
    await fresh_store.query("analyze")
    parameters = {"user": None, "most_places": 5, "most": 100}
    (found,) = await fresh_store.query(todos._IN_INSTALLATION, parameters)
    assert found["todos"] == {"organizations": 0, "approvals": 0, "texts": 3, "jobs": 0}
    (told,) = await fresh_store.query(f"explain (analyze, format json) {todos._IN_INSTALLATION}", parameters)
    assert sum(rows_read(told["QUERY PLAN"][0]["Plan"])) == 3
