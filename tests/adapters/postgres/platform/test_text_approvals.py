"""The queue of own texts that wait for a platform owner, of many organizations."""

from collections.abc import Iterator, Mapping
from typing import Any

from adapters.postgres.platform import governance
from tests.adapters.postgres.conftest import Store

_ORGANIZATIONS = """
    insert into all_organizations (id, slug, name, status, texts_digest, approved_texts, created_at, updated_at)
    select gen_random_uuid(), 'acme-' || n, 'Acme', 'active', digest, case when n % 2 = 0 then digest end, now(), now()
      from generate_series(1, 200) as n, lpad(n::text, 64, '0') as digest
"""
_TEXTS = """
    insert into organization_texts (id, updated_at, org_id, key, language, text, based_on)
    select gen_random_uuid(), now() - split_part(slug, '-', 2)::int * interval '-1 minute', id, 'key_' || n, 'de', slug, ''
      from all_organizations, generate_series(3, 1, -1) as n
"""


def scans(plan: Mapping[str, Any]) -> Iterator[int]:
    if plan.get("Relation Name") == "organization_texts":
        yield plan["Actual Loops"]
    for part in plan.get("Plans", ()):
        yield from scans(part)


async def test_texts_are_read_of_those_that_are_listed(fresh_store: Store) -> None:
    await fresh_store.query(_ORGANIZATIONS)
    await fresh_store.query(_TEXTS)
    await fresh_store.query("analyze")
    listed = await fresh_store.query(governance._LIST, {"limit": 3, "most_texts": 100})
    assert [(row["slug"], [text["text"] for text in row["texts"]]) for row in listed] == [
        (slug, [slug] * 3) for slug in ("acme-1", "acme-3", "acme-5")
    ]
    assert [text["key"] for text in listed[0]["texts"]] == ["key_1", "key_2", "key_3"]
    (told,) = await fresh_store.query(f"explain (analyze, format json) {governance._LIST}", {"limit": 3, "most_texts": 100})
    assert max(scans(told["QUERY PLAN"][0]["Plan"])) <= 3


async def test_no_further_organization_is_listed_behind_so_many_texts(fresh_store: Store) -> None:
    await fresh_store.query(_ORGANIZATIONS)
    await fresh_store.query(_TEXTS)

    async def listed(most_texts: int) -> list[str]:
        return [row["slug"] for row in await fresh_store.query(governance._LIST, {"limit": 100, "most_texts": most_texts})]

    assert await listed(1) == ["acme-1"]
    assert await listed(3) == ["acme-1"]
    assert await listed(4) == ["acme-1", "acme-3"]
    # Those that have a yes stand behind those that wait.
    assert (await listed(301))[99:] == ["acme-199"]
    await fresh_store.query("delete from organization_texts where text = 'acme-1'")
    assert await listed(1) == ["acme-3"]
