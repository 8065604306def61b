"""Counts in PostgreSQL what a change of the limits of sessions would reach."""

from typing import Final, LiteralString

from adapters.postgres.statements import ask, only
from adapters.postgres.ties import IS_OWN_MEMBERSHIP
from adapters.postgres.transaction import OnPool
from core.domain.identifiers import OrganizationId, ServiceId, SessionId
from core.domain.identity.session_limits import SessionLimits, SessionReach
from core.domain.requests import MOST_ROWS_COUNTED


class PostgresSessionReach(OnPool):
    """Implements `ports.identity.sessions.SessionReachLookup`."""

    async def reach(
        self,
        organization: OrganizationId,
        service: ServiceId | None,
        before: SessionLimits,
        after: SessionLimits,
        *,
        asker: SessionId | None,
    ) -> SessionReach:
        parameters = {
            "organization": organization,
            "service": service,
            "asker": asker,
            "hours": after.hours,
            "minutes_idle": after.minutes_idle,
            "most": after.most,
            "hours_before": before.hours,
            "minutes_idle_before": before.minutes_idle,
            "limit": MOST_ROWS_COUNTED,
        }
        return only(await ask(self._pool, SessionReach, _REACH, parameters))


_IS_OPEN: Final = "sessions.revoked_at is null and sessions.expires_at > now() and sessions.ends_at > now()"
_COUNTS: Final = "sessions.impersonator_id is null and sessions.exchanged_from is null"

# A sign-in is the session that the others were opened from. The limits are within, so that the statement reads no more rows than it counts.
_REACH: Final[LiteralString] = f"""
    with here as (
             select sessions.id, sessions.user_id, coalesce(sessions.parent_id, sessions.id) as sign_in, {_COUNTS} as counts,
                    coalesce(sessions.proved_at, sessions.created_at) as proved_at, sessions.last_seen_at
               from sessions
              where sessions.organization_id = %(organization)s
                and (%(service)s::uuid is null or sessions.service_id = %(service)s::uuid)
                and {_IS_OPEN}
              limit %(limit)s
         ),
         judged as (
             select here.*,
                    coalesce(proved_at + %(hours_before)s::int * interval '1 hour' > now(), true)
                and coalesce(last_seen_at + %(minutes_idle_before)s::int * interval '1 minute' > now(), true) as works,
                    coalesce(proved_at + %(hours)s::int * interval '1 hour' > now(), true)
                and coalesce(last_seen_at + %(minutes_idle)s::int * interval '1 minute' > now(), true) as would_work
               from here
         ),
         own as (
             select sessions.user_id, sessions.id
               from memberships
               join sessions on sessions.user_id = memberships.user_id
              where memberships.org_id = %(organization)s and {IS_OWN_MEMBERSHIP} and %(service)s::uuid is null
                and %(most)s::int is not null
                and sessions.organization_id is null and sessions.parent_id is null and {_IS_OPEN} and {_COUNTS}
              limit %(limit)s
         ),
         beyond as (
             select user_id from judged where would_work and counts group by user_id having count(distinct sign_in) > %(most)s::int
              union
             select user_id from own group by user_id having count(*) > %(most)s::int
         ),
         asker as (select sessions.user_id from sessions where sessions.id = %(asker)s::uuid)
  select (select count(*) from judged where works and not would_work)::int as outlasted_sessions,
         (select count(*) from beyond)::int as people_beyond,
         exists (select from judged join asker using (user_id) where works and not would_work)
      or exists (select from beyond join asker using (user_id)) as includes_you
"""
