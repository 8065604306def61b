"""The benchmark of people who arrive in another system, with few of them: everybody arrives once, and the second run writes nothing."""

from ops.bench.cases.telling.provisioning import sent


async def test_a_few_people_arrive_once() -> None:
    figures = {figure.what: figure.value for figure in await sent(60, 4, looked_for=0.3)}
    assert figures["people who arrived"] == 60
    assert figures["people who arrived twice, or without anybody here"] == 0
    assert figures["writes of the run without differences"] == 0
    assert figures["first run"] > 0
