"""In a module with `ON_A_JUMPING_CLOCK = True`, hours pass in an instant, so its tests may not use the network, files or a database."""

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from inspect import iscoroutinefunction

import pytest
import trio
from trio.abc import Clock, Instrument
from trio.testing import MockClock

from adapters.postgres.driver.pool import Pool
from tests.adapters.postgres.conftest import Store, make_store


def _run_on_a_jumping_clock(test: Callable[[], Awaitable[None]], *, clock: Clock | None, instruments: Sequence[Instrument]) -> None:
    trio.run(test, clock=clock or MockClock(autojump_threshold=0), instruments=instruments)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if isinstance(item, pytest.Function) and iscoroutinefunction(item.obj) and getattr(item.module, "ON_A_JUMPING_CLOCK", False):
            # This hook runs first; otherwise the runner that trio_mode names for every test wins.
            item.add_marker(pytest.mark.trio(run=_run_on_a_jumping_clock), append=False)


@pytest.fixture
async def store(database_url: str) -> AsyncIterator[Store]:
    """The real store, on a database of the test's own."""
    pool = Pool(database_url, max_size=10)
    await pool.open()
    yield make_store(database_url, pool)
    await pool.aclose()
