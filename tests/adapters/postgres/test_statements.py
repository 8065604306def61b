"""Single statements whose rows are many."""

from dataclasses import dataclass

import pytest
import trio

from adapters.postgres.statements import PART, ask_for_many
from tests.adapters.postgres.conftest import Store


@dataclass(frozen=True, slots=True)
class _Number:
    n: int


@pytest.mark.parametrize("rows", [0, 1, PART - 1, PART, PART + 1, 5 * PART])
async def test_others_have_their_turns_while_many_rows_are_read(store: Store, rows: int) -> None:
    turns = 0

    async def others() -> None:
        nonlocal turns
        while True:
            await trio.lowlevel.checkpoint()
            turns += 1

    async with trio.open_nursery() as nursery:
        nursery.start_soon(others)
        statement = "select n::integer from generate_series(1, %(rows)s) as n order by n"
        read = await ask_for_many(store.pool, _Number, statement, {"rows": rows}, lambda row: (row.n, turns))
        nursery.cancel_scope.cancel()
    assert [number for number, _ in read] == list(range(1, rows + 1))
    of_each_part = [{turn for _, turn in read[start : start + PART]} for start in range(0, rows, PART)]
    assert all(len(of_part) == 1 for of_part in of_each_part)
    # In a round of the event loop each task has one turn, in any order: two parts may follow upon each other, three do not.
    assert 2 * len(set[int]().union(*of_each_part)) >= len(of_each_part)
