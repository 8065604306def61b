"""The times when sessions were last seen, written many at a time. A use of a session counts as a use of its parent sessions, too."""

from collections.abc import Mapping
from datetime import datetime
from typing import Final, LiteralString

from adapters.postgres.identity.sessions.liveness import IDLE
from adapters.postgres.presence import mark
from adapters.postgres.transaction import OnPool
from core.domain.identifiers import SessionId
from core.domain.identity.sessions import IDLE_LIFETIME


class PostgresPresence(OnPool):
    """Implements `ports.system.PresenceStore` for sessions."""

    async def mark_seen(self, times: Mapping[SessionId, datetime]) -> None:
        await mark(self._pool, _MARK_SEEN, times, {"idle": IDLE_LIFETIME})


_MARK_SEEN: Final[LiteralString] = f"""
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
             select sessions.id, used.at, browser_sessions.session_id is not null as is_browser
               from sessions
               join used on used.id = sessions.id
               left join browser_sessions on browser_sessions.session_id = sessions.id
              where sessions.last_seen_at < used.at
              order by sessions.id
                for no key update of sessions      -- in one order everywhere: two processes that mark the same sessions cannot deadlock
         )
  update sessions
     set last_seen_at = due.at,
         -- A browser has no refresh that would move its expiry.
         expires_at = case
             when due.is_browser then greatest(sessions.expires_at, least(due.at + {IDLE}, sessions.ends_at))
             else sessions.expires_at
         end
    from due
   where sessions.id = due.id
"""
