"""Statements that are told along with their neighbours leave as one."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final, LiteralString
from uuid import UUID

import pytest
from psycopg.errors import ForeignKeyViolation

from adapters.postgres.columns import IdRow
from adapters.postgres.statements import Transaction
from tests.adapters.postgres.conftest import Store

USER: Final = "insert into users (id, email, email_key) values (%(id)s, %(email)s, %(email)s)"
SESSION: Final = """
    insert into sessions (id, user_id, created_at, last_seen_at, expires_at) values (%(id)s, %(user)s, now(), now(), now())
"""
RENAME: Final = "update users set email = %(email)s where id = %(id)s"


@asynccontextmanager
async def transaction(store: Store) -> AsyncIterator[Transaction]:
    async with store.pool.connection() as connection, connection.pipelined_transaction() as pipelined:
        yield Transaction(connection, pipelined)


def number(which: int) -> UUID:
    return UUID(int=which)


async def test_those_told_one_after_the_other_are_one_statement_each_with_its_own_parameters(store: Store) -> None:
    # Known by this: the connection may have served other tests, whose statements it still knows.
    user: LiteralString = f"{USER} /* one of these */"
    async with transaction(store) as opened:
        await opened.tell_along(user, {"id": number(1), "email": "a"})
        await opened.tell_along(user, {"id": number(2), "email": "b"})
        # It refers to a row that the same statement makes.
        await opened.tell_along(SESSION, {"id": number(3), "user": number(2)})
        await opened.commit()
    assert await store.query("select id, email from users order by id") == [
        {"id": number(1), "email": "a"},
        {"id": number(2), "email": "b"},
    ]
    assert await store.query("select user_id from sessions") == [{"user_id": number(2)}]
    async with store.pool.connection() as connection:
        cursor = await connection.execute("select count(*) from pg_prepared_statements where statement like '%one of these%'")
        assert await cursor.fetchall() == [(1,)]


async def test_later_statements_see_what_was_told_along_before(store: Store) -> None:
    async with transaction(store) as opened:
        await opened.tell_along(USER, {"id": number(1), "email": "a"})
        assert await opened.ask(IdRow, "select id from users") == [IdRow(number(1))]
        await opened.tell_along(USER, {"id": number(2), "email": "b"})
        await opened.tell(RENAME, {"id": number(2), "email": "c"})
        await opened.tell_along(USER, {"id": number(3), "email": "d"})
        await opened.commit()
    assert await store.query("select email from users order by id") == [{"email": "a"}, {"email": "c"}, {"email": "d"}]


async def test_what_was_told_along_and_not_committed_is_gone(store: Store) -> None:
    async with transaction(store) as opened:
        await opened.tell_along(USER, {"id": number(1), "email": "a"})
    assert await store.count("users") == 0


async def test_one_that_violates_a_constraint_fails_all_and_says_which(store: Store) -> None:
    async with transaction(store) as opened:
        await opened.tell_along(USER, {"id": number(1), "email": "a"})
        await opened.tell_along(SESSION, {"id": number(3), "user": number(2)})
        with pytest.raises(ForeignKeyViolation) as raised:
            await opened.commit()
    assert raised.value.diag.constraint_name == "sessions_user_id_fkey"
    assert await store.count("users") == 0
