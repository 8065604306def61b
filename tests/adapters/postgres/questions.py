"""What the tests of the driver, the pool and the listener ask a connection, the server and this process."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from adapters.postgres.driver import Connection


async def one(connection: Connection, statement: str, parameters: Sequence[Any] = ()) -> Any:
    """The first value of the first row."""
    row = await (await connection.execute(statement, parameters)).fetchone()
    assert row is not None
    return row[0]


def open_descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))
