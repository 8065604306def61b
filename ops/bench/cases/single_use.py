"""Fifty clients use the same single-use thing at once: a code of an authenticator, a backup code, a pre-auth token, a mailed link, a
refresh token, and the codes and requests of the OpenID provider.
"""

import json
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Final

import psycopg
import pyotp
import trio

from adapters.crypto.factors import HmacBackupCodes
from core.domain.identifiers import UserId
from core.domain.identity.mfa import backup_code, sealing_context
from core.domain.identity.sign_in import preauthentication_claims
from core.domain.secrets import Token
from entrypoints.bootstrap import Postern
from entrypoints.settings import read
from ops.bench.cases.races import AT_ONCE, Round
from ops.bench.cases.single_use_federation import (
    codes_given,
    given_and_living,
    prepare_codes,
    prepare_device_codes,
    prepare_mailed_codes,
    prepare_pushed_requests,
    prepare_sign_in_links,
)
from ops.bench.filling.fill import Person, copy, fill
from ops.bench.harness import Options, Server, directory, serving
from ops.bench.inside import postern_of
from ops.bench.load import Answer, Client, Target
from ops.bench.report import Figure, at_least, at_most

NEW_PASSWORD: Final = "seven measured harbours at noon"  # noqa: S105 - of people made up
_HOUR: Final = timedelta(hours=1)

# Hashing is not measured here, and fifty resets hash fifty passwords.
_SETTINGS: Final = {"POSTERN_ARGON2_MEMORY": "8KiB", "POSTERN_ARGON2_PASSES": "1"}

# The statuses that grant, send on, or refuse.
_EXPECTED: Final = frozenset({200, 303, 400, 401})

# The rate limit for codes would let ten of the fifty through. Here all must meet.
_NO_WAITING: Final = """
    create function bench_no_waiting() returns trigger language plpgsql as 'begin new.wait := 0; return new; end';
    create trigger bench_no_waiting before insert or update on rate_limit_buckets for each row execute function bench_no_waiting();
"""


@dataclass(slots=True)
class _Result:
    successes: list[int] = field(default_factory=list)
    statuses: Counter[int] = field(default_factory=Counter)

    @property
    def exact(self) -> int:
        return sum(count == 1 for count in self.successes)


async def redeem(options: Options) -> Sequence[Figure]:
    """Fifty clients redeem the same single-use thing at once over kept connections, in many rounds: exactly one succeeds each time. A
    refresh token rotates exactly once; clients that repeat within the grace get the same successor.
    """
    figures = []
    with directory() as place:
        async with serving(place, settings=_SETTINGS) as server:
            await trio.to_thread.run_sync(_let_all_through, server.database_url)
            async with _connections(server) as clients:
                for name, prepare, count in _KINDS:
                    async with postern_of(server.settings) as postern:
                        rounds = await prepare(server, postern, options.rounds)
                    result = _Result()
                    began = trio.current_time()
                    for one in rounds:
                        answers = await _at_once(server, clients, one)
                        result.statuses.update(answer.status for answer in answers)
                        result.successes.append(await trio.to_thread.run_sync(count, server.database_url, one, answers))
                    took = trio.current_time() - began
                    strange = sum(n for status, n in result.statuses.items() if status not in _EXPECTED)
                    figures += [
                        Figure(f"{name}: rounds with exactly one success, of {options.rounds}", result.exact, bar=at_least(options.rounds)),
                        Figure(f"{name}: answers that neither grant nor refuse", strange, bar=at_most(0)),
                        Figure(f"{name}: took", took, "s"),
                    ]
    return figures


def _let_all_through(database_url: str) -> None:
    with psycopg.connect(database_url) as connection:
        connection.execute(_NO_WAITING)


@asynccontextmanager
async def _connections(server: Server) -> AsyncIterator[Sequence[Client]]:
    async with AsyncExitStack() as closing:
        yield [await closing.enter_async_context(Client.connected(server.target("/"))) for _ in range(AT_ONCE)]


async def _at_once(server: Server, clients: Sequence[Client], one: Round) -> Sequence[Answer]:
    answers: list[Answer] = []

    async def ask(client: Client, request: Callable[[Target], Target]) -> None:
        answers.append(await client.ask(request(server.target("/"))))

    with trio.fail_after(30):
        async with trio.open_nursery() as nursery:
            for client, request in zip(clients, one.requests, strict=True):
                nursery.start_soon(ask, client, request)
    return answers


def _posting(path: str, content: Mapping[str, object]) -> Callable[[Target], Target]:
    return lambda target: Target(target.host, target.port, path).posting(content)


def _getting(path: str) -> Callable[[Target], Target]:
    return lambda target: Target(target.host, target.port, path)


async def _verification(server: Server, postern: Postern, rounds: int) -> Sequence[Round]:
    people, tokens = await _mailed(server, postern, rounds, "verify_email")
    return [
        Round([_getting(f"/auth/verify-email?token={token.reveal()}")] * AT_ONCE, one.user)
        for one, token in zip(people, tokens, strict=True)
    ]


async def _reset(server: Server, postern: Postern, rounds: int) -> Sequence[Round]:
    people, tokens = await _mailed(server, postern, rounds, "reset_password")
    return [
        Round([_posting("/api/auth/reset-password", {"token": token.reveal(), "new_password": NEW_PASSWORD})] * AT_ONCE, one.user)
        for one, token in zip(people, tokens, strict=True)
    ]


async def _mailed(server: Server, postern: Postern, rounds: int, purpose: str) -> tuple[Sequence[Person], Sequence[Token]]:
    people = await trio.to_thread.run_sync(fill, server.database_url, rounds)
    tokens = [postern.foundation.secrets.mailed_token() for _ in people]
    now = datetime.now(UTC)
    with psycopg.connect(server.database_url) as connection:
        copy(
            connection,
            "mailed_tokens",
            ("digest", "purpose", "user_id", "email", "created_at", "expires_at"),
            ((token.digest(), purpose, one.user, one.email, now, now + _HOUR) for one, token in zip(people, tokens, strict=True)),
        )
        if purpose == "verify_email":
            connection.execute("update users set email_verified_at = null where id = any(%s)", [[one.user for one in people]])
    return people, tokens


async def _refresh(server: Server, postern: Postern, rounds: int) -> Sequence[Round]:
    people = await trio.to_thread.run_sync(fill, server.database_url, rounds)
    tokens = [postern.foundation.secrets.token() for _ in people]
    now = datetime.now(UTC)
    with psycopg.connect(server.database_url) as connection:
        copy(
            connection,
            "refresh_tokens",
            ("digest", "session_id", "created_at"),
            ((token.digest(), one.session, now) for one, token in zip(people, tokens, strict=True)),
        )
    return [
        Round([_posting("/api/auth/refresh", {"refresh_token": token.reveal()})] * AT_ONCE, one.session)
        for one, token in zip(people, tokens, strict=True)
    ]


async def _step(server: Server, postern: Postern, rounds: int) -> Sequence[Round]:
    """Each has a pre-auth token of its own, and all have the same code."""
    people, secrets = await _with_second_factor(server, postern, rounds)
    tokens = await _preauthenticated(server, postern, [one for one in people for _ in range(AT_ONCE)])
    # Each request computes the code, because a code is good for a minute.
    return [
        Round([_second_factor(token, pyotp.TOTP(secret).now) for token in mine], one.user)
        for one, secret, mine in zip(people, secrets, _batched(tokens), strict=True)
    ]


async def _backup_code(server: Server, postern: Postern, rounds: int) -> Sequence[Round]:
    """Each has a pre-auth token of its own, and all have the same backup code."""
    people, _ = await _with_second_factor(server, postern, rounds)
    codes = await _backup_codes(server, postern, people, 1)
    tokens = await _preauthenticated(server, postern, [one for one in people for _ in range(AT_ONCE)])
    return [
        Round([_second_factor(token, partial(str, code)) for token in mine], one.user)
        for one, (code,), mine in zip(people, codes, _batched(tokens), strict=True)
    ]


async def _preauthentication(server: Server, postern: Postern, rounds: int) -> Sequence[Round]:
    """All have the same pre-auth token, and each has a good backup code of its own."""
    people, _ = await _with_second_factor(server, postern, rounds)
    codes = await _backup_codes(server, postern, people, AT_ONCE)
    tokens = await _preauthenticated(server, postern, people)
    return [
        Round([_second_factor(token, partial(str, code)) for code in mine], one.user)
        for one, token, mine in zip(people, tokens, codes, strict=True)
    ]


def _batched(tokens: Sequence[str]) -> Sequence[Sequence[str]]:
    return [tokens[first : first + AT_ONCE] for first in range(0, len(tokens), AT_ONCE)]


def _second_factor(token: str, code: Callable[[], str]) -> Callable[[Target], Target]:
    return lambda target: Target(target.host, target.port, "/api/auth/mfa/verify").posting({"preauth_token": token, "code": code()})


async def _with_second_factor(server: Server, postern: Postern, rounds: int) -> tuple[Sequence[Person], Sequence[str]]:
    people = await trio.to_thread.run_sync(fill, server.database_url, rounds)
    secrets = [pyotp.random_base32() for _ in people]
    now = datetime.now(UTC)
    with psycopg.connect(server.database_url) as connection:
        copy(
            connection,
            "mfa_secrets",
            ("user_id", "sealed_secret", "created_at", "enabled_at"),
            (
                (one.user, postern.foundation.keyring.seal(secret.encode(), sealing_context(UserId(one.user))), now, now)
                for one, secret in zip(people, secrets, strict=True)
            ),
        )
    return people, secrets


async def _backup_codes(server: Server, postern: Postern, people: Sequence[Person], each: int) -> Sequence[Sequence[str]]:
    making = HmacBackupCodes(postern.foundation.server_secrets)
    codes = []
    rows = []
    for one in people:
        mine: list[str] = []
        while len(mine) < each:
            mine += [code.reveal() for code in making.new()]
        codes.append(mine[:each])
        rows += [(one.user, await making.digest(UserId(one.user), backup_code(code) or "")) for code in mine[:each]]
    with psycopg.connect(server.database_url) as connection:
        copy(connection, "backup_codes", ("user_id", "digest"), rows)
    return codes


async def _preauthenticated(server: Server, postern: Postern, people: Sequence[Person]) -> Sequence[str]:
    """Gets a pre-auth token for each person."""
    now = datetime.now(UTC)
    issuer = read(server.settings).public_url
    ids = [postern.foundation.ids.new() for _ in people]
    with psycopg.connect(server.database_url) as connection:
        copy(
            connection,
            "preauthentications",
            ("id", "user_id", "created_at", "expires_at"),
            ((id_, one.user, now, now + _HOUR) for id_, one in zip(ids, people, strict=True)),
        )
    return [
        await postern.foundation.token_signer.sign_access(
            preauthentication_claims(UserId(one.user), str(id_), issuer=issuer, now=now, expires_at=now + _HOUR)
        )
        for id_, one in zip(ids, people, strict=True)
    ]


def _granted(_database_url: str, _one: Round, answers: Sequence[Answer]) -> int:
    return sum(answer.status == 200 for answer in answers)


def _granted_and_used(database_url: str, one: Round, answers: Sequence[Answer]) -> int:
    """A code whose request did not get in is still good."""
    with psycopg.connect(database_url) as connection:
        query = "select count(used_at) from backup_codes where user_id = %s"
        (used,) = connection.execute(query, [one.subject]).fetchone() or (0,)
    granted = _granted(database_url, one, answers)
    return granted if used == granted else -1


def _rotations(database_url: str, one: Round, answers: Sequence[Answer]) -> int:
    successors = {json.loads(answer.body)["refresh_token"] for answer in answers if answer.status == 200}
    with psycopg.connect(database_url) as connection:
        query = "select count(*) filter (where rotated_at is not null), count(*) from refresh_tokens where session_id = %s"
        rotated, known = connection.execute(query, [one.subject]).fetchone() or (0, 0)
    return len(successors) if (rotated, known) == (1, 2) and _granted(database_url, one, answers) == AT_ONCE else -1


_KINDS: Final = (
    ("authenticator's code", _step, _granted),
    ("backup code", _backup_code, _granted_and_used),
    ("pre-auth token", _preauthentication, _granted_and_used),
    ("verification link", _verification, _granted),
    ("reset link", _reset, _granted),
    ("refresh token", _refresh, _rotations),
    ("authorization code", prepare_codes, given_and_living),
    ("device code", prepare_device_codes, given_and_living),
    ("pushed request", prepare_pushed_requests, codes_given),
    ("sign-in link", prepare_sign_in_links, given_and_living),
    ("mailed code", prepare_mailed_codes, given_and_living),
)
