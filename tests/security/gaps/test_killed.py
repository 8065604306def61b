"""The server or its backend dies in the middle of a redemption and of a refresh: all of it has happened, or nothing."""

import json
import signal
import subprocess
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Final
from urllib.parse import urlencode

import psycopg
import trio

from adapters.crypto.key_ring import EncryptionKey
from core.domain.secrets import Password
from tests.http.client import Received
from tests.http.federation.relying import CALLBACK, FORM, TOKEN, VERIFIER
from tests.http.locks import Statement
from tests.http.people import BASE_URL
from tests.http.signing_in import LOGIN, PASSWORD
from tests.patience import PATIENCE
from tests.places import ROOT
from tests.security.gaps.meeting import GapScene, outcome

# All that a sign-in writes to, besides the guess that it has taken.
OF_SIGN_IN: Final = ("sessions", "refresh_tokens", "devices", "login_events", "events", "service_users", "jobs")
GRANT: Final = (400, "invalid_grant")
WAITING: Final = "select pid from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'"
AT_WORK: Final = "select from pg_stat_activity where datname = current_database() and state = 'active' and pid <> pg_backend_pid()"
# All that a redemption or a refresh writes to, of people without a directory.
TABLES: Final = ("authorization_codes", "sessions", "refresh_tokens", "login_events", "events", "service_users")


async def killed_at(meeting: GapScene, lock: Statement, environment: Mapping[str, str], requests: Sequence[tuple[str, str, str]]) -> None:
    """A server of its own gets the requests, and is killed while all of them wait for the lock. Returns when its backends have ended."""
    with psycopg.connect(meeting.database_url) as other:
        meeting.hold(other, lock)
        server = [sys.executable, "-m", "tests.security.gaps.killed_server"]
        with subprocess.Popen(server, cwd=ROOT, stdin=subprocess.PIPE, text=True) as process:
            assert process.stdin is not None
            process.stdin.write(json.dumps([environment, requests]))
            process.stdin.close()
            await meeting.people.all_wait(len(requests))
            process.send_signal(signal.SIGKILL)
        assert process.returncode == -signal.SIGKILL
        other.rollback()
    with trio.fail_after(PATIENCE):
        while meeting.people.rows(AT_WORK):
            await trio.sleep(0.01)


def environment_of(meeting: GapScene, folder: Path) -> Mapping[str, str]:
    return {
        "POSTERN_DATABASE_URL": meeting.database_url,
        "POSTERN_DATA_DIR": str(folder),
        "POSTERN_BASE_URL": BASE_URL,
        "POSTERN_ENCRYPTION_KEYS": EncryptionKey("test", b"k" * 32).line(),
    }


async def test_a_killed_server_leaves_all_or_nothing(meeting: GapScene, tmp_path: Path) -> None:
    """PostgreSQL does not look for a client that is gone, so it does all of what it was asked for."""
    tokens = await meeting.signed_in(meeting.shop)
    code = await meeting.plain(meeting.shop)
    redeems = {"grant_type": "authorization_code", "code": code, "redirect_uri": CALLBACK, "code_verifier": VERIFIER}
    refreshes = {"grant_type": "refresh_token", "refresh_token": tokens["refresh_token"]}
    requests = [(TOKEN, FORM[1], urlencode({**fields, **meeting.shop.posted})) for fields in (redeems, refreshes)]
    await killed_at(meeting, meeting.browsers, environment_of(meeting, tmp_path), requests)
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


async def with_password(meeting: GapScene) -> Mapping[str, str]:
    """What Ada sends to sign in to the shop."""
    hashed = await meeting.postern.identity.passwords.hash(Password(PASSWORD))
    meeting.people.change("update users set password_hash = %s where id = %s", hashed, meeting.ada.user)
    return {"email": meeting.ada.email, "password": PASSWORD, "org_slug": "acme", "service_slug": "shop"}


def left_of_sign_in(meeting: GapScene) -> Mapping[str, object]:
    return {table: meeting.people.rows(f"select * from {table} order by 1") for table in OF_SIGN_IN}


async def test_a_server_that_is_killed_in_a_sign_in_leaves_the_guess_alone(meeting: GapScene, tmp_path: Path) -> None:
    """It has looked the account up and waits for its last look. Whoever kills servers gets no guess back."""
    body = await with_password(meeting)
    before = left_of_sign_in(meeting)
    await killed_at(meeting, meeting.account, environment_of(meeting, tmp_path), [(LOGIN, "application/json", json.dumps(body))])
    assert left_of_sign_in(meeting) == before
    (bucket,) = meeting.people.rows("select tokens from rate_limit_buckets where limit_name = 'sign_in_account'")
    assert bucket["tokens"] == 9
    meeting.kept((await meeting.client.post(LOGIN, body)).ok())


async def test_a_backend_that_is_killed_in_a_sign_in_leaves_the_guess_alone(meeting: GapScene) -> None:
    body = await with_password(meeting)
    before = left_of_sign_in(meeting)
    answers: list[Received] = []

    async def asks() -> None:
        answers.append(await meeting.client.post(LOGIN, body))

    with psycopg.connect(meeting.database_url) as other:
        meeting.hold(other, meeting.account)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(asks)
            await meeting.people.all_wait(1)
            for (pid,) in other.execute(WAITING).fetchall():
                other.execute("select pg_terminate_backend(%s)", [pid])
        other.rollback()
    assert [answer.status for answer in answers] == [503]
    assert left_of_sign_in(meeting) == before
    meeting.kept((await meeting.client.post(LOGIN, body)).ok())
