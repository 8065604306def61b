"""A process whose worker prints the id of the job that it has begun, never finishes the job, and waits for the test to kill it."""

import sys
from datetime import timedelta

import trio

from actors.job_worker import JobPace, JobWorker, Task, Workplace
from adapters.postgres.driver.pool import Pool
from adapters.postgres.jobs import PostgresJobQueue
from core.domain.jobs import Job, Retry
from tests.actors.observed import RememberedMetrics, no_spread
from tests.adapters.postgres.conftest import make_store


async def _begin(job: Job) -> None:
    sys.stdout.write(f"{job.id}\n")
    sys.stdout.flush()
    await trio.sleep_forever()


async def _work(url: str) -> None:
    pool = Pool(url)
    await pool.open()
    store = make_store(url, pool)
    await JobWorker(
        "worker",
        [Task("work", _begin, Retry(timedelta(seconds=1), timedelta(seconds=1)))],
        Workplace(PostgresJobQueue(pool, store.keyring), store.doorbell, store.clock, RememberedMetrics(), no_spread),
        pace=JobPace(lease=timedelta(seconds=1)),
    ).run()


if __name__ == "__main__":
    trio.run(_work, sys.argv[1])
