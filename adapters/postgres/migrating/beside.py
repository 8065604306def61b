"""Work that goes on beside statements: somebody who looks on, and tells."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import psycopg
import trio


@asynccontextmanager
async def beside(work: Callable[[], Awaitable[object]]) -> AsyncIterator[None]:
    """Does the work until the body is done."""
    failure: psycopg.Error | None = None
    async with trio.open_nursery() as nursery:
        nursery.start_soon(work)
        try:
            yield
        except psycopg.Error as error:
            # Raised below, since the nursery would wrap it into a group.
            failure = error
        nursery.cancel_scope.cancel()
    if failure is not None:
        raise failure
