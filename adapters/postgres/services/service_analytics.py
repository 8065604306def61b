"""How much a service is used, in PostgreSQL."""

from datetime import datetime
from typing import Final

import trio

from adapters.postgres.driver.pool import Pool
from adapters.postgres.statements import ask, first
from core.domain.identifiers import ServiceId
from core.domain.services.service_users import ServiceAnalytics

AT_ONCE: Final = 2


class PostgresServiceAnalytics:
    """Implements `ports.services.services.ServiceAnalyticsLookup`."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        # Counting many sign-ins takes time. A service that asks often waits for its own earlier questions and leaves connections for
        # others.
        self._limiter = trio.CapacityLimiter(AT_ONCE)

    async def find(self, service: ServiceId, since: datetime) -> ServiceAnalytics | None:
        async with self._limiter:
            rows = await ask(self._pool, ServiceAnalytics, COUNT, {"service": service, "since": since})
        return first(rows)


# `services` and `plans` keep the counts of users and subscriptions. The count of sign-ins comes from an index alone.
COUNT: Final = """
    select services.user_count::bigint as total_users, of_plans.total_subscriptions, of_plans.active_subscriptions,
           of_logins.total_logins, of_logins.unique_users
      from services
     cross join lateral (
                select coalesce(sum(active_count + past_due_count + cancelled_count + expired_count), 0)::bigint as total_subscriptions,
                       coalesce(sum(active_count), 0)::bigint as active_subscriptions
                  from plans
                 where plans.service_id = services.id
           ) as of_plans
     cross join (
                select coalesce(sum(by_user.logins), 0)::bigint as total_logins, count(*) as unique_users
                  from (
                           select count(*) as logins
                             from login_events
                            where login_events.service_id = %(service)s and login_events.success and login_events.created_at > %(since)s
                            group by login_events.user_id
                       ) as by_user
           ) as of_logins
     where services.id = %(service)s
"""
