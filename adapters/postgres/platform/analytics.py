"""Sign-in analytics in PostgreSQL."""

from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime, time, timedelta
from typing import Any, Final, LiteralString

from adapters.postgres import locks
from adapters.postgres.columns import CountRow, storable_text
from adapters.postgres.database import ACTIVE_USERS, COUNTED_EXACTLY, MFA_ENABLED_USERS, count_or_estimate
from adapters.postgres.identity.proofs.login_events import LOGIN
from adapters.postgres.statements import OnPool, ask, only
from adapters.postgres.ties import has_name, may_see_name, shown_name
from core.domain.identifiers import LoginEventId, OrganizationId, ServiceId
from core.domain.identity.login_events import REFUSED_VISITS
from core.domain.platform.analytics import (
    ActiveOrganization,
    AttemptsOfWay,
    AttemptsOfWays,
    FailuresOfDays,
    Growth,
    LoggedSignIn,
    LoginsOfDay,
    LoginsOfProvider,
    LoginsOfService,
    Overview,
    RecentLogin,
    SignInFilter,
    Span,
)


def _overview(
    *,
    users_counted: int,
    users_estimated: float,
    with_second_factor_counted: int,
    with_second_factor_estimated: float,
    organizations_by_status: Mapping[str, int],
    **counts: int,
) -> Overview:
    return Overview(
        users=count_or_estimate(users_counted, users_estimated),
        users_with_second_factor=count_or_estimate(with_second_factor_counted, with_second_factor_estimated),
        organizations=sum(organizations_by_status.values()),
        organizations_by_status=organizations_by_status,
        **counts,
    )


def _logged_sign_in(
    *, risk_score: float, person_email: str | None, person_name: str | None, slug: str | None, name: str | None, **login: Any
) -> LoggedSignIn:
    event = LOGIN.row(risk_score=round(risk_score, 2), **login)
    return LoggedSignIn(event=event, email=person_email, name=person_name, service_slug=slug, service_name=name)


def _of_way(*, day: date, provider: str, logins: int, failures: int, attempts: int) -> tuple[AttemptsOfWay, int]:
    return AttemptsOfWay(day, provider, logins, failures), attempts


def _made(*, kind: str, day: date, made: int) -> tuple[str, date, int]:
    return kind, day, made


def _attempts(*, day: date, failed: int, attempts: int) -> tuple[date, int, int]:
    return day, failed, attempts


class PostgresAnalytics(OnPool):
    """Implements `ports.platform.AnalyticsLookup`."""

    async def by_day(self, organization: OrganizationId, span: Span) -> Sequence[LoginsOfDay]:
        return await ask(self._pool, LoginsOfDay, BY_DAY, _within(organization, span))

    async def failures(self, organization: OrganizationId, since: date, most_read: int) -> FailuresOfDays:
        parameters = {"organization": organization, **_newest(since, most_read)}
        return _failures(since, await ask(self._pool, _attempts, FAILURES, parameters), most_read)

    async def of_installation(self, since: date) -> Sequence[LoginsOfDay]:
        return await ask(self._pool, LoginsOfDay, BY_DAY_ALTOGETHER, {"begins": datetime.combine(since, time.min, UTC)})

    async def failures_of_installation(self, since: date, most_read: int) -> FailuresOfDays:
        days = await ask(self._pool, _attempts, FAILURES_ALTOGETHER, _newest(since, most_read))
        return _failures(since, days, most_read)

    async def most_active(self, since: date, most_read: int, limit: int) -> Sequence[ActiveOrganization]:
        return await ask(self._pool, ActiveOrganization, MOST_ACTIVE, {**_newest(since, most_read), "limit": limit})

    async def by_way(self, organization: OrganizationId, service: ServiceId, since: date, most_read: int) -> AttemptsOfWays:
        parameters = {"organization": organization, "service": service, **_newest(since, most_read)}
        found = await ask(self._pool, _of_way, BY_WAY, parameters)
        since = _all_read(since, [(one.day, attempts) for one, attempts in found], most_read)
        return AttemptsOfWays(since, [one for one, _ in found if one.day >= since and (one.logins or one.failures)])

    async def growth(self, since: date, most_read: int) -> Growth:
        found = await ask(self._pool, _made, GROWTH, _newest(since, most_read))
        kinds = {name: {day: made for kind, day, made in found if kind == name} for name in ("organizations", "people")}
        since = max(_all_read(since, list(days.items()), most_read) for days in kinds.values())
        of_known = {name: {day: made for day, made in days.items() if day >= since} for name, days in kinds.items()}
        return Growth(since, **of_known)

    async def by_service(self, organization: OrganizationId, span: Span) -> Sequence[LoginsOfService]:
        return await ask(self._pool, LoginsOfService, BY_SERVICE, _within(organization, span))

    async def by_provider(self, organization: OrganizationId, span: Span) -> Sequence[LoginsOfProvider]:
        return await ask(self._pool, LoginsOfProvider, BY_PROVIDER, _within(organization, span))

    async def recent(self, organization: OrganizationId, before: LoginEventId | None, limit: int) -> Sequence[RecentLogin]:
        return await ask(self._pool, RecentLogin, RECENT, {"organization": organization, "before": before, "limit": limit})

    async def sign_ins(
        self, organization: OrganizationId, wanted: SignInFilter, before: LoginEventId | None, limit: int
    ) -> Sequence[LoggedSignIn]:
        parameters = {
            "organization": organization,
            "user": wanted.user,
            "email_key": None if wanted.email is None else storable_text(wanted.email.key),
            "service": wanted.service,
            "provider": None if wanted.provider is None else storable_text(wanted.provider),
            "since": wanted.since,
            "first": wanted.first,
            "until": wanted.until,
            "before": before,
            "limit": limit,
        }
        return await ask(self._pool, _logged_sign_in, sign_ins(wanted, before), parameters)

    async def overview(self, at: datetime) -> Overview:
        today = datetime.combine(at.date(), time.min, at.tzinfo)
        parameters = {
            "most": COUNTED_EXACTLY,
            "today": today,
            "week": today - timedelta(days=6),
            "month": today - timedelta(days=29),
        }
        return only(await ask(self._pool, _overview, OVERVIEW, parameters))


def _newest(since: date, most_read: int) -> Mapping[str, Any]:
    begins = datetime.combine(since, time.min, UTC)
    return {"first": SignInFilter(since=begins).first, "begins": begins, "read": most_read, "visits": list(REFUSED_VISITS)}


def _failures(since: date, days: Sequence[tuple[date, int, int]], most_read: int) -> FailuresOfDays:
    since = _all_read(since, [(day, attempts) for day, _, attempts in days], most_read)
    return FailuresOfDays(since, [LoginsOfDay(day, failed) for day, failed, _ in days if failed and day >= since])


def _all_read(since: date, read: Sequence[tuple[date, int]], most_read: int) -> date:
    """The first day of which all rows were read, as there are: the oldest day of a full answer has lost some."""
    return min(day for day, _ in read) + timedelta(days=1) if sum(rows for _, rows in read) >= most_read else since


class PostgresLoginCounter(OnPool):
    """Implements `ports.platform.LoginCounter`.

    A sign-in has a row in `uncounted_logins` from its own commit until the commit of the transaction that counts it. A statement that adds
    the counts and the uncounted rows sees each sign-in exactly once, whatever the order of the commits. No hour is ever closed, so a
    sign-in that commits late is still counted.
    """

    async def count(self, limit: int) -> int:
        parameters = {"namespace": locks.NAMESPACE, "lock": locks.LOGIN_COUNTS, "limit": limit}
        return only(await ask(self._pool, CountRow, COUNT, parameters)).count


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

# A visit that a rule refused is no failed attempt.
_FAILED: Final = "not success and coalesce(reason <> all (%(visits)s), true)"
# PostgreSQL reads an index backwards, as far as the limit goes.
FAILURES: Final = f"""
    select (created_at at time zone 'UTC')::date as day, count(*) as attempts,
           count(*) filter (where {_FAILED}) as failed
      from (
               select success, reason, created_at
                 from login_events
                where organization_id = %(organization)s and id >= %(first)s and created_at >= %(begins)s
                order by id desc
                limit %(read)s
           ) as newest
     group by day
     order by day
"""

# The other applications' attempts count for how far back the answer reaches.
BY_WAY: Final = f"""
    select (created_at at time zone 'UTC')::date as day, provider, count(*) as attempts,
           count(*) filter (where service_id = %(service)s and success) as logins,
           count(*) filter (where service_id = %(service)s and {_FAILED}) as failures
      from (
               select service_id, provider, success, reason, created_at
                 from login_events
                where organization_id = %(organization)s and id >= %(first)s and created_at >= %(begins)s
                order by id desc
                limit %(read)s
           ) as newest
     group by day, provider
     order by day, provider
"""

BY_DAY_ALTOGETHER: Final = """
  select (hour at time zone 'UTC')::date as day, sum(logins)::bigint as logins
    from (
             select hour, logins from platform_login_counts where hour >= %(begins)s
          union all
             select hour, 1 from uncounted_logins where hour >= %(begins)s
         ) as logins
   group by day
   order by day
"""

_NEWEST: Final = """
             select organization_id, success, reason, created_at
               from login_events
              where id >= %(first)s and created_at >= %(begins)s
              order by id desc
              limit %(read)s
"""
FAILURES_ALTOGETHER: Final[LiteralString] = f"""
  select (created_at at time zone 'UTC')::date as day, count(*) as attempts, count(*) filter (where {_FAILED}) as failed
    from ({_NEWEST}) as newest
   group by day
   order by day
"""
MOST_ACTIVE: Final[LiteralString] = f"""
  select organizations.id, organizations.name, count(*) filter (where success) as logins, count(*) filter (where {_FAILED}) as failures
    from ({_NEWEST}) as newest
    join organizations on organizations.id = newest.organization_id
   group by organizations.id, organizations.name
   order by logins desc, organizations.name
   limit %(limit)s
"""

# The ids of accounts are in the order in which they were made.
GROWTH: Final = """
    select 'people' as kind, (created_at at time zone 'UTC')::date as day, count(*) as made
      from (select created_at from users where id >= %(first)s and created_at >= %(begins)s order by id desc limit %(read)s) as newest
     group by day
 union all
    select 'organizations', (created_at at time zone 'UTC')::date as day, count(*)
      from (select created_at from organizations where created_at >= %(begins)s order by created_at desc limit %(read)s) as newest
     group by day
"""

# A service that is being deleted keeps its row in `all_services` for a while. After that, its name is in `former_services`.
BY_SERVICE: Final[LiteralString] = f"""
    with {_LOGINS},
         counted as (
             select service_id, sum(logins)::bigint as logins from logins where service_id <> {_NIL} group by service_id
         )
  select counted.service_id as service, coalesce(all_services.name, former_services.name, '') as name, counted.logins
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
    select id, user_id as user, service_id as service, provider, created_at
      from login_events
     where organization_id = %(organization)s and success and (%(before)s::uuid is null or id < %(before)s)
     order by id desc
     limit %(limit)s
"""


def sign_ins(wanted: SignInFilter, before: LoginEventId | None) -> LiteralString:
    """The statement with exactly the requested conditions, because one plan for all conditions would suit none of them. It reads an index
    backwards, as far as one page goes.
    """
    conditions: Sequence[tuple[object, LiteralString]] = (
        (before, "and id < %(before)s"),
        (wanted.user, "and user_id = %(user)s"),
        (wanted.email, "and user_id = (select users.id from users where users.email_key = %(email_key)s)"),
        (wanted.service, "and service_id = %(service)s"),
        (wanted.provider, "and provider = %(provider)s"),
        (wanted.success, "and success" if wanted.success else "and not success"),
        (wanted.since, "and id >= %(first)s and created_at >= %(since)s"),
        (wanted.until, "and created_at < %(until)s"),
    )
    asked: LiteralString = "\n                   ".join(condition for value, condition in conditions if value is not None)
    return _SIGN_INS_HEAD + asked + _SIGN_INS_TAIL


_SIGN_INS_HEAD: Final[LiteralString] = f"""
    select latest.*, people.email as person_email,
           case when {has_name("people")} and {may_see_name("latest.login_organization", "latest.login_user")}
                then {shown_name("people")} end as person_name,
           services.slug, services.name
      from (
               select {LOGIN.names}, host(address) as address, risk_score
                 from login_events
                where organization_id = %(organization)s
                   """
_SIGN_INS_TAIL: Final[LiteralString] = """
                order by id desc
                limit %(limit)s
           ) as latest
      left join users as people on people.id = latest.login_user
      left join services on services.id = latest.login_service
     order by latest.login_id desc
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
         (select coalesce(jsonb_object_agg(status, organizations), '{{}}') from statuses) as organizations_by_status,
         (select count(*) from services) as services,
         (select coalesce(sum(logins) filter (where hour >= %(today)s), 0)::bigint from logins) as logins_today,
         (select coalesce(sum(logins) filter (where hour >= %(week)s), 0)::bigint from logins) as logins_7d,
         (select coalesce(sum(logins), 0)::bigint from logins) as logins_30d
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
