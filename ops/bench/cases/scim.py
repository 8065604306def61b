"""A directory of a hundred thousand people: pages, looking up a name, and the pace of an import."""

import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import count, cycle
from statistics import median
from typing import Final

import msgspec
import psycopg
import trio

from core.domain.secrets import Token
from ops.bench.cases.identity import people
from ops.bench.cases.tenancy import ask_all, grown
from ops.bench.crowd import crowded
from ops.bench.filling.fill_tenancy import Size
from ops.bench.harness import Options, Server, directory, generate, serving
from ops.bench.inside import bearer
from ops.bench.load import Summary, Tally, Target, ask_each, percentile
from ops.bench.report import Figure, at_least, at_most

PEOPLE: Final = 100_000
READS: Final = 300
CONNECTIONS: Final = 4
# Seconds between the requests of somebody else.
PAUSE: Final = 0.01
TURNS: Final = 5
SECONDS: Final = 8.0
WARM_UP: Final = 2.0
_TOKEN: Final = Token("scim_live_bench0_0123456789")
_HEADERS: Final = {"Authorization": f"Bearer {_TOKEN.reveal()}", "Content-Type": "application/scim+json"}
# Pages from the whole range, which the case reads one after the other.
_PAGES: Final = tuple(f"/scim/v2/Users?startIndex={start}&count=100" for start in range(1, PEOPLE, 7_700))


async def scim(_options: Options) -> Sequence[Figure]:
    """An organization of a hundred thousand members: a page of a hundred, `userName eq`, a search for a part of a name, the group without
    its members. Then a person asks for their account at an even pace, in turns alone and during an import over four connections.
    """
    with directory() as place:
        async with serving(place) as server:
            await grown(server, Size(organizations=1, members=PEOPLE, audit_entries=1))
            await trio.to_thread.run_sync(_let_in, server.database_url)
            emails = await trio.to_thread.run_sync(_some_emails, server.database_url)
            names = [f"/scim/v2/Users?filter=userName%20eq%20%22{email}%22" for email in emails]
            figures: list[Figure] = []
            failures = 0
            for what, paths, bar in (
                ("a page of 100", _PAGES, at_most(30)),
                ("the last page of 100", (f"/scim/v2/Users?startIndex={PEOPLE - 99}&count=100",), None),
                ("userName eq", names, at_most(10)),
                ("userName co", ("/scim/v2/Users?filter=userName%20co%20%22son-777%22",), None),
                ("sorted by userName", ("/scim/v2/Users?sortBy=userName&count=100",), None),
                ("the group without its members", ("/scim/v2/Groups?excludedAttributes=members",), None),
            ):
                targets = _endless(server, paths)
                await ask_all(targets, 20, 1)
                answered = await ask_all(targets, READS if bar else READS // 10, 1)
                failures += answered.failures.total()
                figures.append(Figure(f"{what}: 95th percentile", answered.milliseconds(95), "ms", bar))
            newcomers, imported = _newcomers(server), Tally()
            importing = partial(ask_each, newcomers, imported, connections=CONNECTIONS)
            with trio.move_on_after(WARM_UP):
                await importing()
            somebody = server.target("/api/user", await bearer(server, (await people(server, 1))[0]))
            turns = [await _turn(server, somebody, importing, imported) for _ in range(TURNS)]
            failures += imported.summary().failures + sum(turn.alone.failures + turn.beside.failures for turn in turns)
            return [
                *figures,
                Figure("people imported in a second", median(turn.pace for turn in turns), bar=at_least(150)),
                Figure("an import: 95th percentile", percentile(imported.latencies, 95) * 1e3, "ms"),
                Figure(
                    "others meanwhile, 99th percentile against alone",
                    median(turn.ratio for turn in turns),
                    bar=at_most(2),
                    beside="; ".join(turn.described() for turn in turns),
                ),
                Figure("requests that failed", failures, bar=at_most(0)),
            ]


@dataclass(frozen=True, slots=True)
class _Turn:
    """A person asks for their account: first alone, then during an import."""

    alone: Summary
    beside: Summary
    pace: float

    @property
    def ratio(self) -> float:
        return self.beside.p99 / self.alone.p99

    def described(self) -> str:
        return f"{self.beside.p99 * 1e3:.1f} against {self.alone.p99 * 1e3:.1f} ms"


async def _turn(server: Server, somebody: Target, importing: Callable[[], Awaitable[None]], imported: Tally) -> _Turn:
    await trio.to_thread.run_sync(_until_idle, server.database_url)
    alone = await generate(somebody, 2, SECONDS, pause=PAUSE)
    async with crowded(importing):
        before, began = imported.requests, trio.current_time()
        beside = await generate(somebody, 2, SECONDS, pause=PAUSE)
        pace = (imported.requests - before) / (trio.current_time() - began)
    return _Turn(alone, beside, pace)


def _until_idle(database_url: str) -> None:
    """Waits until the imported people have their mails, because these cost work, too."""
    with psycopg.connect(database_url, autocommit=True) as connection:
        while connection.execute("select 1 from jobs where state = 'waiting' and run_at < now() limit 1").fetchone():
            time.sleep(0.1)


def _endless(server: Server, paths: Sequence[str]) -> Iterator[Target]:
    return (server.target(path, _HEADERS) for path in cycle(paths))


def _newcomers(server: Server) -> Iterator[Target]:
    for number in count():
        target = server.target("/scim/v2/Users", _HEADERS)
        yield Target(target.host, target.port, target.path, target.headers, target.tls, "POST", newcomer(number))


def newcomer(number: int) -> bytes:
    """The body that provisions this person."""
    email = f"new-{number}@example.com"
    body: Mapping[str, object] = {
        "schemas": ["urn:ietf:params:scim:schemas:core:2.0:User"],
        "userName": email,
        "externalId": f"e-{number}",
        "name": {"givenName": "New", "familyName": f"Person {number}"},
        "emails": [{"value": email, "type": "work", "primary": True}],
        "active": True,
    }
    return msgspec.json.encode(body)


def _let_in(database_url: str) -> None:
    with psycopg.connect(database_url, autocommit=True) as connection:
        connection.execute("update all_organizations set max_users = 1000000, status = 'active'")
        connection.execute(
            "insert into scim_tokens (id, org_id, name, prefix, digest, created_by, created_at)"
            " select gen_random_uuid(), id, 'Bench', 'scim_live_bench0', %s, gen_random_uuid(), now() from all_organizations",
            [_TOKEN.digest()],
        )


def _some_emails(database_url: str) -> Sequence[str]:
    with psycopg.connect(database_url, autocommit=True) as connection:
        rows = connection.execute("select email from users tablesample system (1) limit 200").fetchall()
    return [email for (email,) in rows]
