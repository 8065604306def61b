"""What a redemption and a refresh neither wait for nor answer: rows that are being deleted, a server that takes no writes, and a rule that
answers nothing.
"""

from hashlib import sha256
from typing import Any, Final

import psycopg
import pytest
import trio

from adapters.postgres import statements
from adapters.postgres.driver.connection import Connection
from tests.http.signing_in import REFRESH
from tests.patience import PATIENCE
from tests.security.gaps.meeting import GapScene

_LONG_AGO: Final = (
    "update sessions set expires_at = now() - interval '40 days', ends_at = now() - interval '40 days' where scopes is not null"
)
_END_THE_OTHERS: Final = b"""
    select pg_terminate_backend(pid) from pg_stat_activity
     where datname = current_database() and pid <> pg_backend_pid() and application_name like 'postern%'
"""
_ANSWERS_NOTHING: Final = """
    create or replace function audience_fits(open jsonb, granted jsonb, named text, asked text[]) returns boolean
        language plpgsql immutable as $$ begin return null; end $$
"""


@pytest.mark.parametrize(
    "end", [_LONG_AGO, "update all_organizations set deleted_at = now()", "update all_services set deleted_at = now()"]
)
async def test_a_refresh_of_what_is_being_deleted_waits_for_nobody(meeting: GapScene, end: str) -> None:
    """Whoever deletes has the session first and its tokens next, so a refresh that held its token would wait for a deadlock."""
    tokens = await meeting.signed_in(meeting.page)
    meeting.people.change(end)
    digest = sha256(tokens["refresh_token"].encode()).digest()
    (row,) = meeting.people.rows("select session_id from refresh_tokens where digest = %s", digest)
    with psycopg.connect(meeting.database_url) as other:
        other.execute("select from sessions where id = %s for update", [row["session_id"]])
        with trio.fail_after(PATIENCE):
            answer = await meeting.client.post(REFRESH, {"refresh_token": tokens["refresh_token"]})
    assert answer.status == 401


@pytest.mark.parametrize("kind", ["shop", "page"])
async def test_a_server_that_takes_no_writes_refuses_no_code(meeting: GapScene, kind: str) -> None:
    """It may lack a code that the server which takes writes has, so its word would be final and wrong."""
    application = getattr(meeting, kind)
    code = await meeting.plain(application)
    meeting.people.change("delete from authorization_codes")

    async def turn(change: str) -> None:
        async with await Connection.connect(meeting.database_url, options="-c default_transaction_read_only=off") as connection:
            await connection.execute(f"alter database {connection.info.dbname} {change}".encode())
            await connection.execute(_END_THE_OTHERS)

    await turn("set default_transaction_read_only = on")
    try:
        answers = [await meeting.redeem(application, code) for _ in range(2)]
    finally:
        await turn("reset default_transaction_read_only")
    assert [answer.status for answer in answers] == [503, 503]


async def test_a_rule_that_answers_nothing_opens_nothing(meeting: GapScene, monkeypatch: pytest.MonkeyPatch) -> None:
    code = await meeting.of_api()
    asked: list[tuple[Any, Any]] = []

    async def ask(_pool: Any, _row: Any, statement: Any, parameters: Any = None) -> list[Any]:
        asked.append((statement, parameters))
        return []

    with monkeypatch.context() as patched:
        patched.setattr(statements, "ask_in_order", ask)
        await meeting.redeem(meeting.shop, code)
    ((statement, parameters),) = [one for one in asked if "redeem_code" in one[0]]
    with psycopg.connect(meeting.database_url, row_factory=psycopg.rows.dict_row) as other:
        other.execute(_ANSWERS_NOTHING)
        assert [row["redeemed"] for row in other.execute(statement, parameters).fetchall()] == [False]
        assert other.execute("select from refresh_tokens").fetchall() == []
        other.rollback()
