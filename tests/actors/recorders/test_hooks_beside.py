"""Questions that no sign-in waits for: a bounded number at once, and what fails ends nothing else."""

from typing import Final
from uuid import UUID

import trio
import trio.testing

from actors.hooks_beside import MOST_OF_ORGANIZATION, MOST_OF_PROCESS, HookBesideAsker
from core.domain.errors import Unavailable
from core.domain.identifiers import OrganizationId
from tests.actors.observed import RememberedMetrics
from tests.conftest import CapturedLog

ACME: Final = OrganizationId(UUID(int=1))


async def test_what_finds_no_place_is_not_asked() -> None:
    asker, asked, said = HookBesideAsker(RememberedMetrics()), list[OrganizationId](), trio.Event()

    def post(organization: OrganizationId) -> None:
        async def ask() -> None:
            asked.append(organization)
            await said.wait()

        asker.post(organization, ask)

    async with trio.open_nursery() as nursery:
        await nursery.start(asker.run)
        for _ in range(MOST_OF_ORGANIZATION * 2):
            post(ACME)
        await trio.testing.wait_all_tasks_blocked()
        assert asked == [ACME] * MOST_OF_ORGANIZATION
        for number in range(MOST_OF_PROCESS):
            post(OrganizationId(UUID(int=2 + number)))
        await trio.testing.wait_all_tasks_blocked()
        assert len(asked) == MOST_OF_PROCESS
        said.set()
        await trio.testing.wait_all_tasks_blocked()
        post(ACME)
        await trio.testing.wait_all_tasks_blocked()
        assert len(asked) == MOST_OF_PROCESS + 1
        nursery.cancel_scope.cancel()


async def test_a_failure_ends_nothing_else(log: CapturedLog) -> None:
    log.allow("work_broken")
    metrics, asked = RememberedMetrics(), list[str]()
    asker = HookBesideAsker(metrics)

    async def broken() -> None:
        raise RuntimeError

    async def away() -> None:
        raise Unavailable(retry_after=1)

    async def good() -> None:
        asked.append("good")

    async with trio.open_nursery() as nursery:
        await nursery.start(asker.run)
        for one in (broken, away, good):
            asker.post(ACME, one)
        await trio.testing.wait_all_tasks_blocked()
        nursery.cancel_scope.cancel()
    assert asked == ["good"]
