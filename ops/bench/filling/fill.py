"""Writes rows straight into the tables of a database, because the product's own way is too slow for millions of them."""

import base64
import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final, LiteralString
from uuid import UUID

import psycopg
from psycopg import sql

from adapters.postgres.embedded import SUPERUSER
from adapters.system import SystemIds

_DAY = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class Person:
    """A user with a live session."""

    user: UUID
    session: UUID
    email: str


def fill(database_url: str, users: int, encoded: str | None = None) -> Sequence[Person]:
    """Adds users by COPY, each with one live session, and with the hashed password if there is one. You may repeat the call: the addresses
    are random.
    """
    ids, run = SystemIds(), base64.b32encode(os.urandom(5)).decode().lower()
    now = datetime.now(UTC)
    people = [Person(ids.new(), ids.new(), f"person-{number}@{run}.test") for number in range(users)]
    with psycopg.connect(database_url) as connection:
        copy(
            connection,
            "users",
            ("id", "email", "email_key", "password_hash", "email_verified_at", "created_at"),
            ((one.user, one.email, one.email, encoded, now, now - _DAY) for one in people),
        )
        copy(
            connection,
            "sessions",
            ("id", "user_id", "created_at", "last_seen_at", "expires_at", "authenticated_by"),
            ((one.session, one.user, now - _DAY, now - _DAY, now + 30 * _DAY, ["pwd"]) for one in people),
        )
        connection.commit()
        connection.autocommit = True
        connection.execute("analyze users, sessions")
    return people


def copy(connection: psycopg.Connection[Any], table: str, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    statement = sql.SQL("copy {} ({}) from stdin").format(sql.Identifier(table), sql.SQL(", ").join(map(sql.Identifier, columns)))
    with connection.cursor() as cursor, cursor.copy(statement) as stream:
        for row in rows:
            stream.write_row(row)


def grow(database_url: str, users: int, sessions: int, login_events: int) -> Sequence[Person]:
    """Fills a database with users, each with one device, and with sessions, each with one refresh token; spread over half a year.
    PostgreSQL makes the rows, without indexes and checks of references meanwhile. Returns up to a thousand of the people, from the whole
    range.
    """
    with growing(database_url) as connection:
        with without_indexes(connection, _TABLES), without_triggers(connection):
            for statement in _GROW:
                connection.execute(statement, {"users": users, "sessions": sessions, "login_events": login_events})
        connection.execute(sql.SQL("vacuum analyze {}").format(sql.SQL(", ").join(map(sql.Identifier, _TABLES))))
        rows = connection.execute(_SOME, {"users": users, "sessions": sessions}).fetchall()
        connection.execute("drop table grown_users, grown_sessions")
    return [Person(*row) for row in rows]


@contextmanager
def growing(database_url: str) -> Iterator[psycopg.Connection[Any]]:
    """A connection for making many rows at once."""
    with psycopg.connect(database_url, autocommit=True) as connection:
        for setting in ("synchronous_commit = off", "maintenance_work_mem = '512MB'"):
            connection.execute(sql.SQL("set {}").format(sql.SQL(setting)))
        if connection.info.server_version < _FIRST_WITH_UUIDV7:
            connection.execute(_UUIDV7)
        yield connection


@contextmanager
def without_indexes(connection: psycopg.Connection[Any], tables: Sequence[str]) -> Iterator[None]:
    """Drops the indexes and builds them again at the end. That takes a fraction of the time of updating them."""
    indexes = connection.execute(_INDEXES, {"tables": list(tables)}).fetchall()
    keys = connection.execute(_KEYS, {"tables": list(tables)}).fetchall()
    references = connection.execute(_REFERENCES, {"tables": list(tables)}).fetchall()
    for table, name, _ in (*references, *keys):
        _change(connection, sql.SQL("alter table {} drop constraint {}").format(sql.Identifier(table), sql.Identifier(name)))
    for _, name, _ in indexes:
        _change(connection, sql.SQL("drop index {}").format(sql.Identifier(name)))
    yield
    for table, name, definition in keys:
        _change(
            connection,
            sql.SQL("alter table {} add constraint {} {}").format(sql.Identifier(table), sql.Identifier(name), sql.SQL(definition)),
        )
    for _, _, definition in indexes:
        _change(connection, sql.SQL(definition))
    for table, name, definition in references:
        # The rows fulfil the references by the way we make them, so PostgreSQL need not check them.
        _change(
            connection,
            sql.SQL("alter table {} add constraint {} {} not valid").format(
                sql.Identifier(table), sql.Identifier(name), sql.SQL(definition)
            ),
        )


def _change(connection: psycopg.Connection[Any], statement: sql.SQL | sql.Composed) -> None:
    """The server that is measured reads meanwhile, its tables in another order. Whoever loses a deadlock has changed nothing."""
    for left in reversed(range(_TRIES)):
        try:
            connection.execute(statement)
        except psycopg.errors.DeadlockDetected:
            if not left:
                raise
        else:
            return


@contextmanager
def without_triggers(connection: psycopg.Connection[Any]) -> Iterator[None]:
    """Rows that come meanwhile wake no trigger: one that looks a row up would read a whole table, whose indexes are gone. So the statements
    write themselves what the triggers would. Those between `TRIGGERS` and `NO_TRIGGERS` leave it to them.
    """
    try:
        connection.execute(NO_TRIGGERS)
    except psycopg.errors.InsufficientPrivilege:
        _let_set(connection)
        connection.execute(NO_TRIGGERS)
    yield
    connection.execute(TRIGGERS)


def _let_set(connection: psycopg.Connection[Any]) -> None:
    """Lets the application's role of an embedded server set it. The server is of this measurement alone."""
    with psycopg.connect(connection.info.dsn, user=SUPERUSER, autocommit=True) as administration:
        administration.execute(may_fill(connection.info.user))


def may_fill(role: str) -> sql.Composed:
    """What a superuser says before this role fills a database."""
    return sql.SQL("grant set on parameter session_replication_role to {}").format(sql.Identifier(role))


_TRIES: Final = 10
NO_TRIGGERS: Final = "set session_replication_role = replica"
TRIGGERS: Final = "set session_replication_role = origin"
_FIRST_WITH_UUIDV7: Final = 180_000
# As PostgreSQL 18 has it: the time, moved by the interval, then random bits. The version of a random UUID is 4, and two bits make it 7.
_UUIDV7: Final = """
    create or replace function uuidv7(shift interval default interval '0') returns uuid language sql volatile as $$
        select encode(
                   set_bit(set_bit(
                       overlay(
                           uuid_send(gen_random_uuid())
                           placing substring(int8send((extract(epoch from clock_timestamp() + shift) * 1000)::bigint) from 3)
                           from 1 for 6
                       ), 52, 1), 53, 1),
                   'hex'
               )::uuid
    $$
"""
_TABLES: Final = ("users", "devices", "sessions", "refresh_tokens", "login_events")

_INDEXES: Final = """
    select relation.relname, index.relname, replace(pg_get_indexdef(index.oid), ' ON ONLY ', ' ON ')
      from pg_index
      join pg_class as index on index.oid = pg_index.indexrelid
      join pg_class as relation on relation.oid = pg_index.indrelid
     where relation.relname = any(%(tables)s)
       and relation.relnamespace = 'public'::regnamespace
       and not exists (select from pg_constraint where conindid = index.oid and contype in ('p', 'u'))
"""

_KEYS: Final = """
    select relation.relname, conname, pg_get_constraintdef(pg_constraint.oid)
      from pg_constraint
      join pg_class as relation on relation.oid = conrelid
     where relation.relname = any(%(tables)s) and relation.relnamespace = 'public'::regnamespace and contype in ('p', 'u')
"""

# The list includes references of other tables, because a key cannot be dropped while another table refers to it.
_REFERENCES: Final = """
    select relation.relname, conname, pg_get_constraintdef(pg_constraint.oid)
      from pg_constraint
      join pg_class as relation on relation.oid = conrelid
      join pg_class as referred on referred.oid = confrelid
     where (referred.relname = any(%(tables)s) or relation.relname = any(%(tables)s))
       and relation.relnamespace = 'public'::regnamespace
       and contype = 'f'
"""

# Session n belongs to user n modulo users. Ids follow the time, as the product's ids do.
_GROW: Final[Sequence[LiteralString]] = (
    """
    create unlogged table grown_users as
    select number, age, uuidv7(-age) as id, uuidv7(-age) as device
      from generate_series(0, %(users)s - 1) as series (number),
   lateral (select interval '180 days' * (1 - number::double precision / %(users)s) as age) as ages
    """,
    "analyze grown_users",
    """
    insert into users (id, email, email_key, email_verified_at, created_at, updated_at)
    select id, 'grown-' || number || '@scale.test', 'grown-' || number || '@scale.test', now() - age, now() - age, now() - age
      from grown_users
    """,
    """
    insert into devices (id, user_id, token_digest, name, device_type, browser, os, last_used_at, last_used_week, created_at, updated_at)
    select device, id, sha256(uuid_send(device)), 'Firefox on Linux', 'browser', 'Firefox', 'Linux', now() - age / 2,
           date_trunc('week', (now() - age / 2) at time zone 'UTC')::date, now() - age, now() - age
      from grown_users
    """,
    """
    create unlogged table grown_sessions as
    select series.number, uuidv7(-ages.age) as id, grown_users.id as user_id, grown_users.device, ages.age
      from generate_series(0, %(sessions)s - 1) as series (number)
      join grown_users on grown_users.number = series.number %% %(users)s,
   lateral (select interval '29 days' * (1 - series.number::double precision / %(sessions)s) as age) as ages (age)
    """,
    "analyze grown_sessions",
    """
    insert into sessions (id, user_id, device_id, created_at, last_seen_at, expires_at, expires_day, ends_at, authenticated_by)
    select id, user_id, device, now() - age, now() - age, now() - age + interval '30 days',
           ((now() - age + interval '30 days') at time zone 'UTC')::date, now() - age + interval '90 days', '{pwd}'
      from grown_sessions
    """,
    """
    insert into refresh_tokens (digest, session_id, created_at) select sha256(uuid_send(id)), id, now() - age from grown_sessions
    """,
    """
    insert into login_events (id, user_id, device_id, provider, success, reason, address, user_agent, created_at)
    select uuidv7(-ages.age), grown_users.id, grown_users.device, 'password', series.number %% 5 > 0,
           case when series.number %% 5 = 0 then 'wrong_password' end, '192.0.2.1',
           'Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0', now() - ages.age
      from generate_series(0, %(login_events)s - 1) as series (number)
      join grown_users on grown_users.number = series.number %% %(users)s,
   lateral (select interval '180 days' * (1 - series.number::double precision / %(login_events)s) as age) as ages (age)
    """,
    """
    insert into uncounted_logins (id, organization_id, service_id, provider, hour)
    select login_events.id, organization_id, service_id, provider, date_trunc('hour', created_at, 'UTC')
      from login_events
      join grown_users on grown_users.id = login_events.user_id
     where success
        on conflict do nothing
    """,
)

# The youngest half: none of these sessions expires during the measurement.
_SOME: Final = """
    select grown_users.id, grown_sessions.id, 'grown-' || grown_users.number || '@scale.test'
      from grown_sessions
      join grown_users on grown_users.id = grown_sessions.user_id
     where grown_sessions.number >= %(sessions)s / 2 and grown_sessions.number %% greatest(1, %(sessions)s / 2000) = 0
     limit 1000
"""
