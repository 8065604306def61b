"""What the janitor sweeps. Each statement deletes one small batch, and passes over rows that somebody holds at the moment."""

from typing import ClassVar, LiteralString

from adapters.postgres.pool import Pool
from adapters.postgres.rate_limits import FORGET_FULL
from adapters.postgres.statements import tell


class _Sweep:
    """Implements `ports.database.Housekeeping`."""

    statement: ClassVar[LiteralString]

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    async def delete_expired(self, limit: int) -> int:
        return await tell(self._pool, self.statement, {"limit": limit})


class ExpiredSessions(_Sweep):
    """Kept for thirty days, so that a person can still be shown where they were signed in."""

    statement = """
        delete from sessions
         where id = any (array(
                   select id from sessions where expires_at < now() - interval '30 days' limit %(limit)s for update skip locked
               ))
    """


class RevokedSessions(_Sweep):
    """Likewise, from the revocation on."""

    statement = """
        delete from sessions
         where id = any (array(
                   select id from sessions where revoked_at < now() - interval '30 days' limit %(limit)s for update skip locked
               ))
    """


class FullBuckets(_Sweep):
    """A full bucket says nothing that its absence does not."""

    statement = FORGET_FULL


class RetiredSigningKeys(_Sweep):
    """The last token that they signed has expired."""

    statement = """
        delete from signing_keys
         where id = any (array(
                   select id from signing_keys where state = 'outgoing' and retires_at < now() limit %(limit)s for update skip locked
               ))
    """


class DeadJobs(_Sweep):
    """Thirty days are an operator's time to see and revive them."""

    statement = """
        delete from jobs
         where id = any (array(
                   select id from jobs where state = 'dead' and died_at < now() - interval '30 days' limit %(limit)s for update skip locked
               ))
    """
