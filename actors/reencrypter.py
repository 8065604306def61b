"""The reencrypter: after a rotation of the key ring, seals anew what is stored under an older key."""

from collections.abc import Callable
from datetime import timedelta
from typing import Final

from actors.job_worker import JobDelayed, JobRefused, JobWorker, Pace, Task
from core.domain.jobs import Job, Retry
from core.usecases.encryption import REENCRYPTION_JOB, Reencryption, RingIsBehind
from ports.clock import Clock
from ports.jobs import Doorbell, JobQueue
from ports.metrics import Metrics

# A process whose ring is behind hands the job on: a short first pause lets one that read the new keys take it.
RETRY: Final = Retry(first=timedelta(seconds=5), longest=timedelta(minutes=5), give_up_after=timedelta(days=7))
# It walks over every sealed value there is.
TIMEOUT: Final = timedelta(hours=2)


def reencrypter(
    reencryption: Reencryption, *, queue: JobQueue, doorbell: Doorbell, clock: Clock, metrics: Metrics, spread: Callable[[], float]
) -> JobWorker:
    async def reencrypt(job: Job) -> None:
        key = job.payload.get("key")
        if not isinstance(key, str):
            raise JobRefused("The payload names no key")
        try:
            await reencryption.run(key)
        except RingIsBehind as behind:
            raise JobDelayed(str(behind)) from None

    task = Task(REENCRYPTION_JOB, reencrypt, RETRY, TIMEOUT)
    pace = Pace(concurrency=1)
    return JobWorker("reencrypter", [task], queue=queue, doorbell=doorbell, clock=clock, metrics=metrics, spread=spread, pace=pace)
