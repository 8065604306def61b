"""Forgets people, as the job does."""

import trio

from adapters.postgres.upkeep.purging import PostgresForgottenPeople
from core.domain.identity.privacy import forget_job
from core.usecases.jobs import Purge
from entrypoints.bootstrap import Postern
from tests.http.people import People


async def finish_forgetting(postern: Postern, people: People) -> int:
    """Forgets people without the wait for requests that are under way. Returns how many people were forgotten."""
    foundation = postern.foundation
    remains = PostgresForgottenPeople(foundation.pool, foundation.keyring)
    waiting = people.rows("select id from privacy_requests where completed_at is null")
    for row in waiting:
        assert await Purge(foundation.unit_of_work, remains, forget_job).run(row["id"], trio.lowlevel.checkpoint)
    return len(waiting)
