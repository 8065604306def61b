"""A directory of a hundred thousand people: pages, looking up a name, and the pace of an import."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import count, cycle, repeat
from typing import Final

import msgspec
import psycopg
import trio

from core.domain.secrets import Token
from ops.bench.cases.identity import people
from ops.bench.cases.tenancy import Answered, ask_all, asked_meanwhile, grown
from ops.bench.fill_tenancy import Size
from ops.bench.harness import Options, Server, directory, serving
from ops.bench.inside import bearer
from ops.bench.load import Target
from ops.bench.report import Figure, at_least, at_most

PEOPLE: Final = 100_000
READS: Final = 300
IMPORTED: Final = 2000
CONNECTIONS: Final = 4
# Between the requests of somebody else.
PAUSE: Final = 0.01
ALONE: Final = 10.0
_TOKEN: Final = Token("scim_live_bench0_0123456789")
_HEADERS: Final = {"Authorization": f"Bearer {_TOKEN.reveal()}", "Content-Type": "application/scim+json"}
# One page after the other, from the whole range.
_PAGES: Final = tuple(f"/scim/v2/Users?startIndex={start}&count=100" for start in range(1, PEOPLE, 7_700))


async def scim(_options: Options) -> Sequence[Figure]:
    """An organization of a hundred thousand members: a page of a hundred, `userName eq`, a search for a part of a name, the group without
    its members; and two thousand new people, over four connections, while somebody else asks for their account at an even pace.
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
            somebody = await bearer(server, (await people(server, 1))[0])
            own = repeat(server.target("/api/user", somebody))
            alone, beside = Answered(), Answered()
            async with asked_meanwhile(own, alone, pause=PAUSE):
                await trio.sleep(ALONE)
            began = trio.current_time()
            async with asked_meanwhile(own, beside, pause=PAUSE):
                answered = await ask_all(_newcomers(server), IMPORTED, CONNECTIONS)
            pace = IMPORTED / (trio.current_time() - began)
            failures += answered.failures.total() + alone.failures.total() + beside.failures.total()
            others = beside.milliseconds(99) / alone.milliseconds(99)
            return [
                *figures,
                Figure("people imported in a second", pace, bar=at_least(150)),
                Figure("an import: 95th percentile", answered.milliseconds(95), "ms"),
                Figure("others meanwhile, 99th percentile against alone", others, bar=at_most(2), beside=_described(alone, beside)),
                Figure("requests that failed", failures, bar=at_most(0)),
            ]


def _described(alone: Answered, beside: Answered) -> str:
    return "; ".join(f"p{percent} {beside.milliseconds(percent):.2f} against {alone.milliseconds(percent):.2f} ms" for percent in (50, 99))


def _endless(server: Server, paths: Sequence[str]) -> Iterator[Target]:
    return (server.target(path, _HEADERS) for path in cycle(paths))


def _newcomers(server: Server) -> Iterator[Target]:
    for number in count():
        target = server.target("/scim/v2/Users", _HEADERS)
        yield Target(target.host, target.port, target.path, target.headers, target.tls, "POST", _newcomer(number))


def _newcomer(number: int) -> bytes:
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
