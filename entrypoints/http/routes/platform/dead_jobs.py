"""Background work that was given up, for platform owners."""

from collections.abc import Sequence
from datetime import datetime
from typing import Annotated
from uuid import UUID

import msgspec

from core.domain.identifiers import JobId
from entrypoints.bootstrap import Postern
from entrypoints.http.machinery.callers import PLATFORM_OWNER
from entrypoints.http.machinery.calls import Call
from entrypoints.http.machinery.endpoints import endpoint
from entrypoints.http.machinery.fields import CreatedAt, Id, example

_TAGS = ("installation",)
_JOBS = "/api/platform/jobs"
_Kind = Annotated[str, example("mail")]


class DeadJobPath(msgspec.Struct, frozen=True):
    job_id: UUID
    """The job's id."""


class DeadJobRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A job that was given up. What it was about stays closed: it may hold a link or a token."""

    id: Id
    kind: _Kind
    """The kind of work."""
    attempts: Annotated[int, example(7)]
    """How often it was tried."""
    last_error: Annotated[str, example("The mail server answered 550")] | None
    """What went wrong the last time; null if nothing was told."""
    created_at: CreatedAt
    died_at: datetime
    """When it was given up."""


class DeadJobList(msgspec.Struct, frozen=True):
    """Background jobs that were given up."""

    jobs: Sequence[DeadJobRecord]
    """The last fifty, the newest first."""


class RetriedJob(msgspec.Struct, frozen=True):
    """A job that waits again."""

    id: Id
    kind: _Kind
    """The kind of work."""


@endpoint.get(_JOBS, caller=PLATFORM_OWNER, tags=_TAGS)
async def list_dead_jobs(_call: Call, postern: Postern) -> DeadJobList:
    """List the background jobs that were given up

    A job that fails is tried again by itself for hours or days, and is in this list only after that. It stays for thirty days.
    """
    return DeadJobList(
        [
            DeadJobRecord(
                id=job.id, kind=job.kind, attempts=job.attempts, last_error=job.last_error, created_at=job.created_at, died_at=job.died_at
            )
            for job in await postern.foundation.dead_jobs.list()
        ]
    )


@endpoint.post(f"{_JOBS}/{{job_id}}/retry", caller=PLATFORM_OWNER, tags=_TAGS)
async def retry_job(call: Call[None, None, DeadJobPath], postern: Postern) -> RetriedJob:
    """Try a background job again that was given up

    Do this once its cause is gone. The job waits again as if it were new; 404 if it already does.
    """
    job = JobId(call.path.job_id)
    return RetriedJob(job, await postern.foundation.dead_jobs.revive(job, call.actor))
