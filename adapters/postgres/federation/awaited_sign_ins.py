"""Sign-ins that somebody waits for: one row for a person, for ten minutes."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final, NamedTuple
from uuid import UUID

from adapters.postgres.columns import array, storable_text
from adapters.postgres.driver.pool import Pool
from adapters.postgres.shared_lookups import SharedLookups
from adapters.postgres.statements import ask_in_order, tell
from core.domain.federation.awaited_sign_ins import ArrivedSignIn, AwaitedPage, AwaitedSignIn, NewAwaitedSignIn
from core.domain.identifiers import AuthorizationRefusalId, OrganizationId, UserId


class _Row(NamedTuple):
    place: int
    organization: UUID
    slug: str
    ends_at: datetime
    refusals: Sequence[UUID]
    user: UUID
    arrived_at: datetime | None
    scopes: Sequence[str] | None

    def awaited(self) -> AwaitedSignIn:
        arrived = None if self.arrived_at is None else ArrivedSignIn(UserId(self.user), self.arrived_at, self.scopes or ())
        return AwaitedSignIn(
            organization=OrganizationId(self.organization),
            service_slug=self.slug,
            ends_at=self.ends_at,
            mistakes=[AuthorizationRefusalId(one) for one in self.refusals],
            arrived=arrived,
        )


class PostgresAwaitedSignIns:
    """Implements `ports.federation.oauth.AwaitedSignInStore`."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self._looks = SharedLookups(self._find)

    async def begin(self, new: NewAwaitedSignIn) -> bool:
        parameters = {
            "id": new.id,
            "user": new.user,
            "session": new.session,
            "organization": new.organization,
            "slug": storable_text(new.service_slug),
            "began_at": new.began_at,
            "ends_at": new.ends_at,
        }
        return await tell(self._pool, _BEGIN, parameters) == 1

    async def look(self, page: AwaitedPage) -> AwaitedSignIn | None:
        return await self._looks.find(page)

    async def _find(self, asked: Sequence[AwaitedPage]) -> Mapping[AwaitedPage, AwaitedSignIn]:
        parameters: Mapping[str, Any] = {
            "pages": array([page.id.hex for page in asked]),
            "users": array([page.user.hex for page in asked]),
            "sessions": array([page.session.hex for page in asked]),
        }
        return {asked[row.place - 1]: row.awaited() for row in await ask_in_order(self._pool, _Row, _LOOK, parameters)}


# A second page of one person takes the place of the first.
_BEGIN: Final = """
    insert into awaited_sign_ins (id, user_id, session_id, service_id, began_at, ends_at)
    select %(id)s, sessions.user_id, sessions.id, services.id, %(began_at)s, %(ends_at)s
      from services
      join sessions on sessions.id = %(session)s and sessions.user_id = %(user)s and sessions.revoked_at is null
     where services.org_id = %(organization)s and services.slug = %(slug)s
       for key share of sessions
        on conflict (user_id) do update
       set id = excluded.id, session_id = excluded.session_id, service_id = excluded.service_id, began_at = excluded.began_at,
           ends_at = excluded.ends_at, refusals = '{}'
"""

# The session of an application that hangs on the browser's: a code was exchanged for it. Sessions in somebody's name never do.
_LOOK: Final = """
    select asked.place, services.org_id, services.slug, waits.ends_at,
           case when waits.ends_at > now() then waits.refusals else '{}' end,
           waits.user_id, arrived.created_at, arrived.scopes
      from unnest(%(pages)s::uuid[], %(users)s::uuid[], %(sessions)s::uuid[]) with ordinality as asked (id, person, session, place)
      join awaited_sign_ins as waits
        on waits.user_id = asked.person and waits.id = asked.id and waits.session_id = asked.session
      join services on services.id = waits.service_id
      left join lateral (
                select created_at, scopes
                  from sessions
                 where sessions.parent_id = waits.session_id and sessions.service_id = waits.service_id and sessions.scopes is not null
                   and sessions.created_at between waits.began_at and waits.ends_at
                 order by created_at
                 limit 1
           ) as arrived on true
"""

# The refused requests of a browser in which a page waits for this application, the newest first. The row goes after ten minutes, and with
# it whose requests they were.
SHOW_AWAITING: Final = """
    update awaited_sign_ins as waits
       set refusals = (kept.ids || waits.refusals)[1:%(most)s]
      from (
               select told.session_id, refused.service_id, array_agg(refused.id order by refused.id desc) as ids
                 from jsonb_to_recordset(%(refusals)s) as told (id uuid, session_id uuid)
                 join authorization_refusals as refused on refused.id = told.id
                group by told.session_id, refused.service_id
           ) as kept
     where waits.session_id = kept.session_id and waits.service_id = kept.service_id and waits.ends_at > now()
       and not waits.refusals && kept.ids
"""
