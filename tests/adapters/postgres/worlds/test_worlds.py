"""The functions that redeem a code and exchange a refresh token, beside the statements that did so before: over many made worlds, both
leave the same rows and give the same answers.

Both run on one database in one transaction, each from the same savepoint. So they meet two copies of one database that are alike to the
last bit, `now()` included, and a world is filled once. What they leave is read whole, of every table that either of them may write to. What
each of them draws for itself is left out. What others do meanwhile is not met here: see tests/security.

The ordinary run compares 300 worlds, and `POSTERN_TEST_VISITS=every` compares 2 000, the 300 among them.
"""

import json
import os
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from functools import partial
from typing import Any, Final, Literal, LiteralString, NamedTuple, TypeVar
from uuid import UUID

import psycopg
import pytest
from psycopg.types.json import Jsonb

from adapters.postgres.federation import authorization_codes
from adapters.postgres.identity.sessions import refresh_tokens
from core.domain.federation.oauth.authorization_codes import Redeemed, Untargeted
from core.domain.identity.sessions import PLATFORM
from tests.adapters.postgres.worlds import faults, former_statements
from tests.adapters.postgres.worlds.made import CodeWorld, MadeWorld, TokenWorld
from tests.adapters.postgres.worlds.parts import OF_EXCHANGE, OF_REDEMPTION, Compared
from tests.adapters.postgres.worlds.rows import TABLES
from tests.patience import PATIENCE

WORLDS: Final = 2000 if os.environ.get("POSTERN_TEST_VISITS") == "every" else 300
# How often each outcome and each rare part has to be met.
OFTEN: Final = WORLDS // 100

# What a redemption or an exchange may write to, by itself or by a trigger. Left out is what each run draws for itself.
WRITTEN: Final[Mapping[LiteralString, LiteralString]] = {
    "sessions": "to_jsonb(one)",
    "refresh_tokens": "to_jsonb(one)",
    "authorization_codes": "to_jsonb(one)",
    "login_events": "to_jsonb(one) - 'salt'",
    "uncounted_logins": "to_jsonb(one)",
    "events": "to_jsonb(one)",
    "webhook_deliveries": "to_jsonb(one) || jsonb_build_object('id', left(one.id::text, 15))",
    "sign_in_pending": "to_jsonb(one)",
    "held_accounts": "to_jsonb(one)",
    "service_users": "to_jsonb(one)",
    "service_user_marks": "to_jsonb(one)",
    "all_services": "to_jsonb(one)",
    "jobs": "to_jsonb(one) || jsonb_build_object('id', left(one.id::text, 15))",
}
_READ: Final[LiteralString] = " union all ".join(f"select '{table}', ({row})::text from {table} as one" for table, row in WRITTEN.items())
_COUNT_WRITES: Final = """
    select coalesce(pg_partition_root(relid), relid)::regclass::text, sum(n_tup_ins + n_tup_upd + n_tup_del)
      from pg_stat_xact_user_tables
     group by 1
"""
# What is written is looked for in all tables in every tenth world. Dead rows are cleared away after a hundred.
_LOOKS: Final = 10
_CLEARS: Final = 100

Connection = psycopg.Connection[tuple[Any, ...]]
Kept = Counter[tuple[str, str]]
W = TypeVar("W", bound=MadeWorld)


class BothAsked(NamedTuple):
    """What is asked of the statement of before and of the function."""

    former: LiteralString
    today: LiteralString
    parameters: Mapping[str, Any]
    answer: Callable[[Sequence[str], Sequence[tuple[Any, ...]]], Any]
    """The answer that callers of the store get, of the names of the columns and the rows of either."""
    has_ended: bool = False
    """The caller asks for what ended after it had looked: the statement of before did not look again, and the function does."""


def by_service(world: CodeWorld) -> BothAsked:
    claim, opening = world.claim(), world.opening()

    def answer(_: Sequence[str], rows: Sequence[tuple[Any, ...]]) -> Any:
        return authorization_codes._Presented(*rows[0]).found(PLATFORM, opening, world.at, claim.resource) if rows else None

    parameters = {"service": UUID(world.asks), **authorization_codes._parameters(claim, opening, world.at)}
    # Whoever has authenticated a client has seen that its organization is active.
    has_ended = world.organization["status"] != "active" or world.organization["deleted_at"] is not None
    return BothAsked(former_statements.REDEEM, authorization_codes.REDEEM, parameters, answer, has_ended)


def by_secret(world: CodeWorld) -> BothAsked:
    claim, opening = world.claim(), world.opening()

    def answer(_: Sequence[str], rows: Sequence[tuple[Any, ...]]) -> Any:
        if not rows:
            return None, None
        client, presented = authorization_codes._met(*rows[0])
        return client, None if presented is None else presented.found(PLATFORM, opening, world.at, claim.resource)

    shown = None if world.shown is None else world.shown.hex()
    parameters = {"client": world.client, "secret": shown, **authorization_codes._parameters(claim, opening, world.at)}
    return BothAsked(former_statements.REDEEM_WITH_SECRET, authorization_codes.REDEEM_WITH_SECRET, parameters, answer)


def exchange(world: TokenWorld) -> BothAsked:
    def answer(names: Sequence[str], rows: Sequence[tuple[Any, ...]]) -> Any:
        # The statement of before knows no hooks, and no world has one.
        return refresh_tokens._Presented(**{"is_kept_out": False, **dict(zip(names, rows[0], strict=True))}).presented() if rows else None

    return BothAsked(former_statements.ROTATE, refresh_tokens._ROTATE, world.asks, answer)


def fill(connection: Connection, world: MadeWorld) -> None:
    with connection.pipeline():
        for table, rows in world.rows():
            columns = ", ".join(rows[0])
            # The account of a member may be held by the membership already.
            conflict = "on conflict do nothing" if table == "held_accounts" else ""
            statement = f"insert into {table} ({columns}) select {columns} from jsonb_populate_recordset(null::{table}, %s) {conflict}"
            connection.execute(statement.encode(), [Jsonb(rows, dumps=_dumps)], prepare=True)


def _dumps(rows: Any) -> str:
    return json.dumps(rows, default=datetime.isoformat)


def read(connection: Connection) -> Kept:
    return Counter(connection.execute(_READ, prepare=True).fetchall())


def count_writes(connection: Connection) -> Mapping[str, int]:
    return dict(connection.execute(_COUNT_WRITES).fetchall())


def run(connection: Connection, statement: LiteralString, call: BothAsked) -> tuple[Any, Kept]:
    with connection.transaction(force_rollback=True):
        cursor = connection.execute(statement, call.parameters, prepare=True)
        names = [column.name for column in cursor.description or ()]
        answer = call.answer(names, cursor.fetchall())
        return answer, read(connection)


@contextmanager
def filled(connection: Connection, make: Callable[[datetime], W]) -> Iterator[W]:
    with connection.transaction(force_rollback=True):
        ((now,),) = connection.execute("select now()").fetchall()
        world = make(now)
        fill(connection, world)
        yield world


def compare(connection: Connection, world: MadeWorld, call: BothAsked) -> Compared:
    before, writes = read(connection), count_writes(connection) if world.number // 2 % _LOOKS == 0 else {}
    former = run(connection, call.former, call)
    today = run(connection, call.today, call)
    if call.has_ended and former != today:
        assert isinstance(former[0], Redeemed | Untargeted), f"refused before, too, in {world}"
        former = None, before
    assert today[0] == former[0], f"the answer in {world}"
    assert today[1] == former[1], f"rows in {world}: {today[1] - former[1]} in place of {former[1] - today[1]}"
    if writes:
        beside = {table for table, count in count_writes(connection).items() if count > writes.get(table, 0)} - {*WRITTEN}
        assert not beside, f"nobody compares what was written in {world}"
    return Compared(former[0], Counter(table for table, _ in today[1] - before))


def clear(connection: Connection, number: int) -> None:
    if number // 2 % _CLEARS == 0:
        connection.execute(f"vacuum {', '.join({*TABLES, *WRITTEN})}".encode())


def test_a_code_is_redeemed_as_before(database_url: str) -> None:
    met: Counter[str] = Counter()
    with psycopg.connect(database_url, autocommit=True) as connection:
        for number in range(0, WORLDS, 2):
            with filled(connection, partial(_world_of_code, number)) as world:
                for call in (by_service(world), by_secret(world)):
                    outcome = compare(connection, world, call)
                    met.update(part for part, is_met in OF_REDEMPTION.items() if is_met(world, outcome))
            clear(connection, number)
    assert not {part: met[part] for part in OF_REDEMPTION if met[part] < OFTEN}
    # Both callers ask in each world.
    assert met["redeemed"] >= WORLDS / 3


def test_a_refresh_token_is_exchanged_as_before(database_url: str) -> None:
    met: Counter[str] = Counter()
    with psycopg.connect(database_url, autocommit=True) as connection:
        for number in range(1, WORLDS, 2):
            with filled(connection, partial(_world_of_token, number)) as world:
                outcome = compare(connection, world, exchange(world))
                met.update(part for part, is_met in OF_EXCHANGE.items() if is_met(world, outcome))
            clear(connection, number)
    assert not {part: met[part] for part in OF_EXCHANGE if met[part] < OFTEN}
    # Three in ten: so many faults are met alone.
    assert met["rotated"] >= WORLDS * 3 / 20


@pytest.mark.parametrize("which", ["former", "today"])
def test_both_ring_for_a_webhook(database_url: str, which: Literal["former", "today"]) -> None:
    """A notification comes with the commit, and the comparison commits nothing."""
    with psycopg.connect(database_url, autocommit=True) as connection:
        world = _world_with_webhook(connection)
        fill(connection, world)
        connection.execute("listen postern")
        call = by_service(world)
        connection.execute(call.former if which == "former" else call.today, call.parameters)
        (rung,) = connection.notifies(timeout=PATIENCE, stop_after=1)
    assert (rung.channel, rung.payload) == ("postern", "webhooks")


def _world_with_webhook(connection: Connection) -> CodeWorld:
    for number in range(0, WORLDS, 2):
        with filled(connection, partial(_world_of_code, number)) as world:
            written = compare(connection, world, by_service(world)).written
        if written["webhook_deliveries"] and not written["jobs"]:
            return world
    pytest.fail("no world has a webhook")


def _world_of_code(number: int, now: datetime) -> CodeWorld:
    return faults.put_into(CodeWorld(number, now), faults.OF_CODE, whole=2)


def _world_of_token(number: int, now: datetime) -> TokenWorld:
    return faults.put_into(TokenWorld(number, now), faults.OF_TOKEN, whole=1)
