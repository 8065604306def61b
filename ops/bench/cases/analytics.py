"""An organization's analytics must stay quick and true with millions of sign-ins."""

import statistics
import time
from collections.abc import Sequence
from datetime import date
from typing import Final
from uuid import UUID

import psycopg
import trio

from adapters.postgres.driver.pool import Pool
from adapters.postgres.platform.analytics import PostgresAnalytics
from core.domain.identifiers import OrganizationId
from core.domain.platform.analytics import COUNTED_AT_ONCE, Span
from ops.bench.harness import Options, directory, serving
from ops.bench.report import Figure, at_most

LOGINS: Final = 10_000_000
ASKED: Final = 50
# Sign-ins of one organization with ten services, over 400 days. A fifth belongs to others.
_FILL: Final = """
    insert into all_organizations (id, slug, name, status, created_at, updated_at)
    values ('01900000-0000-7000-8000-00000000000a', 'acme', 'Acme', 'active', now(), now());
    insert into all_services (id, org_id, slug, name, service_type, client_id, created_at, updated_at)
    select ('01900000-0000-7000-8000-0000000001' || lpad(n::text, 2, '0'))::uuid, '01900000-0000-7000-8000-00000000000a', 'service-' || n,
           'Service ' || n, 'web', gen_random_uuid(), now(), now()
      from generate_series(0, 9) as n;
    alter table login_events disable trigger logins_added;
    drop index login_events_good, login_events_newest;
    insert into login_events (id, user_id, organization_id, service_id, provider, success, created_at)
    select (lpad(to_hex((extract(epoch from at) * 1000)::bigint), 12, '0') || substr(md5(n::text), 13))::uuid,
           md5((n % 100000)::text)::uuid,
           case when n % 5 > 0 then '01900000-0000-7000-8000-00000000000a'::uuid end,
           case when n % 5 > 0 then ('01900000-0000-7000-8000-0000000001' || lpad((n % 10)::text, 2, '0'))::uuid end,
           case when n % 3 = 0 then 'codehost' else 'password' end, n % 7 > 0, at
      from generate_series(1, {logins}) as n, lateral (select now() - n * (interval '400 days' / {logins}) as at) as ats;
    insert into login_counts (org_id, hour, service_id, provider, logins)
    select organization_id, date_trunc('hour', created_at, 'UTC'), service_id, provider, count(*)
      from login_events where success and organization_id is not null group by 1, 2, 3, 4;
    insert into platform_login_counts (hour, provider, logins)
    select date_trunc('hour', created_at, 'UTC'), provider, count(*) from login_events where success group by 1, 2;
    alter table login_events enable trigger logins_added;
    vacuum analyze login_counts;
    vacuum analyze platform_login_counts
"""
_ADD: Final = """
    insert into login_events (id, organization_id, provider, success, created_at)
    select gen_random_uuid(), '01900000-0000-7000-8000-00000000000a', 'password', true, now() from generate_series(1, %s)
"""
ACME: Final = OrganizationId(UUID("01900000-0000-7000-8000-00000000000a"))


async def analytics(options: Options) -> Sequence[Figure]:
    """The three questions of an organization's analytics and the platform's figures, over 400 days, with ten million sign-ins in the
    database. Five thousand of them have just come, and Postern counts them meanwhile.
    """
    del options
    with directory() as place:
        async with serving(place) as server:
            began = time.perf_counter()
            await trio.to_thread.run_sync(_fill, server.database_url)
            filling = time.perf_counter() - began
            pool = Pool(server.database_url)
            await pool.open()
            try:
                return [*await _asked(pool, server.database_url), Figure("filling it took", filling, "s")]
            finally:
                await pool.aclose()


async def _asked(pool: Pool, database_url: str) -> Sequence[Figure]:
    lookup, span = PostgresAnalytics(pool), Span(date.min, date.max)
    with psycopg.connect(database_url) as connection:
        connection.execute(_ADD, (COUNTED_AT_ONCE,))
    figures = []
    for name, question in (
        ("login-trends", lambda: lookup.by_day(ACME, span)),
        ("logins-by-service", lambda: lookup.by_service(ACME, span)),
        ("logins-by-provider", lambda: lookup.by_provider(ACME, span)),
    ):
        took = []
        for _ in range(ASKED):
            began = time.perf_counter()
            await question()
            took.append(time.perf_counter() - began)
        figures.append(Figure(f"{name}: 95th percentile", statistics.quantiles(took, n=20)[-1] * 1e3, "ms", bar=at_most(200)))
    with psycopg.connect(database_url) as connection:
        began = time.perf_counter()
        (rows,) = connection.execute("select count(*) from login_events where success and organization_id = %s", [ACME]).fetchone() or (0,)
        reading = time.perf_counter() - began
    told = sum(one.logins for one in await lookup.by_day(ACME, span))
    return [
        *figures,
        Figure("sums that differ from the rows", abs(rows - told), bar=at_most(0)),
        Figure("reading the rows instead would take", reading * 1e3, "ms"),
    ]


def _fill(database_url: str) -> None:
    with psycopg.connect(database_url, autocommit=True) as connection:
        connection.execute("set synchronous_commit = off")
        connection.execute("set work_mem = '256MB'")
        for statement in _FILL.format(logins=LOGINS).split(";"):
            connection.execute(statement.encode())
