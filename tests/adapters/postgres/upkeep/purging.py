"""How the tests purge what a deleted organization or service left behind."""

from collections.abc import Mapping
from typing import Final
from uuid import UUID

import trio

from ports.database import DeletedRows
from tests.adapters.postgres.conftest import Store
from tests.patience import PATIENCE

# A batch that comes to its end in the middle of everything.
BATCH: Final = 7


async def purge(remains: DeletedRows, owner: UUID) -> Mapping[str, list[int]]:
    """How many rows went with each batch of each part."""
    batches: dict[str, list[int]] = {}
    for part in remains.parts:
        batches[part] = []
        swept = await remains.sweep(part, owner, None, BATCH)
        while swept.last is not None:
            batches[part].append(swept.rows)
            swept = await remains.sweep(part, owner, swept.last, BATCH)
        assert swept.rows == 0
    return batches


async def purge_twice(remains: DeletedRows, owner: UUID) -> None:
    """Of which the first takes up what another began."""
    for part in remains.parts[:3]:
        await remains.sweep(part, owner, None, BATCH)
    await purge(remains, owner)
    assert {part: rows for part, rows in (await purge(remains, owner)).items() if rows and sum(rows)} == {}
    assert await remains.finish(owner)
    assert not await remains.finish(owner)


async def purge_by_five(remains: DeletedRows, owner: UUID) -> None:
    finished: list[bool] = []

    async def work() -> None:
        await purge(remains, owner)
        finished.append(await remains.finish(owner))

    with trio.fail_after(PATIENCE):
        async with trio.open_nursery() as nursery:
            for _ in range(5):
                nursery.start_soon(work)
    assert sorted(finished) == [False] * 4 + [True]


async def purge_beside_a_holder(store: Store, remains: DeletedRows, owner: UUID, session: UUID) -> None:
    """Somebody holds this session's row for a while."""
    done = trio.Event()

    async def work() -> None:
        await purge(remains, owner)
        done.set()

    async with trio.open_nursery() as nursery:
        async with store.pool.connection() as connection, connection.transaction():
            await connection.execute("update sessions set last_seen_at = now() where id = %s", (session,))
            nursery.start_soon(work)
            with trio.fail_after(PATIENCE):
                while not await store.waiting():
                    await trio.sleep(0.01)
            assert not done.is_set()
        with trio.fail_after(PATIENCE):
            await done.wait()
