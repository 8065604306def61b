"""A person's own sessions in PostgreSQL, with the names of the sessions' devices, organizations and services."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final, LiteralString

from adapters.postgres.identity.sessions.revoking import LINE
from adapters.postgres.rows import IdRow
from adapters.postgres.statements import ask
from adapters.postgres.transaction import OnPool
from core.domain.identifiers import SessionId, UserId
from core.domain.identity.devices import located
from core.domain.identity.sessions import OwnSession, OwnSessionList
from core.domain.requests import Page


def _session(
    *,
    device_name: str | None,
    country: str | None,
    city: str | None,
    organization: str | None,
    service: str | None,
    **columns: Any,
) -> OwnSession:
    return OwnSession(
        device_name=device_name or "",
        location=located(country, city),
        organization=organization or "",
        service=service or "",
        **columns,
    )


def _listed(*, total: int, others: int, **columns: Any) -> tuple[int, int, OwnSession]:
    return total, others, _session(**columns)


class PostgresOwnSessions(OnPool):
    """Implements `ports.identity.sessions.OwnSessionLookup`."""

    async def list(self, user: UserId, of: SessionId, now: datetime, page: Page) -> OwnSessionList:
        parameters = {"user": user, "but": of, "now": now, "limit": page.limit, "offset": page.offset}
        rows = await ask(self._pool, _listed, _LIST, parameters)
        total, others, _ = rows[0] if rows else (0, 0, None)
        return OwnSessionList(tuple(session for *_, session in rows), total, others)

    async def tree(self, user: UserId, session: SessionId, of: SessionId, now: datetime) -> Sequence[OwnSession]:
        return await ask(self._pool, _session, _TREE, {"user": user, "id": session, "but": of, "now": now})

    async def was_there(self, user: UserId, session: SessionId) -> bool:
        return bool(await ask(self._pool, IdRow, _WAS_THERE, {"user": user, "id": session}))


# The condition need not look at a session's parent: a session's `expires_at` and `ends_at` are never later than its parent's.
_LIVING: Final = """
    sessions.user_id = %(user)s and sessions.revoked_at is null and sessions.expires_at > %(now)s and sessions.ends_at > %(now)s
    and sessions.exchanged_from is null
"""

_COLUMNS: Final = f"""
    sessions.id, sessions.created_at, sessions.last_seen_at, least(sessions.expires_at, sessions.ends_at) as ends_at,
    devices.id as device, devices.name as device_name, devices.last_country as country, devices.last_city as city,
    organizations.name as organization, services.name as service, sessions.impersonator_id is not null as impersonated,
    sessions.id = any (array({LINE})) as opened_here
"""

_NAMES: Final = """
      left join devices on devices.id = sessions.device_id
      left join organizations on organizations.id = sessions.organization_id
      left join services on services.id = sessions.service_id
"""

# The statement counts all live sessions, and joins names only for the sessions of the page. A person has hundreds of sessions at most.
_LIST: Final[LiteralString] = f"""
    with living as (
             select sessions.*,
                    count(*) over () as total,
                    count(*) filter (where sessions.id <> all (array({LINE}))) over () as others
               from sessions
              where {_LIVING}
              order by sessions.id = %(but)s desc, sessions.last_seen_at desc, sessions.id desc
              limit %(limit)s offset %(offset)s
         )
  select {_COLUMNS}, sessions.total, sessions.others
    from living as sessions
    {_NAMES}
   order by sessions.id = %(but)s desc, sessions.last_seen_at desc, sessions.id desc
"""

_TREE: Final[LiteralString] = f"""
    with recursive ending as (
             select sessions.id from sessions where sessions.id = %(id)s and {_LIVING}
          union all
             select sessions.id from sessions join ending on sessions.parent_id = ending.id where {_LIVING}
         )
  select {_COLUMNS}
    from sessions
    {_NAMES}
   where sessions.id in (select id from ending)
   order by sessions.depth, sessions.last_seen_at desc, sessions.id
"""

_WAS_THERE: Final = "select id from sessions where id = %(id)s and user_id = %(user)s"
