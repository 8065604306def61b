"""What the janitor sweeps. Each statement deletes one small batch, and skips rows that somebody holds at the moment."""

from datetime import timedelta
from typing import ClassVar, LiteralString

from adapters.postgres.driver.pool import Pool
from adapters.postgres.rate_limits import FORGET_FULL
from adapters.postgres.statements import tell
from ports.database import Housekeeping


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


class RevokedDevices(_Sweep):
    """Kept for thirty days: until then a second revocation is answered like the first."""

    statement = """
        delete from devices
         where id = any (array(
                   select id from devices where revoked_at < now() - interval '30 days' limit %(limit)s for update skip locked
               ))
    """


class UnusedDevices(_Sweep):
    """Nobody has signed in with it for a year: its last session ended long ago, and its client has forgotten it or is gone."""

    statement = """
        delete from devices
         where id = any (array(
                   select id from devices where last_used_at < now() - interval '1 year' limit %(limit)s for update skip locked
               ))
    """


class RotatedRefreshTokens(_Sweep):
    """A session's earlier tokens, once their return would show nothing: by then they are as unknown as any other token. The current one
    goes with its session.
    """

    statement = """
        delete from refresh_tokens
         where digest = any (array(
                   select digest from refresh_tokens where rotated_at < now() - interval '30 days' limit %(limit)s for update skip locked
               ))
    """


class ExpiredPreauthentications(_Sweep):
    """Used or not, they no longer let anyone in."""

    statement = """
        delete from preauthentications
         where id = any (array(select id from preauthentications where expires_at < now() limit %(limit)s for update skip locked))
    """


class PastMailedTokens(_Sweep):
    """Kept for a week, so that a person who opens an old link can be told that it is old, or used."""

    statement = """
        delete from mailed_tokens
         where digest = any (array(
                   select digest from mailed_tokens where expires_at < now() - interval '7 days' limit %(limit)s for update skip locked
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
    """Thirty days give an operator time to see and revive them."""

    statement = """
        delete from jobs
         where id = any (array(
                   select id from jobs where state = 'dead' and died_at < now() - interval '30 days' limit %(limit)s for update skip locked
               ))
    """


class PastEventDetails(_Sweep):
    """The personal part of events. Webhooks are delivered, or given up, long before."""

    statement = """
        update events
           set personal = null
         where id = any (array(
                   select id
                     from events
                    where personal is not null and occurred_at < now() - interval '90 days'
                    order by occurred_at
                    limit %(limit)s
                      for update skip locked
               ))
    """


class _Retained(_Sweep):
    """What is kept as long as a setting says. `order by` keeps the planner on the index of the times, however long the table is."""

    def __init__(self, pool: Pool, retention: timedelta) -> None:
        super().__init__(pool)
        self._retention = retention

    async def delete_expired(self, limit: int) -> int:
        return await tell(self._pool, self.statement, {"limit": limit, "retention": self._retention})


class PastLoginEvents(_Retained):
    """Older habits go with them: a person who signs in again after this long counts as somebody with little history."""

    statement = """
        delete from login_events
         where id = any (array(
                   select id
                     from login_events
                    where created_at < now() - %(retention)s::interval
                    order by created_at
                    limit %(limit)s
                      for update skip locked
               ))
    """


class PastMfaEvents(_Retained):
    """The log of second factors is kept as long as that of the sign-ins that it belongs to."""

    statement = """
        delete from mfa_events
         where id = any (array(
                   select id
                     from mfa_events
                    where created_at < now() - %(retention)s::interval
                    order by created_at
                    limit %(limit)s
                      for update skip locked
               ))
    """


def sweeps(pool: Pool, *, login_event_retention: timedelta) -> tuple[Housekeeping, ...]:
    """All of them."""
    return (
        *(sweep(pool) for sweep in _Sweep.__subclasses__() if not issubclass(sweep, _Retained)),
        *(sweep(pool, login_event_retention) for sweep in _Retained.__subclasses__()),
    )
