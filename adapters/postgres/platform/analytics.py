"""Counted sign-ins in PostgreSQL.

A sign-in has a row in `uncounted_logins` from its own commit until the commit of the transaction that counts it. A statement that adds the
counts and the uncounted rows sees each sign-in exactly once, whatever the order of the commits. No hour is ever closed, so a sign-in that
commits late is still counted.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime, time, timedelta
from typing import Any, Final, LiteralString
from uuid import UUID

from adapters.postgres import locks
from adapters.postgres.database import ACTIVE_USERS, COUNTED_EXACTLY, MFA_ENABLED_USERS, count_or_estimate
from adapters.postgres.driver.pool import Pool
from adapters.postgres.rows import CountRow
from adapters.postgres.statements import ask
from core.domain.identifiers import LoginEventId, OrganizationId, ServiceId, UserId
from core.domain.platform.analytics import LoginsOfDay, LoginsOfProvider, LoginsOfService, Overview, RecentLogin, Span
from core.frozen import Frozen


class _Service(Frozen):
    service_id: UUID
    name: str
    logins: int


class _Recent(Frozen):
    id: UUID
    user_id: UUID
    service_id: UUID | None
    provider: str
    created_at: datetime


class _Figures(Frozen):
    users_counted: int
    users_estimated: float
    with_second_factor_counted: int
    with_second_factor_estimated: float
    by_status: Mapping[str, int]
    services: int
    today: int
    week: int
    month: int


class PostgresAnalytics:
    """Implements `ports.platform.analytics.AnalyticsLookup`."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    async def by_day(self, organization: OrganizationId, span: Span) -> Sequence[LoginsOfDay]:
        return await ask(self._pool, LoginsOfDay, BY_DAY, _within(organization, span))

    async def by_service(self, organization: OrganizationId, span: Span) -> Sequence[LoginsOfService]:
        rows = await ask(self._pool, _Service, BY_SERVICE, _within(organization, span))
        return [LoginsOfService(ServiceId(row.service_id), row.name, row.logins) for row in rows]

    async def by_provider(self, organization: OrganizationId, span: Span) -> Sequence[LoginsOfProvider]:
        return await ask(self._pool, LoginsOfProvider, BY_PROVIDER, _within(organization, span))

    async def recent(self, organization: OrganizationId, before: LoginEventId | None, limit: int) -> Sequence[RecentLogin]:
        rows = await ask(self._pool, _Recent, RECENT, {"organization": organization, "before": before, "limit": limit})
        return [
            RecentLogin(
                LoginEventId(row.id),
                UserId(row.user_id),
                None if row.service_id is None else ServiceId(row.service_id),
                row.provider,
                row.created_at,
            )
            for row in rows
        ]

    async def overview(self, at: datetime) -> Overview:
        today = datetime.combine(at.date(), time.min, at.tzinfo)
        parameters = {
            "most": COUNTED_EXACTLY,
            "today": today,
            "week": today - timedelta(days=6),
            "month": today - timedelta(days=29),
        }
        (row,) = await ask(self._pool, _Figures, OVERVIEW, parameters)
        return Overview(
            users=count_or_estimate(row.users_counted, row.users_estimated),
            users_with_second_factor=count_or_estimate(row.with_second_factor_counted, row.with_second_factor_estimated),
            organizations=sum(row.by_status.values()),
            organizations_by_status=row.by_status,
            services=row.services,
            logins_today=row.today,
            logins_7d=row.week,
            logins_30d=row.month,
        )


class PostgresLoginCounter:
    """Implements `ports.platform.analytics.LoginCounter`."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    async def count(self, limit: int) -> int:
        parameters = {"namespace": locks.NAMESPACE, "lock": locks.LOGIN_COUNTS, "limit": limit}
        (row,) = await ask(self._pool, CountRow, COUNT, parameters)
        return row.count


def _within(organization: OrganizationId, span: Span) -> Mapping[str, Any]:
    return {"organization": organization, "begins": span.begins, "ends": span.ends}


_NIL: Final = "'00000000-0000-0000-0000-000000000000'::uuid"

# The sign-ins of one organization within a span: the counted ones, and the ones not counted yet.
_LOGINS: Final = f"""
         logins as (
             select hour, service_id, provider, logins
               from login_counts
              where org_id = %(organization)s and hour >= %(begins)s and hour < coalesce(%(ends)s::timestamptz, 'infinity')
          union all
             select hour, coalesce(service_id, {_NIL}), provider, 1
               from uncounted_logins
              where organization_id = %(organization)s and hour >= %(begins)s and hour < coalesce(%(ends)s::timestamptz, 'infinity')
         )
"""

BY_DAY: Final[LiteralString] = f"""
    with {_LOGINS}
  select (hour at time zone 'UTC')::date as day, sum(logins)::bigint as logins
    from logins
   group by day
   order by day
"""

# A service that is being deleted keeps its row in `all_services` for a while. After that, its name is in `former_services`.
BY_SERVICE: Final[LiteralString] = f"""
    with {_LOGINS},
         counted as (
             select service_id, sum(logins)::bigint as logins from logins where service_id <> {_NIL} group by service_id
         )
  select counted.service_id, coalesce(all_services.name, former_services.name, '') as name, counted.logins
    from counted
    left join all_services on all_services.id = counted.service_id
    left join former_services on former_services.id = counted.service_id
   order by counted.logins desc, counted.service_id
"""

BY_PROVIDER: Final[LiteralString] = f"""
    with {_LOGINS}
  select provider, sum(logins)::bigint as logins
    from logins
   group by provider
   order by logins desc, provider
"""

# PostgreSQL reads an index backwards and stops after one page.
RECENT: Final = """
    select id, user_id, service_id, provider, created_at
      from login_events
     where organization_id = %(organization)s and success and (%(before)s::uuid is null or id < %(before)s)
     order by id desc
     limit %(limit)s
"""

OVERVIEW: Final[LiteralString] = f"""
    with users_counted as ({ACTIVE_USERS}),
         with_second_factor as ({MFA_ENABLED_USERS}),
         statuses as (
             select status, count(*) as organizations from organizations group by status
         ),
         logins as (
             select hour, logins from platform_login_counts where hour >= %(month)s
          union all
             select hour, 1 from uncounted_logins where hour >= %(month)s
         )
  select users_counted.counted as users_counted, coalesce(users_counted.estimated, 0)::float8 as users_estimated,
         with_second_factor.counted as with_second_factor_counted,
         coalesce(with_second_factor.estimated, 0)::float8 as with_second_factor_estimated,
         (select coalesce(jsonb_object_agg(status, organizations), '{{}}') from statuses) as by_status,
         (select count(*) from services) as services,
         (select coalesce(sum(logins) filter (where hour >= %(today)s), 0)::bigint from logins) as today,
         (select coalesce(sum(logins) filter (where hour >= %(week)s), 0)::bigint from logins) as week,
         (select coalesce(sum(logins), 0)::bigint from logins) as month
    from users_counted, with_second_factor
"""

# The advisory lock lets one process count at a time, because several would only wait for each other's rows. The statement does not update
# the counts of organizations that are being deleted.
COUNT: Final = f"""
    with turn as materialized (
             select pg_try_advisory_xact_lock(%(namespace)s, %(lock)s) as is_ours
         ),
         gone as (
             delete from uncounted_logins
              where id = any (array(
                        select id from uncounted_logins where (select is_ours from turn) limit %(limit)s for update skip locked
                    ))
          returning organization_id, service_id, provider, hour
         ),
         of_organizations as (
             insert into login_counts (org_id, hour, service_id, provider, logins)
             select gone.organization_id, gone.hour, coalesce(gone.service_id, {_NIL}), gone.provider, count(*)
               from gone
               join organizations on organizations.id = gone.organization_id
              group by 1, 2, 3, 4
              order by 1, 2, 3, 4
                 on conflict (org_id, hour, service_id, provider) do update set logins = login_counts.logins + excluded.logins
         ),
         altogether as (
             insert into platform_login_counts (hour, provider, logins)
             select hour, provider, count(*)
               from gone
              group by 1, 2
              order by 1, 2
                 on conflict (hour, provider) do update set logins = platform_login_counts.logins + excluded.logins
         )
  select count(*) from gone
"""
