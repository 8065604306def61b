"""Single statements whose rows are many; and what the texts of all statements must not say."""

import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final

import pytest
import trio

from adapters.postgres.driver.connection import TripCounter, round_trips
from adapters.postgres.identity.factors.mfa import DeviceRows
from adapters.postgres.statements import PART, NeedsUnitOfWork, Statements, ask_for_many
from core.domain.identifiers import DeviceId
from tests.adapters.postgres.conftest import Store
from tests.adapters.postgres.oldest.house_texts import house_texts
from tests.adapters.postgres.test_transaction import transaction


@dataclass(frozen=True, slots=True)
class _Number:
    n: int


async def test_a_store_asks_alike_inside_and_outside_a_unit_of_work(store: Store) -> None:
    alone = Statements(store.pool)
    async with transaction(store) as opened:
        for asked in (alone, opened):
            numbers = "select n::integer from generate_series(1, %(rows)s) as n order by n"
            assert await asked.ask(_Number, numbers, {"rows": 2}) == [_Number(1), _Number(2)]
            assert await asked.ask_in_order(_Number, "select 1 as another_name") == [_Number(1)]
            many = await asked.ask_for_many(_Number, numbers, {"rows": PART + 1}, lambda row: row.n)
            assert many == list(range(1, PART + 2))


async def test_each_question_outside_a_unit_of_work_is_one_round_trip(store: Store) -> None:
    asked = Statements(store.pool)
    await asked.ask(_Number, "select 1 as n")
    round_trips.set(trips := TripCounter())
    await asked.ask(_Number, "select 1 as n")
    assert trips.count == 1
    await asked.ask_in_order(_Number, "select 1 as n")
    assert trips.count == 2


async def test_what_belongs_to_a_larger_change_needs_a_unit_of_work(store: Store) -> None:
    alone = Statements(store.pool)
    refusals: tuple[Callable[[], Awaitable[None]], ...] = (
        lambda: alone.tell("delete from users"),
        lambda: alone.tell_along("delete from users", {}),
        lambda: alone.take_advisory_lock(1),
        lambda: DeviceRows(alone).revoke(DeviceId(store.ids.new()), store.clock.now()),
    )
    for refused in refusals:
        with pytest.raises(NeedsUnitOfWork):
            await refused()
    with pytest.raises(NeedsUnitOfWork):
        alone.ring("topic")


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


def test_no_condition_compares_a_column_with_itself() -> None:
    """As one does that was written for the statement around it, and came to stand where a table of the same name hides what it means."""
    found = [f"{where}: {one[0]}" for where, text in house_texts() for one in _ITSELF.finditer(text)]
    assert found == []
    assert _ITSELF.search("where organizations.id = organizations.id")
    assert not _ITSELF.search("where organizations.id = organizations.identity or users.organizations.id = organizations.id")


# Both sides whole.
_ITSELF: Final = re.compile(r"(?<![\w.])(\w+\.\w+)\s*(?:=|<>|<|>|<=|>=|is (?:not )?distinct from)\s*\1(?![\w.])")
