"""What happens to rows over time: sweeps, monthly partitions, and values that are sealed again."""

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Final, LiteralString

from adapters.postgres.database import BELIEVED
from adapters.postgres.driver.pool import Pool
from adapters.postgres.federation import given_sessions
from adapters.postgres.federation.signal_grants import END_GRANTED_STREAMS
from adapters.postgres.federation.signals import FORSAKE_SESSION_SIGNALS, FORSAKE_SIGNALS
from adapters.postgres.rate_limits import FORGET_FULL
from adapters.postgres.server_secrets import NEEDED_UNTIL
from adapters.postgres.statements import ask, ask_in_order, only, tell
from adapters.postgres.tables.declaring import Age, Sealing, Setting
from adapters.postgres.tables.every import TABLES
from adapters.postgres.tenancy.siem import FORGET_RECEIVED
from adapters.postgres.tenancy.webhooks import FORSAKE_DELIVERIES
from core.frozen import Frozen
from ports.crypto import KeyRing, SealedValue
from ports.database import Housekeeping, Partitions
from ports.system import Clock


class Sweep(Frozen):
    """Deletes the expired rows of one table. Each statement deletes one small batch, and skips rows that another transaction holds at the
    moment. What expires stays while the clock cannot be trusted.

    Implements `ports.database.Housekeeping`.
    """

    pool: Pool
    name: str
    statement: LiteralString
    retention: timedelta | None = None

    @property
    def is_prompt(self) -> bool:
        return self.name in _PROMPT

    async def delete_expired(self, limit: int) -> int:
        return await tell(self.pool, self.statement, {"limit": limit, "retention": self.retention})


class SweepOfParts(Sweep):
    """Sweeps a table that is cut by month. Whole months are dropped, not swept. These rows were there before the
    first month, or belong to none.
    """

    async def delete_expired(self, limit: int) -> int:
        return only(await ask_in_order(self.pool, int, self.statement, {"limit": limit, "retention": self.retention}))


# Services are told of sessions that have expired. A stream whose grant has ended should not come back with the right. Whose browser sent
# which request is kept for ten minutes.
_PROMPT: Final = frozenset({"ExpiredLogins", "EndedSignalGrants", "PastAwaitedSignIns"})


def sweep(pool: Pool, name: str, retention: timedelta | None = None) -> Sweep:
    return (SweepOfParts if name in _OF_PARTS else Sweep)(pool, name, STATEMENTS[name], retention)


def sweeps(
    pool: Pool, *, login_event_retention: timedelta, delivery_retention: timedelta, event_retention: timedelta
) -> tuple[Housekeeping, ...]:
    """All sweeps. Events are kept as long as deliveries: else each sweep would pass over all those that a delivery still tells."""
    kept = {
        Setting.LOGIN_EVENTS: login_event_retention,
        Setting.DELIVERIES: delivery_retention,
        Setting.EVENTS: max(event_retention, delivery_retention),
        None: None,
    }
    return tuple(sweep(pool, age.name, kept[age.kept]) for table in TABLES.values() for age in table.ages)


def _delete(
    table: LiteralString, condition: LiteralString, key: LiteralString = "id", oldest_first: LiteralString | None = None
) -> LiteralString:
    order = f"order by {oldest_first}" if oldest_first else ""
    return f"""
        delete from {table}
         where {BELIEVED}
           and {key} = any (array(select {key} from {table} where {condition} {order} limit %(limit)s for update skip locked))
    """


_OWN: Final[Mapping[str, LiteralString]] = {
    "FullBuckets": FORGET_FULL,
    "RetiredSigningKeys": _delete("signing_keys", f"state = 'outgoing' and {NEEDED_UNTIL} < now()"),
    # Drafts go with their link, and so do the connections that never became active.
    "PastSetupLinks": f"""
        with past as (
                 select id
                   from setup_links
                  where {BELIEVED} and expires_at < now() - interval '30 days'
                  order by expires_at
                  limit %(limit)s
                    for update skip locked
             ),
             gone as (
                 delete from upstream_providers
                  using setup_drafts
                  where setup_drafts.link_id in (select id from past) and setup_drafts.upstream_provider_id = upstream_providers.id
                    and upstream_providers.state <> 'active' and upstream_providers.activated_at is null
                    and not exists (select from domain_routes where domain_routes.own_provider = upstream_providers.id)
             )
        delete from setup_links where id in (select id from past)
    """,
    "PastEventDetails": f"""
        update events
           set personal = null
         where {BELIEVED}
           and id = any (array(
                   select id
                     from events
                    where personal is not null and occurred_at < now() - interval '90 days'
                    order by occurred_at
                    limit %(limit)s
                      for update skip locked
               ))
    """,
    "ForsakenDeliveries": FORSAKE_DELIVERIES,
    "ExpiredLogins": given_sessions.EXPIRE_LOGOUT_NOTICES,
    "ForsakenNotices": given_sessions.FORSAKE_LOGOUT_NOTICES,
    "EndedSignalGrants": END_GRANTED_STREAMS,
    "ForsakenSignals": FORSAKE_SIGNALS,
    "ForsakenSessionSignals": FORSAKE_SESSION_SIGNALS,
    "ReceivedSignIns": FORGET_RECEIVED,
    "DeliveriesOfNobody": """
        with recursive named (webhook_id) as (
                 (select webhook_id from webhook_deliveries order by webhook_id limit 1)
                  union all
                 select (select webhook_id
                           from webhook_deliveries
                          where webhook_deliveries.webhook_id > named.webhook_id
                          order by webhook_id
                          limit 1)
                   from named
                  where named.webhook_id is not null
             ),
             deleted as materialized (
                 select webhook_id
                   from named
                  where not exists (select from webhooks where webhooks.id = named.webhook_id)
                    and not exists (select from signal_streams where signal_streams.id = named.webhook_id)
             ),
             left_over as (
                 select deliveries.id
                   from deleted
                  cross join lateral (
                            select id from webhook_deliveries where webhook_id = deleted.webhook_id limit %(limit)s for update skip locked
                        ) as deliveries
                  limit %(limit)s
             )
      delete from webhook_deliveries where id = any (array(select id from left_over))
    """,
}
_OF_PARTS: Final = frozenset(age.name for table in TABLES.values() for age in table.ages if age.kept and not age.condition)


def _statement(table: LiteralString, age: Age) -> LiteralString:
    if age.name in _OF_PARTS:
        return f"select sweep_partitions('{table}', %(retention)s::interval, %(limit)s) as count"
    return _delete(table, age.condition, age.key, age.oldest_first) if age.condition else _OWN[age.name]


STATEMENTS: Final[Mapping[str, LiteralString]] = {age.name: _statement(table.name, age) for table in TABLES.values() for age in table.ages}


# A server that nobody starts for so long still finds parts to write to. Later rows go to the part of the rest.
MONTHS_AHEAD: Final = 3


class _Ahead(Frozen):
    ahead: timedelta


class PostgresPartitions:
    """Creates and drops the monthly partitions of a table. The functions of the schema know them, and run as the owner of the tables
    (`schema.sql`).

    Implements `ports.database.Partitions` for one table.
    """

    def __init__(self, pool: Pool, clock: Clock, table: str, retention: timedelta) -> None:
        self.table = table
        self._pool = pool
        self._clock = clock
        self._retention = retention

    async def make(self) -> Sequence[str]:
        return await ask_in_order(self._pool, str, _MAKE, {"table": self.table, "months": MONTHS_AHEAD})

    async def drop(self, up: timedelta) -> Sequence[str]:
        parameters = {"table": self.table, "retention": self._retention, "up": up, "now": self._clock.now()}
        return await ask_in_order(self._pool, str, _DROP, parameters)

    async def in_the_way(self) -> Sequence[str]:
        return await ask_in_order(self._pool, str, _IN_THE_WAY, {"table": self.table, "months": MONTHS_AHEAD})

    async def ahead(self) -> timedelta:
        return only(await ask(self._pool, _Ahead, _AHEAD, {"table": self.table})).ahead


def partitions(
    pool: Pool, clock: Clock, *, login_event_retention: timedelta, delivery_retention: timedelta, event_retention: timedelta
) -> tuple[Partitions, ...]:
    """Deliveries come before events: a month of events stays while a delivery tells one of them. So they are kept as long as deliveries."""
    return (
        PostgresPartitions(pool, clock, "login_events", login_event_retention),
        PostgresPartitions(pool, clock, "webhook_deliveries", delivery_retention),
        PostgresPartitions(pool, clock, "events", max(event_retention, delivery_retention)),
    )


_MAKE: Final = "select make_partitions(%(table)s, %(months)s) as name"
_DROP: Final = "select drop_partitions(%(table)s, %(retention)s::interval, %(up)s::interval, %(now)s::timestamptz) as name"
_IN_THE_WAY: Final = "select partitions_in_the_way(%(table)s, %(months)s) as name"

# Until the first moment that no part holds. An id begins with the milliseconds of its moment.
_AHEAD: Final = """
    with parts as materialized (select * from partitions_of(%(table)s) where not is_rest)
  select coalesce(
             to_timestamp(('x' || left(replace(min(last::text), '-', ''), 12))::bit(48)::bigint / 1000.0) - now(), '0'
         ) as ahead
    from parts
   where last > first_id_of(now())
     and exists (select from parts as one where (one.first is null or one.first <= first_id_of(now())) and one.last > first_id_of(now()))
     and not exists (select from parts as next where next.first = parts.last)
"""


class _Column(Frozen):
    """The parameters: `after` and `limit` of `all`; `header`, and `limit` of `outdated`; `row`, `old` and `new` of `replace`."""

    all: LiteralString
    outdated: LiteralString
    count: LiteralString
    replace: LiteralString


def _column(table: LiteralString, column: LiteralString, sealing: Sealing) -> _Column:
    key, context = sealing.key, sealing.context or f"{table}.{column}"
    values: LiteralString = f"select {key}::text as row, {column} as sealed, '{context}:' || {key} as context from {table}"
    # An empty value is nobody's secret. A version of before wrote one for each sign-out of a directory, in a row that lives for an hour. So
    # after one release, `is not null` will do here.
    is_sealed: LiteralString = f"{column} <> ''"
    return _Column(
        all=f"""
            {values}
             where {is_sealed} and (%(after)s::text is null or {key} > %(after)s::{sealing.key_type})
             order by {key}
             limit %(limit)s
        """,
        outdated=f"""
            {values}
             where substring({column} from 1 for length(%(header)s)) <> %(header)s and {is_sealed}
             order by {key}
             limit %(limit)s
        """,
        count=f"""
            select count(*) as values
              from {table}
             where substring({column} from 1 for length(%(header)s)) <> %(header)s and {is_sealed}
        """,
        replace=f"update {table} set {column} = %(new)s where {key} = %(row)s::{sealing.key_type} and {column} = %(old)s",
    )


_COLUMNS: Final[Mapping[str, _Column]] = {
    f"{name}.{column}": _column(table.name, column, sealing)
    for name, table in sorted(TABLES.items())
    for column, sealing in table.sealed.items()
}


class PostgresSealedColumns:
    """Lists every column of sealed values, so that a command can seal them again after a rotation of the key ring.

    Implements `ports.crypto.SealedColumns`.
    """

    def __init__(self, pool: Pool, keyring: KeyRing) -> None:
        self._pool = pool
        self._keyring = keyring

    @property
    def columns(self) -> Sequence[str]:
        return tuple(_COLUMNS)

    async def all(self, column: str, after: str | None, limit: int) -> Sequence[SealedValue]:
        return await ask(self._pool, SealedValue, _COLUMNS[column].all, {"after": after, "limit": limit})

    async def outdated(self, column: str, limit: int) -> Sequence[SealedValue]:
        parameters = {"header": self._keyring.current_header(), "limit": limit}
        return await ask(self._pool, SealedValue, _COLUMNS[column].outdated, parameters)

    async def count_outdated(self, column: str) -> int:
        return only(await ask_in_order(self._pool, int, _COLUMNS[column].count, {"header": self._keyring.current_header()}))

    async def replace(self, column: str, row: str, old: bytes, new: bytes) -> bool:
        return await tell(self._pool, _COLUMNS[column].replace, {"row": row, "old": old, "new": new}) == 1
