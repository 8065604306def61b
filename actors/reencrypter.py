"""The reencrypter: after a rotation of the key ring, encrypts values again that are stored under an older key."""

from datetime import timedelta
from typing import Final

from actors.job_worker import JobDelayed, JobPace, JobRefused, JobWorker, Task, Workplace
from core.domain.jobs import Job, Retry
from core.usecases.keys import REENCRYPTION_JOB, Reencryption, RingIsBehind

# A process whose ring is behind hands the job on. A short first pause lets a process that has read the new keys take it.
RETRY: Final = Retry(first=timedelta(seconds=5), longest=timedelta(minutes=5), give_up_after=timedelta(days=7))
# The job goes through every encrypted value.
TIMEOUT: Final = timedelta(hours=2)


def reencrypter(reencryption: Reencryption, workplace: Workplace) -> JobWorker:
    async def reencrypt(job: Job) -> None:
        key = job.payload.get("key")
        if not isinstance(key, str):
            raise JobRefused("The payload names no key")
        try:
            await reencryption.run(key)
        except RingIsBehind as behind:
            raise JobDelayed(str(behind)) from None

    task = Task(REENCRYPTION_JOB, reencrypt, RETRY, TIMEOUT)
    pace = JobPace(concurrency=1)
    return JobWorker("reencrypter", [task], workplace, pace=pace)
