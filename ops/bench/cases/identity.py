"""Sign-in: its share of the hashing rate, its cost for others meanwhile, and the memory of a crowd that signs in."""

import statistics
import sys
import time
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Final

import trio

from adapters.crypto.passwords import usable_cores
from entrypoints.settings import read
from ops.bench import processes
from ops.bench.filling.fill import Person, fill
from ops.bench.harness import Options, Server, directory, generate, serving
from ops.bench.inside import bearer, hashed
from ops.bench.load import Client, Summary, Tally, Target, asking
from ops.bench.report import ROOT, Figure, at_least, at_most

PASSWORD: Final = "a password of ordinary length"  # noqa: S105 - of people made up
TURNS: Final = 5
CROWD: Final = 200
# With this many connections that sign in, a worker never waits for the next password.
SIGNING_IN: Final = 16
# One process asks for a profile now and then, on four connections.
PAUSE: Final = 0.005


async def signin(options: Options) -> Sequence[Figure]:
    """Sign-ins a second of one process, each by another account, against the hashing rate of the bare library with as many threads, in
    turns.
    """
    figures = []
    for workers in sorted({usable_cores(), 1}, reverse=True):
        by_default = workers == usable_cores()
        with directory() as place:
            async with serving(place, settings={} if by_default else {"POSTERN_ARGON2_WORKERS": str(workers)}) as server:
                strangers = iter(await people(server, 20_000))
                bare, signed_in, cpu = [], [], 0.0
                tally = Tally()
                await sign_in_for(1, server, strangers, Tally())
                for _ in range(TURNS):
                    bare.append(await _bare(workers, options.seconds))
                    before = time.process_time()
                    signed_in.append(await sign_in_for(options.seconds, server, strangers, tally))
                    cpu += time.process_time() - before
        name = f"{workers} hashing worker{'s' if workers > 1 else ''}{', the default here' if by_default else ''}"
        ratios = [mine / theirs for mine, theirs in zip(signed_in, bare, strict=True)]
        figures += [
            Figure(f"{name}: bare Argon2id verifications a second", statistics.median(bare)),
            Figure(f"{name}: sign-ins a second", statistics.median(signed_in)),
            Figure(f"{name}: sign-ins against bare hashing", statistics.median(ratios), bar=at_least(0.9)),
            Figure(f"{name}: answers other than 200", tally.summary().failures, bar=at_most(0)),
            Figure(f"{name}: sign-in, 99th percentile", tally.summary().p99 * 1e3, "ms"),
            Figure(f"{name}: the load generator's CPU per sign-in", cpu / tally.requests * 1e6, "µs"),
        ]
    return figures


async def loaded(options: Options) -> Sequence[Figure]:
    """GET /api/user while sign-ins keep every hashing worker busy, against the same without sign-ins, in turns."""
    quiet: list[float] = []
    busy: list[float] = []
    medians: dict[bool, list[float]] = {False: [], True: []}
    tally = Tally()
    with directory() as place:
        async with serving(place) as server:
            (person,) = await people(server, 1)
            strangers = iter(await people(server, 20_000))
            target = server.target("/api/user", await bearer(server, person))
            await _looked_up(target, 1)
            for _ in range(TURNS):
                summary = await _looked_up(target, options.seconds)
                quiet.append(summary.p99)
                medians[False].append(summary.p50)
                async with signing_in(server, strangers, tally):
                    await trio.sleep(0.5)
                    summary = await _looked_up(target, options.seconds)
                busy.append(summary.p99)
                medians[True].append(summary.p50)
    return [
        Figure("GET /api/user alone, median", statistics.median(medians[False]) * 1e3, "ms"),
        Figure("GET /api/user while others sign in, median", statistics.median(medians[True]) * 1e3, "ms"),
        Figure("GET /api/user alone, 99th percentile", statistics.median(quiet) * 1e3, "ms"),
        Figure("GET /api/user while others sign in, 99th percentile", statistics.median(busy) * 1e3, "ms"),
        Figure("busy against alone, 99th percentile", statistics.median(busy) / statistics.median(quiet), bar=at_most(3)),
        Figure("sign-ins a second meanwhile", tally.summary().rate),
        Figure("sign-ins that failed", tally.summary().failures, bar=at_most(0)),
    ]


async def crowd(_options: Options) -> Sequence[Figure]:
    """200 sign-ins at once, with the default queue and with a short one: the memory, and the fate of the sign-ins that do not fit in."""
    figures = []
    for queue in (None, 20):
        with directory() as place:
            async with serving(place, settings={} if queue is None else {"POSTERN_ARGON2_QUEUE": str(queue)}) as server:
                settings = read(server.settings)
                workers = settings.argon2_workers or usable_cores()
                strangers = iter(await people(server, CROWD + 1))
                await trio.sleep(2)
                before = processes.resident_megabytes(server.pid)
                processes.forget_peak(server.pid)
                answers = await _at_once(server, strangers)
                grown = processes.peak_megabytes(server.pid) - before
                await trio.sleep(2)
                kept = processes.resident_megabytes(server.pid) - before
                afterwards = await _at_once(server, strangers, 1)
        name = f"queue of {settings.argon2_queue}{', the default' if queue is None else ''}"
        signed_in = sum(status == 200 for status, _ in answers)
        turned_away = [wait for status, wait in answers if status == 503]
        figures += [
            Figure(f"{name}: of 200 sign-ins at once, signed in", signed_in, bar=at_least(workers + settings.argon2_queue)),
            Figure(f"{name}: 503 with Retry-After", sum(wait is not None for wait in turned_away), bar=at_least(1)),
            Figure(f"{name}: anything else", CROWD - signed_in - sum(wait is not None for wait in turned_away), bar=at_most(0)),
            Figure(f"{name}: resident before", before, "MiB"),
            Figure(f"{name}: most memory meanwhile, on top", grown, "MiB", at_most(workers * settings.argon2_memory / 2**20 + 40)),
            Figure(f"{name}: kept of it two seconds later", kept, "MiB"),
            Figure(f"{name}: somebody signs in afterwards", sum(status == 200 for status, _ in afterwards), bar=at_least(1)),
        ]
    return figures


async def people(server: Server, count: int) -> Sequence[Person]:
    """People who can sign in with `PASSWORD`."""
    encoded = await hashed(server.settings, PASSWORD)
    return await trio.to_thread.run_sync(fill, server.database_url, count, encoded)


def credentials(person: Person) -> Mapping[str, str]:
    return {"email": person.email, "password": PASSWORD}


async def sign_in_for(seconds: float, server: Server, strangers: Iterator[Person], tally: Tally) -> float:
    """Signs people in, one after the other on a few connections. Returns the rate."""
    before, began = tally.requests, trio.current_time()
    async with signing_in(server, strangers, tally):
        await trio.sleep(seconds)
    return (tally.requests - before) / (trio.current_time() - began)


@asynccontextmanager
async def signing_in(server: Server, strangers: Iterator[Person], tally: Tally) -> AsyncIterator[None]:
    target = server.target("/api/auth/login")
    async with asking((target.posting(credentials(one)) for one in strangers), tally, connections=SIGNING_IN):
        yield


async def _at_once(server: Server, strangers: Iterator[Person], count: int = CROWD) -> Sequence[tuple[int, str | None]]:
    """Status and Retry-After of each sign-in. All have connected before the first one asks."""
    target = server.target("/api/auth/login")
    answers: list[tuple[int, str | None]] = []
    connected = 0
    everybody = trio.Event()

    async def one(person: Person) -> None:
        nonlocal connected
        async with Client.connected(target) as client:
            connected += 1
            if connected == count:
                everybody.set()
            await everybody.wait()
            answer = await client.ask(target.posting(credentials(person)))
            answers.append((answer.status, answer.headers.get("retry-after")))

    with trio.fail_after(60):
        async with trio.open_nursery() as nursery:
            for _ in range(count):
                nursery.start_soon(one, next(strangers))
    return answers


async def _looked_up(target: Target, seconds: float) -> Summary:
    return await generate(target, 4, seconds, pause=PAUSE)


async def _bare(workers: int, seconds: float) -> float:
    command = [sys.executable, "-m", "ops.bench.alone.bare_hashing", str(workers), str(seconds)]
    return float((await trio.run_process(command, capture_stdout=True, cwd=ROOT)).stdout)
