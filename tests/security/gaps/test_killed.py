"""The server or its backend dies in the middle of a redemption and of a refresh: all of it has happened, or nothing."""

import json
import signal
import subprocess
import sys
from collections.abc import Awaitable, Callable
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Final
from urllib.parse import urlencode

import psycopg
import trio

from adapters.crypto.key_ring import EncryptionKey
from tests.http.client import Received
from tests.http.federation.relying import CALLBACK, VERIFIER
from tests.http.people import BASE_URL
from tests.patience import PATIENCE
from tests.places import ROOT
from tests.security.gaps.meeting import GapScene, outcome

GRANT: Final = (400, "invalid_grant")
WAITING: Final = "select pid from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'"
AT_WORK: Final = "select from pg_stat_activity where datname = current_database() and state = 'active' and pid <> pg_backend_pid()"
# All that a redemption or a refresh writes to, of people without a directory.
TABLES: Final = ("authorization_codes", "sessions", "refresh_tokens", "login_events", "events", "service_users")


async def test_a_killed_server_leaves_all_or_nothing(meeting: GapScene, tmp_path: Path) -> None:
    """PostgreSQL does not look for a client that is gone, so it does all of what it was asked for."""
    tokens = await meeting.signed_in(meeting.shop)
    code = await meeting.plain(meeting.shop)
    environment = {
        "POSTERN_DATABASE_URL": meeting.database_url,
        "POSTERN_DATA_DIR": str(tmp_path),
        "POSTERN_BASE_URL": BASE_URL,
        "POSTERN_ENCRYPTION_KEYS": EncryptionKey("test", b"k" * 32).line(),
    }
    redeems = {"grant_type": "authorization_code", "code": code, "redirect_uri": CALLBACK, "code_verifier": VERIFIER}
    refreshes = {"grant_type": "refresh_token", "refresh_token": tokens["refresh_token"]}
    bodies = [urlencode({**fields, **meeting.shop.posted}) for fields in (redeems, refreshes)]
    given = json.dumps([environment, bodies])
    with psycopg.connect(meeting.database_url) as other:
        meeting.hold(other, meeting.browsers)
        server = [sys.executable, "-m", "tests.security.gaps.killed_server"]
        with subprocess.Popen(server, cwd=ROOT, stdin=subprocess.PIPE, text=True) as process:
            assert process.stdin is not None
            process.stdin.write(given)
            process.stdin.close()
            await meeting.people.all_wait(2)
            process.send_signal(signal.SIGKILL)
        assert process.returncode == -signal.SIGKILL
        other.rollback()
    with trio.fail_after(PATIENCE):
        while meeting.people.rows(AT_WORK):
            await trio.sleep(0.01)
    # The redemption is whole: the code is used, and its session has a token and its word in the log.
    digest = sha256(code.encode()).digest()
    (used,) = meeting.people.rows("select session_id, redeemed_at from authorization_codes where digest = %s", digest)
    assert used["redeemed_at"] is not None
    assert used["session_id"] in {row["id"] for row in meeting.opened()}
    assert len(meeting.people.rows("select from login_events")) == 2
    per_session = meeting.people.rows("select session_id, count(*) as n from refresh_tokens group by session_id order by n")
    assert [row["n"] for row in per_session] == [1, 2]
    # Nobody has the answers. Who repeats the refresh gets the successor; a code works once.
    meeting.kept((await meeting.refresh(meeting.shop, tokens["refresh_token"])).ok())
    assert len(meeting.people.rows("select from refresh_tokens")) == 3
    assert outcome(await meeting.redeem(meeting.shop, code)) == GRANT


async def test_a_killed_backend_leaves_nothing(meeting: GapScene) -> None:
    tokens = await meeting.signed_in(meeting.shop)
    code = await meeting.plain(meeting.shop)
    before = {table: meeting.people.rows(f"select * from {table} order by 1") for table in TABLES}
    answers: list[Received] = []

    async def asks(ask: Callable[[], Awaitable[Received]]) -> None:
        answers.append(await ask())

    with psycopg.connect(meeting.database_url) as other:
        meeting.hold(other, meeting.browsers)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(asks, partial(meeting.redeem, meeting.shop, code))
            nursery.start_soon(asks, partial(meeting.refresh, meeting.shop, tokens["refresh_token"]))
            await meeting.people.all_wait(2)
            for (pid,) in other.execute(WAITING).fetchall():
                other.execute("select pg_terminate_backend(%s)", [pid])
        other.rollback()
    assert [answer.status for answer in answers] == [503, 503]
    assert {table: meeting.people.rows(f"select * from {table} order by 1") for table in TABLES} == before
    meeting.kept((await meeting.redeem(meeting.shop, code)).ok())
    meeting.kept((await meeting.refresh(meeting.shop, tokens["refresh_token"])).ok())
