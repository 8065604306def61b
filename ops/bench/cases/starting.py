"""The time that Postern takes to start, and its memory when it is idle."""

from collections.abc import Sequence
from typing import Final

import trio

from ops.bench import processes
from ops.bench.cases.identity import credentials, people
from ops.bench.harness import Options, directory, serving
from ops.bench.load import Tally, ask_each
from ops.bench.report import Figure, at_most

SIGN_INS: Final = 1000
CONNECTIONS: Final = 4


async def start(_options: Options) -> Sequence[Figure]:
    """The time from the command to the first 200 of /health/ready, with Python's own start: on an empty directory, and on a directory with
    the data of an earlier start.
    """
    with directory() as place:
        async with serving(place) as server:
            first = server.readied_after
        later = []
        for _ in range(5):
            async with serving(place) as server:
                later.append(server.readied_after)
    return [
        Figure("first start to ready", first, "s", at_most(4)),
        Figure("next start to ready, median of 5", sorted(later)[2], "s", at_most(1.5)),
        Figure("next start to ready, slowest of 5", max(later), "s"),
    ]


async def memory(_options: Options) -> Sequence[Figure]:
    """Resident memory of one serving process: idle, a few seconds after its start; after some requests to every public page; and after a
    thousand sign-ins.
    """
    with directory() as place:
        async with serving(place) as server:
            await trio.sleep(3)
            idle = processes.resident_megabytes(server.pid)
            for path in ("/health", "/health/ready", "/metrics", "/openapi.json", "/docs", "/.well-known/jwks.json", "/nowhere") * 3:
                await server.status(path)
            used = processes.resident_megabytes(server.pid)
            open_files = processes.descriptors(server.pid)
            strangers, signed = await people(server, SIGN_INS), Tally()
            login = server.target("/api/auth/login")
            await ask_each((login.posting(credentials(one)) for one in strangers), signed, connections=CONNECTIONS)
            busy = processes.resident_megabytes(server.pid)
    return [
        Figure("resident, idle", idle, "MiB", at_most(105)),
        Figure("resident after each public page was asked for", used, "MiB"),
        Figure(f"resident after {SIGN_INS} sign-ins", busy, "MiB", at_most(175)),
        Figure("sign-ins that failed", signed.summary().failures, bar=at_most(0)),
        Figure("open descriptors, idle", open_files),
    ]
