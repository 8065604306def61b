"""Taking away what deleted organizations leave behind: batch after batch, each a transaction of its own, resumed after a crash."""

from collections.abc import Awaitable, Callable, Sequence
from datetime import timedelta
from typing import Final

import structlog

from core.domain.identifiers import OrganizationId
from core.domain.organizations import purge_job
from ports.organizations import OrganizationRemains
from ports.unit_of_work import UnitOfWorkFactory

log = structlog.get_logger()

# Small enough that nobody waits for a lock of it, or for the log of its changes to be written.
BATCH: Final = 500
# A job that is there has been taken up by then.
PATIENCE: Final = timedelta(minutes=15)
_MOST_STRANDED: Final = 100


class OrganizationPurge:
    def __init__(self, unit_of_work: UnitOfWorkFactory, remains: OrganizationRemains) -> None:
        self._unit_of_work = unit_of_work
        self._remains = remains

    async def run(self, organization: OrganizationId, breathe: Callable[[], Awaitable[None]]) -> bool:
        """`breathe` is awaited after each batch: whoever drives it sets the pace. May be repeated, cut off anywhere, and done by several at
        once. False when there was nothing to finish: it is gone already, or it lives, and then nothing happens to it.
        """
        total = 0
        for part in self._remains.parts:
            swept = await self._remains.sweep(part, organization, None, BATCH)
            while swept.last is not None:
                total += swept.rows
                await breathe()
                swept = await self._remains.sweep(part, organization, swept.last, BATCH)
        finished = await self._remains.finish(organization)
        if finished:
            log.info("organization_purged", organization=str(organization), rows=total)
        return finished

    async def take_up_stranded(self) -> Sequence[OrganizationId]:
        """Queue what no job is left for: an operator took it out of the queue, or restored a table from before."""
        stranded = await self._remains.stranded(PATIENCE, _MOST_STRANDED)
        if stranded:
            async with self._unit_of_work() as unit:
                for organization in stranded:
                    await unit.jobs.add(purge_job(organization))
                await unit.commit()
            log.warning("organizations_were_stranded", organizations=len(stranded))
        return stranded
