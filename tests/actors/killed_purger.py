"""A process that purges an organization up to its memberships, prints that, and then waits for the test to kill it."""

import sys
from datetime import timedelta
from uuid import UUID

import trio

from actors.job_worker import JobPace, Workplace
from actors.upkeep import Purger
from adapters.postgres.driver.pool import Pool
from adapters.postgres.jobs import PostgresJobQueue
from adapters.postgres.upkeep.purging import PostgresDeletedOrganizations
from core.domain.tenancy.organizations import PURGE_JOB, purge_job
from core.usecases.jobs import Purge
from ports.database import Swept
from tests.actors.observed import RememberedMetrics, no_spread
from tests.adapters.postgres.conftest import make_store


class _HaltingRemains(PostgresDeletedOrganizations):
    async def sweep(self, part: str, owner: UUID, after: UUID | None, limit: int) -> Swept:
        swept = await super().sweep(part, owner, after, limit)
        if part == "memberships":
            sys.stdout.write(f"{swept.rows}\n")
            sys.stdout.flush()
            await trio.sleep_forever()
        return swept


async def _work(url: str) -> None:
    pool = Pool(url)
    await pool.open()
    store = make_store(url, pool)
    await Purger(
        PURGE_JOB,
        Purge(store.unit_of_work, _HaltingRemains(pool), purge_job),
        Workplace(PostgresJobQueue(pool, store.keyring), store.doorbell, store.clock, RememberedMetrics(), no_spread),
        delay=timedelta(0),
        pace=JobPace(concurrency=1, lease=timedelta(seconds=1)),
    ).run()


if __name__ == "__main__":
    trio.run(_work, sys.argv[1])
