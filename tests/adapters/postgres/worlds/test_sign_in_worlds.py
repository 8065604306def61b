"""The functions that look a sign-in up, and look at it for the last time, beside the statements that did so before: over many made worlds,
both leave the same rows and give the same answers. As in `test_worlds.py`, both run in one transaction, from the same savepoint.

The ordinary run compares 300 worlds, and `POSTERN_TEST_VISITS=every` compares 2 000, the 300 among them.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Final, LiteralString

import psycopg
import pytest

from adapters.postgres.identity.proofs import sign_in
from core.domain.identity.sign_in import Attempt, Confirmed
from core.frozen import replace
from tests.adapters.postgres.worlds import former_sign_in
from tests.adapters.postgres.worlds.sign_ins import OF_ATTEMPT, OF_LOOK, SignInWorld
from tests.adapters.postgres.worlds.test_worlds import OFTEN, WORLDS, Connection, clear, count_writes, filled

# The two runs of one world are so many seconds apart at most: a token comes back once a minute.
_NEAR: Final = 5.0
Bucket = tuple[str, str, float, float]


def rows_of(connection: Connection, statement: LiteralString, parameters: Mapping[str, Any]) -> Sequence[dict[str, Any]]:
    cursor = connection.execute(statement, parameters, prepare=True)
    names = [column.name for column in cursor.description or ()]
    return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]


def buckets(connection: Connection) -> Sequence[Bucket]:
    """All rows, with the tokens that are left and the seconds until the bucket is full."""
    return connection.execute(
        "select limit_name, key, tokens, extract(epoch from full_at - at)::float8 from rate_limit_buckets order by limit_name, key"
    ).fetchall()


def near(one: Sequence[Bucket], other: Sequence[Bucket]) -> bool:
    return len(one) == len(other) and all(
        a[:2] == b[:2] and abs(a[2] - b[2]) < _NEAR / 60 and abs(a[3] - b[3]) < _NEAR for a, b in zip(one, other, strict=True)
    )


def found(connection: Connection, statement: LiteralString, tried: Mapping[str, Any]) -> tuple[Attempt, Sequence[Bucket], set[str]]:
    """What the look-up answers and leaves, and the tables that it wrote to."""
    before = count_writes(connection)
    with connection.transaction(force_rollback=True):
        (row,) = rows_of(connection, statement, tried)
        left = buckets(connection)
        written = {table for table, count in count_writes(connection).items() if count > before.get(table, 0)}
    return sign_in._Attempt(**row).attempt(), left, written


def confirmed(connection: Connection, statement: LiteralString, look: Mapping[str, Any]) -> tuple[Confirmed | None, set[str]]:
    before = count_writes(connection)
    with connection.transaction(force_rollback=True):
        rows = rows_of(connection, statement, look)
        written = {table for table, count in count_writes(connection).items() if count > before.get(table, 0)}
    return (sign_in._Confirmed(**rows[0]).confirmed if rows else None), written


def untimed(attempt: Attempt) -> Attempt:
    return replace(attempt, tries=replace(attempt.tries, wait=0.0))


@pytest.mark.parametrize("kind", ["find", "look"])
def test_a_sign_in_is_looked_up_and_confirmed_as_before(database_url: str, kind: str) -> None:
    met: Counter[str] = Counter()
    parts: Mapping[str, Any] = OF_ATTEMPT if kind == "find" else OF_LOOK
    with psycopg.connect(database_url, autocommit=True) as connection:
        for number in range(WORLDS):
            with filled(connection, partial(SignInWorld, number)) as world:
                answer = compare_attempts(connection, world) if kind == "find" else compare_looks(connection, world)
                met.update(part for part, is_met in parts.items() if is_met(world, answer))
            clear(connection, number)
    assert not {part: met[part] for part in parts if met[part] < OFTEN}


def compare_attempts(connection: Connection, world: SignInWorld) -> Attempt:
    tried = world.tries()
    world.further.pop("rate_limit_buckets", None)
    world.taken_before(tried)
    rows = world.further.pop("rate_limit_buckets", [])
    for one in rows:
        fill_one(connection, one)
    place = sign_in._Place[world.place]
    former, left, wrote = found(connection, former_sign_in.FIND[world.with_token, place], tried)
    today, leaves, writes = found(connection, sign_in._FIND[world.with_token, place], tried)
    assert untimed(today) == untimed(former), f"the answer in {world}"
    assert (today.tries.wait > 0) == (former.tries.wait > 0), f"the wait in {world}"
    assert abs(today.tries.wait - former.tries.wait) < _NEAR, f"the wait in {world}"
    assert near(left, leaves), f"rows in {world}: {leaves} in place of {left}"
    assert writes == wrote == {"rate_limit_buckets"}, f"in {world}"
    return former


def fill_one(connection: Connection, row: Mapping[str, Any]) -> None:
    connection.execute(
        "insert into rate_limit_buckets (limit_name, key, tokens, at, wait, full_at)"
        " values (%(limit_name)s, %(key)s, %(tokens)s, %(at)s, %(wait)s, %(full_at)s)",
        row,
    )


def compare_looks(connection: Connection, world: SignInWorld) -> Confirmed | None:
    look = world.looks()
    offers = look["offered_again_after"] is not None
    former, wrote = confirmed(connection, former_sign_in.LAST_LOOK[offers], look)
    today, writes = confirmed(connection, sign_in._LAST_LOOK[offers], look)
    assert today == former, f"the answer in {world}"
    assert writes == wrote == set(), f"in {world}"
    return former
