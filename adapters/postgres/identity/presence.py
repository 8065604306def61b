"""When sessions were last seen, written many at a time. Using a session counts as using those that it was opened from."""

from collections.abc import Mapping
from datetime import datetime
from typing import Final

from adapters.postgres.driver.pool import Pool
from adapters.postgres.presence import mark
from core.domain.identifiers import SessionId


class PostgresPresence:
    """Implements `ports.presence.PresenceStore` for sessions."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    async def mark_seen(self, times: Mapping[SessionId, datetime]) -> None:
        await mark(self._pool, _MARK_SEEN, times)


_MARK_SEEN: Final = """
    with recursive line as (
             select sessions.id, sessions.parent_id, seen.at
               from unnest(%(ids)s::uuid[], %(times)s::timestamptz[]) as seen (id, at)
               join sessions on sessions.id = seen.id
          union
             select sessions.id, sessions.parent_id, line.at
               from line
               join sessions on sessions.id = line.parent_id
         ),
         used as (
             select id, max(at) as at from line group by id
         ),
         due as (
             select sessions.id, used.at
               from sessions
               join used on used.id = sessions.id
              where sessions.last_seen_at < used.at
              order by sessions.id
                for no key update of sessions      -- in one order everywhere: two processes that mark the same sessions cannot deadlock
         )
  update sessions
     set last_seen_at = due.at
    from due
   where sessions.id = due.id
"""
