"""Many tenants in one installation: their effect on each other, long audit logs, the last seat in a team, large deletions and sweeps."""

import statistics
import uuid
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from hashlib import sha256
from itertools import count, cycle
from typing import Final

import psycopg
import trio

from ops.bench.filling.fill_tenancy import Size, Tenant, grow_tenancy, invite_past
from ops.bench.harness import Options, Server, directory, serving
from ops.bench.inside import bearers_for
from ops.bench.load import Answer, Client, Target, percentile
from ops.bench.report import Figure, at_least, at_most

TURNS: Final = 5
YOUNG: Final = Size(organizations=10, members=100, audit_entries=1_000)
GROWN: Final = Size(organizations=10_000, members=100, audit_entries=1_000_000)
# A member may read these. The owners of the organizations ask in turn.
READS: Final[Mapping[str, str]] = {
    "own organizations": "/api/organizations",
    "organization": "/api/organizations/{slug}",
    "members": "/api/organizations/{slug}/members",
    "members, page 2": "/api/organizations/{slug}/members?page=2",
    "members of a role": "/api/organizations/{slug}/members?role=admin",
    "roles": "/api/organizations/{slug}/roles",
    "invitations": "/api/organizations/{slug}/invitations",
    "pending invitations": "/api/organizations/{slug}/invitations?status=pending",
    "end users": "/api/organizations/{slug}/users",
    "end users, searched": "/api/organizations/{slug}/users?search=person-1",
    "end user": "/api/organizations/{slug}/users/{end_user}",
    "audit log": "/api/organizations/{slug}/audit-log",
    "audit log of an action": "/api/organizations/{slug}/audit-log?action=user.joined",
    "own invitations": "/api/invitations",
}
# Requests for each read in each turn, from two connections.
READ: Final = 200
CONNECTIONS: Final = 2
AUDIT_ENTRIES: Final = 1_000_000
AUDIT_READS: Final = 300
AT_ONCE: Final = 50
LARGE: Final = 100_000
DUE: Final = 1_000_000


@dataclass(frozen=True, slots=True)
class Asking:
    """Owners of some organizations, with their tokens."""

    server: Server
    tenants: Sequence[Tenant]
    headers: Sequence[Mapping[str, str]]

    def endless(self, path: str) -> Iterator[Target]:
        """Asks for the same path in one organization after the other."""
        for tenant, headers in cycle(zip(self.tenants, self.headers, strict=True)):
            yield self.server.target(path.format(slug=tenant.slug, end_user=tenant.end_user), headers)

    def first(self, path: str) -> Target:
        return next(self.endless(path))


async def asking(server: Server, tenants: Sequence[Tenant]) -> Asking:
    return Asking(server, tenants, await bearers_for(server.settings, [one.owner for one in tenants]))


async def grown(server: Server, size: Size, name: str = "tenant") -> Asking:
    tenants = await trio.to_thread.run_sync(grow_tenancy, server.database_url, size, name)
    with psycopg.connect(server.database_url, autocommit=True) as connection:
        # PostgreSQL writes the new rows to disk now, and not during a measurement. On some servers, only an administrator may checkpoint.
        connection.execute("do $$ begin checkpoint; exception when insufficient_privilege then null; end $$")
    return await asking(server, tenants)


@dataclass(slots=True)
class Answered:
    """Latencies in seconds, and the number of requests without a good answer."""

    latencies: list[float] = field(default_factory=list)
    failures: Counter[int] = field(default_factory=Counter)

    def note(self, answer: Answer) -> None:
        self.latencies.append(answer.seconds)
        if answer.status >= 300:
            self.failures[answer.status] += 1

    def milliseconds(self, percent: float) -> float:
        return percentile(self.latencies, percent) * 1e3


async def ask_all(targets: Iterator[Target], requests: int, connections: int = CONNECTIONS) -> Answered:
    """Sends `requests` requests, one after the other on each connection."""
    answered, left = Answered(), iter(range(requests))

    async def one() -> None:
        async with Client.connected(next(targets)) as client:
            for _ in left:
                answered.note(await client.ask(next(targets)))

    async with trio.open_nursery() as nursery:
        for _ in range(connections):
            nursery.start_soon(one)
    return answered


@asynccontextmanager
async def asked_meanwhile(targets: Iterator[Target], answered: Answered, *, pause: float = 0.005) -> AsyncIterator[None]:
    """Requests on two connections, at an even pace, as long as it is open."""

    async def one() -> None:
        async with Client.connected(next(targets)) as client:
            while True:
                answered.note(await client.ask(next(targets)))
                await trio.sleep(pause)

    async with trio.open_nursery() as nursery:
        for _ in range(CONNECTIONS):
            nursery.start_soon(one)
        yield
        nursery.cancel_scope.cancel()


async def tenants(_options: Options) -> Sequence[Figure]:
    """The reads of members, with ten thousand organizations of a hundred members and a million audit entries, against ten organizations of
    the same size: on two servers, in turns.
    """
    with directory() as young_place, directory() as grown_place:
        async with serving(young_place) as young_server, serving(grown_place) as grown_server:
            young = await grown(young_server, YOUNG)
            began = trio.current_time()
            old = await grown(grown_server, GROWN)
            filling = trio.current_time() - began
            figures: list[Figure] = []
            failures = Counter[tuple[str, int]]()
            for name, path in READS.items():
                measured: dict[int, list[float]] = {young_server.pid: [], grown_server.pid: []}
                for turn in range(TURNS + 1):
                    for one in (young, old):
                        answered = await ask_all(one.endless(path), READ)
                        failures.update({(name, status): number for status, number in answered.failures.items()})
                        if turn > 0:  # the first is to warm up
                            measured[one.server.pid].append(answered.milliseconds(95))
                few, many = measured[young_server.pid], measured[grown_server.pid]
                ratio = statistics.median(more / less for more, less in zip(many, few, strict=True))
                figures += [
                    Figure(f"{name}: 95th percentile, 10 organizations", statistics.median(few), "ms"),
                    Figure(f"{name}: 95th percentile, 10 000 organizations", statistics.median(many), "ms"),
                    Figure(f"{name}: 10 000 against 10", ratio, bar=at_most(1.5)),
                ]
            return [
                *figures,
                *(Figure(f"{status} at {name}", number) for (name, status), number in failures.items()),
                Figure("requests that failed", failures.total(), bar=at_most(0)),
                Figure("the grown database", await trio.to_thread.run_sync(database_size, grown_server.database_url), "MiB"),
                Figure("filling it took", filling, "s"),
            ]


async def audit(_options: Options) -> Sequence[Figure]:
    """The first and the thousandth page of the audit log of an organization with a million entries, beside another with as many."""
    with directory() as place:
        async with serving(place) as server:
            asker = await grown(server, Size(organizations=2, members=100, audit_entries=2 * AUDIT_ENTRIES))
            figures = []
            for page in (1, 1000):
                path = f"/api/organizations/{{slug}}/audit-log?limit=50&page={page}"
                await ask_all(asker.endless(path), 20)
                answered = await ask_all(asker.endless(path), AUDIT_READS, 1)
                figures += [
                    Figure(f"page {page} of a million entries: median", answered.milliseconds(50), "ms"),
                    Figure(f"page {page} of a million entries: 95th percentile", answered.milliseconds(95), "ms", at_most(30)),
                    Figure(f"page {page}: requests that failed", answered.failures.total(), bar=at_most(0)),
                ]
            for name, path in _FILTERED.items():
                await ask_all(asker.endless(path), 20)
                answered = await ask_all(asker.endless(path), AUDIT_READS, 1)
                figures.append(Figure(f"{name}: 95th percentile", answered.milliseconds(95), "ms"))
            return figures


_FILTERED: Final = {
    "of one action, page 1": "/api/organizations/{slug}/audit-log?action=user.joined",
    "of one action, page 200": "/api/organizations/{slug}/audit-log?action=user.joined&page=200",
    "about one person": "/api/organizations/{slug}/audit-log?target_type=user&target_id={end_user}",
}


async def seat(options: Options) -> Sequence[Figure]:
    """Fifty people at once accept fifty invitations to an organization with one seat left, in many rounds: one gets the seat."""
    exact, statuses, reasons = 0, Counter[int](), Counter[str]()
    with directory() as place:
        async with serving(place) as server, AsyncExitStack() as closing:
            asker = await grown(server, Size(organizations=options.rounds, members=1, audit_entries=1, invitations=0))
            chosen = await trio.to_thread.run_sync(_with_one_seat, server.database_url)
            clients = [await closing.enter_async_context(Client.connected(server.target("/"))) for _ in range(AT_ONCE)]
            for organization in chosen:
                tokens = await trio.to_thread.run_sync(_invite, server.database_url, organization)
                answers = await at_once(clients, [_accepting(asker.server, token) for token in tokens])
                statuses.update(answer.status for answer in answers)
                reasons.update("TEAM_LIMIT_EXCEEDED" for answer in answers if b"TEAM_LIMIT_EXCEEDED" in answer.body)
                kept = await trio.to_thread.run_sync(_joined, server.database_url, organization)
                exact += kept == (2, 2, 1, AT_ONCE - 1) and sum(answer.status == 200 for answer in answers) == 1
    refused = options.rounds * (AT_ONCE - 1)
    return [
        Figure(f"rounds in which exactly one of {AT_ONCE} got the last seat, of {options.rounds}", exact, bar=at_least(options.rounds)),
        Figure("refused for want of a seat, their invitations untouched", reasons["TEAM_LIMIT_EXCEEDED"], bar=at_least(refused)),
        Figure("answers other than 200 and 400", sum(n for status, n in statuses.items() if status not in {200, 400}), bar=at_most(0)),
    ]


async def deletion(_options: Options) -> Sequence[Figure]:
    """Somebody deletes an organization of a hundred thousand members, while members of others read in theirs."""
    with directory() as place:
        async with serving(place) as server:
            others = await grown(server, Size(organizations=100, members=100, audit_entries=100_000))
            large = await grown(server, Size(organizations=1, members=LARGE, audit_entries=LARGE), "large")
            await trio.to_thread.run_sync(_prove, server.database_url, large.tenants[0])
            alone, meanwhile = Answered(), Answered()
            path = "/api/organizations/{slug}/members"
            await ask_all(others.endless(path), 100)
            async with asked_meanwhile(others.endless(path), alone):
                await trio.sleep(10)
            async with asked_meanwhile(others.endless(path), meanwhile):
                place_of_large = large.first("/api/organizations/{slug}")
                answer = await _once(replace(place_of_large, method="DELETE"))
                afterwards = await _once(place_of_large)
                listed = await _once(large.first("/api/organizations"))
                gone = await _until(lambda: _left_of_deleted(server.database_url) == 0, 180)
            return [
                Figure("the deletion is answered after", answer.seconds, "s", at_most(1)),
                Figure("it is answered 204", answer.status == 204, bar=at_least(1)),
                Figure("the next request to it: 404", afterwards.status == 404, bar=at_least(1)),
                Figure("its owner's list is empty", listed.body == b"[]", bar=at_least(1)),
                Figure("all of it gone after", gone, "s", at_most(60)),
                Figure("others' 99th percentile alone", alone.milliseconds(99), "ms"),
                Figure("others' 99th percentile meanwhile", meanwhile.milliseconds(99), "ms"),
                Figure("meanwhile against alone", meanwhile.milliseconds(99) / alone.milliseconds(99), bar=at_most(2)),
                Figure("others' requests meanwhile", len(meanwhile.latencies), bar=at_least(50)),
                Figure("others' requests that failed", meanwhile.failures.total(), bar=at_most(0)),
            ]


async def sweeper(_options: Options) -> Sequence[Figure]:
    """A million invitations are due at once, while people invite others and read their invitations."""
    with directory() as place:
        async with serving(place) as server:
            asker = await grown(server, Size(organizations=100, members=10, audit_entries=1_000))
            await trio.to_thread.run_sync(invite_past, server.database_url, asker.tenants, DUE)
            reading, inviting = Answered(), Answered()
            numbers = count()

            def invitations() -> Iterator[Target]:
                for target in asker.endless("/api/organizations/{slug}/invitations"):
                    yield target.posting({"email": f"new-{next(numbers)}@scale.test", "role": "member"})

            reads = asker.endless("/api/organizations/{slug}/invitations?status=pending")
            waits: list[float] = []
            async with trio.open_nursery() as nursery:
                nursery.start_soon(_watch_locks, server.database_url, waits)
                async with asked_meanwhile(reads, reading, pause=0.02), asked_meanwhile(invitations(), inviting, pause=0.05):
                    done = await _until(lambda: not _any_due(server.database_url), 1500)
                nursery.cancel_scope.cancel()
            return [
                Figure("invitations due and not closed", await trio.to_thread.run_sync(_due, server.database_url), bar=at_most(0)),
                Figure("closed after", done, "s"),
                Figure("longest wait for a lock", max(waits, default=0.0) * 1e3, "ms", at_most(100)),
                Figure("looks at how long anybody waits", len(waits), bar=at_least(100)),
                Figure("reading meanwhile, 99th percentile", reading.milliseconds(99), "ms"),
                Figure("inviting meanwhile, 99th percentile", inviting.milliseconds(99), "ms"),
                Figure("requests that failed", reading.failures.total() + inviting.failures.total(), bar=at_most(0)),
            ]


def database_size(database_url: str) -> float:
    with psycopg.connect(database_url) as connection:
        (size,) = connection.execute("select pg_database_size(current_database())").fetchone() or (0,)
    return float(size) / 2**20


async def _once(target: Target) -> Answer:
    async with Client.connected(target) as client:
        return await client.ask(target)


async def _until(condition: Callable[[], bool], patience: float) -> float:
    """The seconds until the condition held, or `patience` if it did not hold by then."""
    began = trio.current_time()
    with trio.move_on_after(patience):
        while not await trio.to_thread.run_sync(condition):  # noqa: ASYNC110 - the database tells, when it is asked
            await trio.sleep(0.1)
    return trio.current_time() - began


def _prove(database_url: str, tenant: Tenant) -> None:
    """Its owner has just shown a password, as whoever deletes has to."""
    with psycopg.connect(database_url, autocommit=True) as connection:
        connection.execute("update sessions set proved_at = now() where id = %s", [tenant.owner.session])


def _left_of_deleted(database_url: str) -> int:
    with psycopg.connect(database_url, autocommit=True) as connection:
        (left,) = connection.execute("select count(*) from all_organizations where deleted_at is not null").fetchone() or (0,)
    return int(left)


def _due(database_url: str) -> int:
    with psycopg.connect(database_url, autocommit=True) as connection:
        (left,) = connection.execute("select count(*) from invitations where status = 'pending' and expires_at < now()").fetchone() or (0,)
    return int(left)


def _any_due(database_url: str) -> bool:
    with psycopg.connect(database_url, autocommit=True) as connection:
        return connection.execute(_LAST_DUE).fetchone() is not None


# The sweep begins with the oldest invitation. The newest stays at the end of the index until the last batch, so the query for it is cheap.
_LAST_DUE: Final = "select id from invitations where status = 'pending' and expires_at < now() order by expires_at desc limit 1"


async def _watch_locks(database_url: str, waits: list[float]) -> None:
    """Records, again and again, how long the longest wait for a lock has lasted."""
    with psycopg.connect(database_url, autocommit=True) as connection:
        while True:
            waits.append(await trio.to_thread.run_sync(_longest_wait, connection))
            await trio.sleep(0.01)


def _longest_wait(connection: psycopg.Connection[tuple[float]]) -> float:
    (longest,) = connection.execute(_LONGEST_WAIT).fetchone() or (0.0,)
    return float(longest)


_LONGEST_WAIT: Final = """
    select coalesce(max(extract(epoch from clock_timestamp() - waitstart)), 0)::float8 from pg_locks where not granted
"""


def _with_one_seat(database_url: str) -> Sequence[uuid.UUID]:
    with psycopg.connect(database_url, autocommit=True) as connection:
        connection.execute("update all_organizations set max_users = 2")
        return [one for (one,) in connection.execute("select id from organizations order by id").fetchall()]


def _invite(database_url: str, organization: uuid.UUID) -> Sequence[str]:
    tokens = [str(uuid.uuid4()) for _ in range(AT_ONCE)]
    with psycopg.connect(database_url, autocommit=True) as connection, connection.cursor() as cursor:
        cursor.executemany(
            "insert into invitations (id, org_id, email, email_key, role, invited_by, token_digest, expires_at, created_at)"
            " select gen_random_uuid(), org_id, %s, %s, 'member', user_id, %s, now() + interval '1 day', now()"
            "   from memberships where org_id = %s and role = 'owner'",
            [
                (email, email, sha256(token.encode()).digest(), organization)
                for token, email in ((token, f"{token}@scale.test") for token in tokens)
            ],
        )
    return tokens


def _accepting(server: Server, token: str) -> Target:
    return server.target("/api/invitations/accept").posting({"token": token})


async def at_once(clients: Sequence[Client], targets: Sequence[Target]) -> Sequence[Answer]:
    answers: list[Answer] = []

    async def ask(client: Client, target: Target) -> None:
        answers.append(await client.ask(target))

    with trio.fail_after(30):
        async with trio.open_nursery() as nursery:
            for client, target in zip(clients, targets, strict=True):
                nursery.start_soon(ask, client, target)
    return answers


def _joined(database_url: str, organization: uuid.UUID) -> tuple[int, int, int, int]:
    """Members by their rows and by the stored number, invitations accepted and still pending."""
    with psycopg.connect(database_url, autocommit=True) as connection:
        found = connection.execute(_JOINED, {"organization": organization}).fetchone()
    members, kept, accepted, pending = found or (0, 0, 0, 0)
    return members, kept, accepted, pending


_JOINED: Final = """
    select (select count(*) from memberships where org_id = %(organization)s),
           (select member_count from organizations where id = %(organization)s),
           count(*) filter (where status = 'accepted'),
           count(*) filter (where status = 'pending')
      from invitations
     where org_id = %(organization)s
"""
