"""Requests that meet somebody else who takes the same rows."""

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
    """What a request is answered that waits for somebody who has taken `first` and takes `then` too. Those are statements, each with the id
    that it is about, which lock and change nothing. Where the request has the second already, the two would wait for each other; `nowait`
    tells so at once.
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
