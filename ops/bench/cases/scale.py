"""A large installation must be as quick as a new one."""

import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import psycopg
import trio

from adapters.postgres.embedded import APPLICATION, EmbeddedPostgres
from ops.bench.filling.fill import grow
from ops.bench.harness import Measured, Options, Server, directory, kept, measure, serving
from ops.bench.inside import bearers_for
from ops.bench.report import Figure, at_least, at_most

TURNS: Final = 5
# The numbers of users, sessions and login events.
YOUNG: Final = (1_000, 2_000, 5_000)
GROWN: Final = (1_000_000, 2_000_000, 5_000_000)


async def users(options: Options) -> Sequence[Figure]:
    """GET /api/user by a thousand people, with a million users, two million sessions and five million login events in the database, against
    a thousand users: on two servers, in turns.
    """
    with directory() as young_place, directory() as grown_place:
        async with serving(young_place) as young, serving(grown_place) as grown:
            tokens = {young.pid: await _grown(young, YOUNG)}
            began = trio.current_time()
            tokens[grown.pid] = await _grown(grown, GROWN)
            filling = trio.current_time() - began
            measured: dict[int, list[Measured]] = {young.pid: [], grown.pid: []}
            for _ in range(TURNS):
                for server in (young, grown):
                    measured[server.pid].append(await measure(server, server.target("/api/user"), options, tokens=tokens[server.pid]))
            size = await trio.to_thread.run_sync(_size, grown.database_url)
            rates = {pid: statistics.median(one.load.rate for one in all_of_them) for pid, all_of_them in measured.items()}
            failures = sum(one.load.failures for all_of_them in measured.values() for one in all_of_them)
            ratio = statistics.median(
                one.load.rate / other.load.rate for one, other in zip(measured[grown.pid], measured[young.pid], strict=True)
            )
            return [
                Figure("a thousand users: GET /api/user a second", rates[young.pid]),
                Figure("a million users: GET /api/user a second", rates[grown.pid]),
                Figure("a million against a thousand", ratio, bar=at_least(0.9)),
                Figure("a million users: 99th percentile", statistics.median(one.load.p99 for one in measured[grown.pid]) * 1e3, "ms"),
                Figure("requests that failed", failures, bar=at_most(0)),
                Figure("the grown database", size, "MiB"),
                Figure("filling it took", filling, "s"),
            ]


async def _grown(server: Server, size: tuple[int, int, int]) -> Path:
    """The file with the tokens of the people who ask."""
    people = await trio.to_thread.run_sync(grow, server.database_url, *size)
    await trio.to_thread.run_sync(_settle, server.data_dir)
    tokens = [f"Authorization: {header['Authorization']}" for header in await bearers_for(server.settings, people)]
    return kept(server.data_dir / "bench.tokens", tokens)


def _settle(data_dir: Path) -> None:
    """Makes PostgreSQL write the new rows to disk now, so that it does not write them during a measurement."""
    with psycopg.connect(EmbeddedPostgres(data_dir.resolve()).url(APPLICATION), autocommit=True) as connection:
        connection.execute("checkpoint")


def _size(database_url: str) -> float:
    with psycopg.connect(database_url) as connection:
        (size,) = connection.execute("select pg_database_size(current_database())").fetchone() or (0,)
    return float(size) / 2**20
