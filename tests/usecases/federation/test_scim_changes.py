"""Changes of directories: one change of an organization runs at a time, and waiting changes hold no unit of work."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import cast
from uuid import UUID

import trio
from trio.testing import wait_all_tasks_blocked

from adapters.limits import FairTurns
from core.domain.federation.scim.tokens import ScimHolder
from core.domain.identifiers import OrganizationId, ScimTokenId
from core.usecases.federation.scim.enrolment import Changes
from ports.unit_of_work import UnitOfWork

ACME, GLOBEX = (
    ScimHolder(ScimTokenId(UUID(int=number)), "Directory", "scim_live_abcdefgh", OrganizationId(UUID(int=number)), name)
    for number, name in ((1, "acme"), (2, "globex"))
)


async def test_those_that_wait_hold_nothing_and_another_organization_does_not_wait() -> None:
    opened = 0

    @asynccontextmanager
    async def unit_of_work() -> AsyncIterator[UnitOfWork]:
        nonlocal opened
        opened += 1
        yield cast("UnitOfWork", None)

    changes, finish = Changes(unit_of_work, FairTurns(2, most_waiting=10)), trio.Event()

    async def change(holder: ScimHolder) -> None:
        async with changes.one(holder):
            await finish.wait()

    async with trio.open_nursery() as nursery:
        for _ in range(5):
            nursery.start_soon(change, ACME)
        await wait_all_tasks_blocked()
        assert opened == 1
        nursery.start_soon(change, GLOBEX)
        await wait_all_tasks_blocked()
        assert opened == 2
        finish.set()
    assert opened == 6
