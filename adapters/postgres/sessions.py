"""Sessions in PostgreSQL, and the question that every authenticated request asks."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from adapters.postgres.pool import Pool
from adapters.postgres.statements import ask, tell
from adapters.postgres.transaction import Transaction
from core.domain.email import Email
from core.domain.identifiers import SessionId, UserId
from core.domain.sessions import Caller, Session


class SessionRows:
    """Implements `ports.sessions.SessionStore` in one transaction."""

    def __init__(self, transaction: Transaction) -> None:
        self._transaction = transaction

    async def add(self, session: Session) -> None:
        await self._transaction.tell(
            _ADD,
            {
                "id": session.id,
                "user": session.user,
                "created_at": session.created_at,
                "last_seen_at": session.last_seen_at,
                "expires_at": session.expires_at,
            },
        )


_ADD: Final = """
    insert into sessions (id, user_id, created_at, last_seen_at, expires_at)
    values (%(id)s, %(user)s, %(created_at)s, %(last_seen_at)s, %(expires_at)s)
"""


@dataclass(frozen=True, slots=True)
class _Caller:
    email: str
    is_platform_owner: bool


class PostgresCallers:
    """Implements `ports.sessions.CallerLookup`."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    async def find(self, session: SessionId, user: UserId) -> Caller | None:
        rows = await ask(self._pool, _Caller, _FIND, {"session": session, "user": user})
        if not rows:
            return None
        return Caller(user=user, email=Email(rows[0].email), session=session, is_platform_owner=rows[0].is_platform_owner)


_FIND: Final = """
    select users.email, users.is_platform_owner
      from sessions
      join users on users.id = sessions.user_id
     where sessions.id = %(session)s
       and sessions.user_id = %(user)s
       and sessions.revoked_at is null
       and sessions.expires_at > now()
       and users.deactivated_at is null
"""


class PostgresPresence:
    """Implements `ports.sessions.PresenceStore`."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    async def mark_seen(self, sessions: Mapping[SessionId, datetime]) -> None:
        if sessions:
            await tell(self._pool, _MARK_SEEN, {"ids": list(sessions.keys()), "times": list(sessions.values())})


_MARK_SEEN: Final = """
    with due as (
             select sessions.id, seen.at
               from sessions
               join unnest(%(ids)s::uuid[], %(times)s::timestamptz[]) as seen (id, at) on seen.id = sessions.id
              where sessions.last_seen_at < seen.at
              order by sessions.id
                for no key update of sessions      -- in one order everywhere: two processes that mark the same sessions cannot deadlock
         )
  update sessions
     set last_seen_at = due.at
    from due
   where sessions.id = due.id
"""
