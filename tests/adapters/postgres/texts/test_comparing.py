"""After a release, own texts are compared with ours: a batch reads those that it takes, however many there are."""

from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from adapters.postgres.tenancy import branding
from tests.adapters.postgres.conftest import Store

# Of five thousand texts in two languages, six German ones are still to be compared with `m`: three before it, three behind it.
_TEXTS = """
    insert into organization_texts (id, updated_at, key, language, text, based_on, compared_with)
    select gen_random_uuid(), now(), 'key' || n, case when n % 2 = 0 then 'de' else 'en' end, 'text', '',
           case n when 2 then 'a' when 4 then 'b' when 6 then 'c' when 8 then 'x' when 10 then 'y' when 12 then 'z' else 'm' end
      from generate_series(1, 5000) as n
"""


def rows_read(plan: Mapping[str, Any]) -> Iterator[int]:
    if plan.get("Relation Name") == "organization_texts":
        yield (plan["Actual Rows"] + plan.get("Rows Removed by Filter", 0)) * plan["Actual Loops"]
    for part in plan.get("Plans", ()):
        yield from rows_read(part)


@pytest.mark.parametrize(
    ("statement", "answer", "most"), [(branding._CLAIM, "key", 12), (branding._LANGUAGES, "language", 3)], ids=["claim", "languages"]
)
async def test_a_batch_reads_what_it_takes(fresh_store: Store, statement: str, answer: str, most: int) -> None:
    await fresh_store.query(_TEXTS)
    await fresh_store.query("analyze")
    parameters = {"language": "de", "version": "m", "limit": 500}
    found = sorted(row[answer] for row in await fresh_store.query(statement, parameters))
    assert found == (["de", "en"] if answer == "language" else ["key10", "key12", "key2", "key4", "key6", "key8"])
    (told,) = await fresh_store.query(f"explain (analyze, format json) {statement}", parameters)
    assert sum(rows_read(told["QUERY PLAN"][0]["Plan"])) <= most


async def test_a_batch_takes_no_more_than_it_may(fresh_store: Store) -> None:
    await fresh_store.query(_TEXTS)
    for most in (0, 1, 4):
        taken = await fresh_store.query(branding._CLAIM, {"language": "de", "version": "m", "limit": most})
        assert len(taken) == most
