"""Queries to a connection, the server and this process, for tests of the driver, the pool and the listener."""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from adapters.postgres.driver.connection import Connection


async def one(connection: Connection, statement: str, parameters: Sequence[Any] = ()) -> Any:
    """The first value of the first row."""
    row = await (await connection.execute(statement, parameters)).fetchone()
    assert row is not None
    return row[0]


async def generic_plan(url: str, statement: str) -> list[dict[str, Any]]:
    """The steps of the plan that is made once for all parameters: what the server may come to use for a prepared statement."""
    names: dict[str, int] = {}
    numbered = re.sub(r"%\((\w+)\)s", lambda found: f"${names.setdefault(found[1], len(names) + 1)}", statement)
    # PostgreSQL 16 has EXPLAIN (GENERIC_PLAN) for it; this is for those before, too.
    async with await Connection.connect(url) as connection:
        await connection.execute(b"set plan_cache_mode = force_generic_plan")
        await connection.execute(f"prepare question as {numbered}".encode())
        parameters = f"({', '.join(['null'] * len(names))})" if names else ""
        found = await one(connection, f"explain (format json) execute question{parameters}")
    return list(steps(found[0]["Plan"]))


def steps(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield plan
    for inner in plan.get("Plans", ()):
        yield from steps(inner)


def open_descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))
