"""Statements that are told along with their neighbours leave as one."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final, LiteralString
from uuid import UUID

import pytest
import trio
from psycopg.errors import ForeignKeyViolation, InvalidTextRepresentation

from adapters.postgres.driver.connection import Connection, RoundTrips, round_trips
from adapters.postgres.rows import IdRow
from adapters.postgres.transaction import ON_PURPOSE, Transaction, TransactionOver, demanding, required
from tests.adapters.postgres.conftest import Store

USER: Final = "insert into users (id, email, email_key) values (%(id)s, %(email)s, %(email)s)"
SESSION: Final = """
    insert into sessions (id, user_id, created_at, last_seen_at, expires_at) values (%(id)s, %(user)s, now(), now(), now())
"""
HELD: Final = demanding("with held as (select id from users where id = %(id)s for share) select id from held")
RENAME: Final = "update users set email = %(email)s where id = %(id)s"


class NotThere(Exception):
    """What is demanded in these tests is not there."""


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


async def test_what_is_demanded_is_known_after_the_commit_in_one_round_trip(store: Store) -> None:
    async with transaction(store) as opened:
        await opened.tell(USER, {"id": number(1), "email": "a"})
        await opened.commit()
    async with transaction(store) as opened:
        round_trips.set(trips := RoundTrips())
        held = await opened.demand(IdRow, HELD, NotThere, {"id": number(1)})
        await opened.tell_along(USER, {"id": number(2), "email": "b"})
        await opened.commit()
        assert await held() == [IdRow(number(1))]
        assert trips.count == 1
    assert await store.count("users") == 2


async def test_what_is_demanded_may_change_something_itself(store: Store) -> None:
    """Each of its parts stands beside what is told along with it."""
    statement: LiteralString = f"""
        with added as (insert into users (id, email, email_key) values (%(id)s, 'c', 'c') on conflict (id) do nothing returning id)
        select added.id from (values (true)) as this (look) left join added on this.look where {required("added.id is not null")}
    """
    async with transaction(store) as opened:
        round_trips.set(trips := RoundTrips())
        added = await opened.demand(IdRow, statement, NotThere, {"id": number(1)})
        await opened.tell_along(USER, {"id": number(2), "email": "b"})
        await opened.commit()
        assert await added() == [IdRow(number(1))]
        assert trips.count == 1
    async with transaction(store) as opened:
        await opened.demand(IdRow, statement, NotThere, {"id": number(1)})
        await opened.tell_along(USER, {"id": number(3), "email": "d"})
        with pytest.raises(NotThere):
            await opened.commit()
    assert await store.count("users") == 2


async def test_without_what_is_demanded_nothing_happens(store: Store) -> None:
    async with transaction(store) as opened:
        await opened.demand(IdRow, HELD, NotThere, {"id": number(1)})
        await opened.tell_along(USER, {"id": number(2), "email": "b"})
        await opened.tell(USER, {"id": number(3), "email": "c"})
        with pytest.raises(NotThere):
            await opened.commit()
    assert await store.count("users") == 0
    # The connection is as good as before.
    async with transaction(store) as opened:
        await opened.tell(USER, {"id": number(1), "email": "a"})
        await opened.commit()
    assert await store.count("users") == 1


async def test_whoever_reads_the_log_of_postgresql_is_told_that_nothing_is_wrong(store: Store) -> None:
    async with transaction(store) as opened:
        await opened.demand(IdRow, HELD, NotThere, {"id": number(1)})
        with pytest.raises(NotThere) as refusal:
            await opened.commit()
    error = refusal.value.__context__
    assert isinstance(error, InvalidTextRepresentation)
    assert ON_PURPOSE in (error.diag.message_primary or "")


async def test_another_error_is_none_of_what_is_demanded(store: Store) -> None:
    async with transaction(store) as opened:
        await opened.demand(IdRow, demanding("select 'x'::text::integer as id"), NotThere, {})
        with pytest.raises(InvalidTextRepresentation):
            await opened.commit()


async def test_after_a_demand_nothing_is_asked(store: Store) -> None:
    async with transaction(store) as opened:
        await opened.demand(IdRow, HELD, NotThere, {"id": number(1)})
        with pytest.raises(TransactionOver):
            await opened.ask(IdRow, "select id from users")


async def test_what_is_demanded_is_not_known_before_the_commit(store: Store) -> None:
    async with transaction(store) as opened:
        held = await opened.demand(IdRow, HELD, NotThere, {"id": number(1)})
        with pytest.raises(TransactionOver):
            await held()


async def test_what_is_demanded_is_locked_before_what_is_told_along_with_it(store: Store) -> None:
    async with transaction(store) as opened:
        await opened.tell(USER, {"id": number(1), "email": "a"})
        await opened.tell(USER, {"id": number(2), "email": "b"})
        await opened.commit()

    async def change() -> None:
        async with transaction(store) as opened:
            await opened.demand(IdRow, HELD, NotThere, {"id": number(1)})
            await opened.tell_along(RENAME, {"id": number(2), "email": "c"})
            await opened.tell_along(USER, {"id": number(3), "email": "d"})
            await opened.commit()

    async with await Connection.connect(store.url) as other, trio.open_nursery() as nursery:
        await other.execute("begin")
        await other.execute("select from users where id = %s for update", [number(1)])
        nursery.start_soon(change)
        await store.somebody_waits()
        # Nobody holds the other one while they wait.
        await other.execute("select from users where id = %s for update nowait", [number(2)])
        await other.execute("rollback")
    assert await store.query("select email from users order by id") == [{"email": "a"}, {"email": "c"}, {"email": "d"}]


FREE: Final = "select id from users where id = %(id)s for no key update"


async def test_what_is_demanded_along_is_needed_as_well(store: Store) -> None:
    async with transaction(store) as opened:
        await opened.tell(USER, {"id": number(1), "email": "a"})
        await opened.tell(USER, {"id": number(2), "email": "b"})
        await opened.commit()
    for along, new in ((2, 3), (7, 4)):
        async with transaction(store) as opened:
            round_trips.set(trips := RoundTrips())
            held = await opened.demand(IdRow, HELD, NotThere, {"id": number(1)})
            await opened.tell_along(USER, {"id": number(new), "email": str(new)})
            await opened.demand_along(f"{RENAME} returning id", {"id": number(along), "email": "c"})
            if along == 2:
                await opened.commit()
                assert await held() == [IdRow(number(1))]
            else:
                with pytest.raises(NotThere):
                    await opened.commit()
            assert trips.count == 1
    assert await store.query("select email from users order by id") == [{"email": "a"}, {"email": "c"}, {"email": "3"}]


async def test_without_a_demand_nothing_is_demanded_along(store: Store) -> None:
    async with transaction(store) as opened:
        with pytest.raises(TransactionOver):
            await opened.demand_along(FREE, {"id": number(1)})


async def test_what_is_demanded_is_locked_before_what_is_demanded_along_with_it(store: Store) -> None:
    async with transaction(store) as opened:
        await opened.tell(USER, {"id": number(1), "email": "a"})
        await opened.tell(USER, {"id": number(2), "email": "b"})
        await opened.commit()

    async def look() -> None:
        async with transaction(store) as opened:
            await opened.demand(IdRow, HELD, NotThere, {"id": number(1)})
            await opened.demand_along(FREE, {"id": number(2)})
            await opened.commit()

    async with await Connection.connect(store.url) as other, trio.open_nursery() as nursery:
        await other.execute("begin")
        await other.execute("select from users where id = %s for update", [number(1)])
        nursery.start_soon(look)
        await store.somebody_waits()
        # Nobody holds the other one while they wait.
        await other.execute("select from users where id = %s for update nowait", [number(2)])
        await other.execute("rollback")
