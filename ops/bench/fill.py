"""Fills a database with people by COPY, straight into the tables: no way in through the product is that quick."""

import base64
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from uuid import UUID

import psycopg
from psycopg import sql

from adapters.system import SystemIds

_DAY = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class Person:
    """A user with a live session."""

    user: UUID
    session: UUID
    email: str


def fill(database_url: str, users: int) -> Sequence[Person]:
    """Add so many users, each with one live session. May be repeated: their addresses are random."""
    ids, run = SystemIds(), base64.b32encode(os.urandom(5)).decode().lower()
    now = datetime.now(UTC)
    people = [Person(ids.new(), ids.new(), f"person-{number}@{run}.example") for number in range(users)]
    with psycopg.connect(database_url) as connection:
        copy(
            connection,
            "users",
            ("id", "email", "email_key", "email_verified_at", "created_at"),
            ((one.user, one.email, one.email, now, now - _DAY) for one in people),
        )
        copy(
            connection,
            "sessions",
            ("id", "user_id", "created_at", "last_seen_at", "expires_at"),
            ((one.session, one.user, now - _DAY, now - _DAY, now + 30 * _DAY) for one in people),
        )
        connection.commit()
        connection.autocommit = True
        connection.execute("analyze users, sessions")
    return people


def copy(connection: psycopg.Connection[tuple[object, ...]], table: str, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    statement = sql.SQL("copy {} ({}) from stdin").format(sql.Identifier(table), sql.SQL(", ").join(map(sql.Identifier, columns)))
    with connection.cursor() as cursor, cursor.copy(statement) as stream:
        for row in rows:
            stream.write_row(row)
