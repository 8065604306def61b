"""What the process asks the database while nothing happens: counted over twenty minutes of its own clock, in seconds of ours."""

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest
import trio
from psycopg import AsyncCursor
from trio.testing import MockClock, wait_all_tasks_blocked

from adapters.postgres.driver.execution import Execution
from entrypoints.bootstrap import Postern
from entrypoints.daemon import alive
from entrypoints.signals import Stopping
from tests.http.conftest import postern_on, with_keys

# The clock jumps no further at once, and only while no statement is under way: so no deadline passes because the machine is busy.
STEP: Final = 1.0
WARM: Final = 120
SPAN: Final = 1200
MOST: Final = 900


class Asked:
    """The statements of this process by their text."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.statements: Counter[str] = Counter()
        run, queue, execute = Execution.run, Execution.queue, AsyncCursor.execute

        def counted_run(execution: Execution[Any]) -> Any:
            self.statements[execution._statement] += 1
            return run(execution)

        def counted_queue(execution: Execution[Any], pipeline: Any) -> None:
            self.statements[execution._statement] += 1
            queue(execution, pipeline)

        async def counted_execute(cursor: Any, statement: Any, *arguments: Any, **more: Any) -> Any:
            self.statements[str(statement)] += 1
            return await execute(cursor, statement, *arguments, **more)

        monkeypatch.setattr(Execution, "run", counted_run)
        monkeypatch.setattr(Execution, "queue", counted_queue)
        monkeypatch.setattr(AsyncCursor, "execute", counted_execute)

    def __str__(self) -> str:
        return "\n".join(f"{number:6} {' '.join(text.split())[:150]}" for text, number in self.statements.most_common())


async def passing(clock: MockClock, postern: Postern, seconds: float) -> None:
    pool, end = postern.foundation.pool, trio.current_time() + seconds
    while trio.current_time() < end:
        await wait_all_tasks_blocked(0.002)
        state = pool.statistics()
        if state.idle == state.connections and not state.waiting:
            clock.jump(STEP)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Asked:
    return Asked(monkeypatch)


def on_a_pushed_clock(body: Callable[[MockClock], Any]) -> None:
    clock = MockClock()
    trio.run(body, clock, clock=clock)


def test_an_idle_process_asks_three_times_in_four_seconds_at_most(database_url: str, tmp_path: Path, asked: Asked) -> None:
    async def body(clock: MockClock) -> None:
        async with postern_on(database_url, tmp_path) as postern:
            await with_keys(postern)
            async with alive(postern, postern.settings, Stopping()):
                await passing(clock, postern, WARM)
                asked.statements.clear()
                await passing(clock, postern, SPAN)
                assert 0 < asked.statements.total() <= MOST, f"{asked.statements.total()} statements\n{asked}"

    on_a_pushed_clock(body)
