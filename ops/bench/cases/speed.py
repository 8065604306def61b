"""The cost of a query, a request and a password, and the gain from a second process."""

import json
import statistics
import sys
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from typing import Final

import trio

from ops.bench.alone import argon2, driver, http
from ops.bench.filling.fill import fill
from ops.bench.harness import COMMAND, Measured, Options, Server, directory, embedded_url, measure, postgres, serving, settings_for
from ops.bench.inside import bearer_for
from ops.bench.report import ROOT, Figure, at_least, at_most

_BARE: Final = "bare Quart-Trio handler, stock Hypercorn"
_LIVE: Final = "declared GET /health/live"
_USER: Final = "declared, authenticated GET /api/user"


async def queries(_options: Options) -> Sequence[Figure]:
    """One single-row select through the Trio driver and pool, against a thread per query."""
    with directory() as place, postgres(place) as server:
        figures = await _in_a_process_of_its_own(
            "from ops.bench.alone.driver import measure; figures = measure(words[0]); "
            "result = [figures.native, figures.asyncio, figures.thread, figures.ratio]",
            server.application_url,
        )
    return [
        Figure("Trio driver and pool, CPU per query", figures[0], "µs"),
        Figure("psycopg on asyncio, without a pool", figures[1], "µs"),
        Figure("a thread per query, without a pool", figures[2], "µs"),
        Figure("Trio driver against a thread per query", figures[3], bar=at_most(driver.HIGHEST_RATIO)),
    ]


async def requests(options: Options) -> Sequence[Figure]:
    """CPU of one request: liveness and an authenticated endpoint of the real process, each against a bare handler on the stock server."""
    with ExitStack() as stack:
        places = [stack.enter_context(directory()) for _ in range(2)]

        def cases() -> list[http.Case]:
            # The server writes its log, as in production, to a file.
            serve = ["/bin/sh", "-c", 'exec "$0" serve 2>>"$1"', str(COMMAND)]
            settings = [settings_for(place, "127.0.0.1:{port}") for place in places]
            return [
                http.Case(_BARE, [sys.executable, "-m", "ops.bench.alone.http_servers", "stock", "{port}"]),
                http.Case(_LIVE, [*serve, str(places[0] / "bench.log")], "/health/live", environment=settings[0]),
                http.Case(_USER, [*serve, str(places[1] / "bench.log")], "/api/user", headers=signed_in, environment=settings[1]),
            ]

        def signed_in(base_url: str) -> Mapping[str, str]:
            people = fill(embedded_url(places[1]), options.users)
            settings = settings_for(places[1], base_url.removeprefix("http://"))
            return trio.from_thread.run(bearer_for, settings, people[len(people) // 2])

        figures = await trio.to_thread.run_sync(lambda: http.measure(cases(), rounds=5, seconds=options.seconds / 2))
    bars = {_LIVE: at_most(0.55), _USER: at_most(0.9)}
    return [
        *(Figure(f"{one.name}: CPU per request", one.microseconds, "µs") for one in figures),
        *(Figure(f"{one.name}: against the bare handler", one.ratio, bar=bars[one.name]) for one in figures if one.name in bars),
        *(Figure(f"{one.name}: requests a second, one process", one.requests_per_second) for one in figures),
    ]


async def processes(options: Options) -> Sequence[Figure]:
    """Throughput of --processes 2 against 1 on the same endpoint, in turns; the load generator works on the same cores."""
    with ExitStack() as stack:
        rates: dict[int, list[Measured]] = {1: [], 2: []}
        places = {count: stack.enter_context(directory()) for count in rates}
        async with serving(places[1]) as one, serving(places[2], arguments=("--processes", "2")) as two:
            for _ in range(3):
                for count, server in ((1, one), (2, two)):
                    rates[count].append(await _throughput(server, options))
    best = {count: statistics.median(one.load.rate for one in measured) for count, measured in rates.items()}
    failures = sum(one.load.failures for measured in rates.values() for one in measured)
    return [
        Figure("one process: requests a second", best[1]),
        Figure("two processes: requests a second", best[2]),
        Figure("two against one", best[2] / best[1], bar=at_least(1.5)),
        *(
            Figure(f"{count} of them: CPU per request", statistics.median(one.microseconds for one in rates[count]), "µs")
            for count in rates
        ),
        Figure("the load generator's CPU per request", statistics.median(one.generator_microseconds for one in rates[2]), "µs"),
        Figure("two processes: 99th percentile", statistics.median(one.load.p99 for one in rates[2]) * 1e3, "ms"),
        Figure("requests that failed", failures, bar=at_most(0)),
    ]


async def _throughput(server: Server, options: Options) -> Measured:
    return await measure(server, server.target("/health/live"), options)


async def passwords(_options: Options) -> Sequence[Figure]:
    """Argon2id verifications a second on one core: the build from set-up, against the wheel."""
    figures = await trio.to_thread.run_sync(argon2.measure)
    return [
        Figure("in force: verifications a second on one core", figures.in_force),
        Figure("the wheel: verifications a second on one core", figures.wheel),
        Figure("in force against the wheel", figures.ratio, bar=at_least(argon2.LEAST_RATIO)),
    ]


async def _in_a_process_of_its_own(program: str, *words: str) -> list[float]:
    """Runs the code in a process with its own event loops, and counts the CPU of that process. The code leaves a list in `result`."""
    wrapped = f"import json, sys; words = sys.argv[1:]; {program}; print(json.dumps(result))"
    done = await trio.run_process([sys.executable, "-c", wrapped, *words], capture_stdout=True, cwd=ROOT)
    figures: list[float] = json.loads(done.stdout.splitlines()[-1])
    return figures
