"""Requests that meet another transaction on the same rows."""

from collections.abc import Awaitable, Callable
from typing import Any, LiteralString

import psycopg
import trio

from tests.http.client import Received
from tests.http.people import People

Statement = tuple[LiteralString, Any]


async def behind(
    people: People, database_url: str, first: Statement, then: Statement, request: Callable[[], Awaitable[Received]]
) -> Received:
    """The answer to a request that waits for a transaction that has locked `first` and then locks `then`. Both are statements with the id
    that each is about; both lock and change nothing. If the request holds the lock of `then` already, the two would wait for each other;
    `nowait` makes the second statement fail at once.
    """
    answers: list[Received] = []

    async def ask() -> None:
        answers.append(await request())

    with psycopg.connect(database_url) as other:
        other.execute(first[0], [first[1]])
        async with trio.open_nursery() as nursery:
            nursery.start_soon(ask)
            await people.somebody_waits()
            try:
                other.execute(f"{then[0]} nowait", [then[1]])
            finally:
                other.rollback()
    (answer,) = answers
    return answer
