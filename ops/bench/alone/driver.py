"""The CPU cost of one single-row select in this process: through our Trio driver and pool, psycopg on asyncio, and a thread per query.

`python -m ops.bench.alone.driver` starts its own PostgreSQL. One run measures all three in interleaved rounds, because a machine's speed
varies.
"""

import argparse
import asyncio
import gc
import statistics
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import psycopg
import trio

from adapters.postgres.driver.pool import Pool
from adapters.postgres.embedded import EmbeddedPostgres

CONNECTIONS: Final = 8
ROUNDS: Final = 5
WARM_UP: Final = 10  # After this many, every connection has prepared the statement.
HIGHEST_RATIO: Final = 0.5  # The highest ratio of the native driver to a thread per query.
STATEMENT: Final = "select %(number)s::int as number, 'anne@example.org' as email, now() as seen"
PARAMETERS: Final = {"number": 4711}


@dataclass(frozen=True, slots=True)
class Figures:
    """Microseconds of CPU a query, in this process and all its threads; medians of the rounds."""

    queries: int
    native: float
    asyncio: float
    thread: float

    @property
    def ratio(self) -> float:
        return self.native / self.thread


def measure(url: str, queries: int = 8_000, rounds: int = ROUNDS) -> Figures:
    """Measures on the server at `url`, with `queries` for each way and round. It runs event loops, so call it outside of one."""
    each = max(1, queries // CONNECTIONS)
    ways: tuple[Callable[[str, int], float], ...] = (_native, _asyncio, _thread)
    taken: list[list[float]] = [[], [], []]
    for _ in range(rounds):
        for way, results in zip(ways, taken, strict=True):
            gc.collect()
            results.append(way(url, each) / (each * CONNECTIONS) * 1e6)
    native, on_asyncio, thread = (statistics.median(results) for results in taken)
    return Figures(each * CONNECTIONS, native, on_asyncio, thread)


def _native(url: str, each: int) -> float:
    async def main() -> float:
        pool = Pool(url, min_size=CONNECTIONS, max_size=CONNECTIONS)
        await pool.open()

        async def work(count: int) -> None:
            for _ in range(count):
                async with pool.connection() as connection:
                    await (await connection.execute(STATEMENT, PARAMETERS)).fetchone()

        async def all_work(count: int) -> None:
            async with trio.open_nursery() as nursery:
                for _ in range(CONNECTIONS):
                    nursery.start_soon(work, count)

        await all_work(WARM_UP)
        began = time.process_time()
        await all_work(each)
        taken = time.process_time() - began
        await pool.aclose()
        return taken

    return trio.run(main)


def _asyncio(url: str, each: int) -> float:
    async def work(connection: psycopg.AsyncConnection[Any], count: int) -> None:
        for _ in range(count):
            await (await connection.execute(STATEMENT, PARAMETERS)).fetchone()

    async def main() -> float:
        connections = [await psycopg.AsyncConnection.connect(url, autocommit=True) for _ in range(CONNECTIONS)]
        await asyncio.gather(*(work(connection, WARM_UP) for connection in connections))
        began = time.process_time()
        await asyncio.gather(*(work(connection, each) for connection in connections))
        taken = time.process_time() - began
        for connection in connections:
            await connection.close()
        return taken

    return asyncio.run(main())


def _thread(url: str, each: int) -> float:
    def query(connection: psycopg.Connection[Any]) -> object:
        return connection.execute(STATEMENT, PARAMETERS).fetchone()

    async def work(connection: psycopg.Connection[Any], count: int) -> None:
        for _ in range(count):
            await trio.to_thread.run_sync(query, connection)

    async def all_work(connections: list[psycopg.Connection[Any]], count: int) -> None:
        async with trio.open_nursery() as nursery:
            for connection in connections:
                nursery.start_soon(work, connection, count)

    async def main() -> float:
        connections = [psycopg.connect(url, autocommit=True) for _ in range(CONNECTIONS)]
        await all_work(connections, WARM_UP)
        began = time.process_time()
        await all_work(connections, each)
        taken = time.process_time() - began
        for connection in connections:
            connection.close()
        return taken

    return trio.run(main)


def table(figures: Figures) -> str:
    lines = [
        f"CPU of one single-row select, {CONNECTIONS} connections, {figures.queries} queries a round",
        f"  Trio driver and pool   {figures.native:6.1f} µs",
        f"  psycopg on asyncio     {figures.asyncio:6.1f} µs  (no pool)",
        f"  a thread per query     {figures.thread:6.1f} µs  (no pool)",
        f"  driver / thread        {figures.ratio:6.2f}     (at most {HIGHEST_RATIO})",
    ]
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m ops.bench.alone.driver", description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--queries", type=int, default=8_000, help="queries each way and round (default %(default)s)")
    queries: int = parser.parse_args().queries
    with tempfile.TemporaryDirectory(prefix="postern-bench-") as directory, EmbeddedPostgres(Path(directory)) as server:
        figures = measure(server.url("postgres"), queries)
    print(table(figures))
    return 0 if figures.ratio <= HIGHEST_RATIO else 1


if __name__ == "__main__":
    raise SystemExit(main())
