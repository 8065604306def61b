"""The time that Postern takes to start, and its memory when it is idle."""

from collections.abc import Sequence

import trio

from ops.bench import processes
from ops.bench.harness import Options, directory, serving
from ops.bench.report import Figure, at_most


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
    """Resident memory of one idle serving process, a few seconds after its start; and after some requests to every public page."""
    with directory() as place:
        async with serving(place) as server:
            await trio.sleep(3)
            idle = processes.resident_megabytes(server.pid)
            for path in ("/health", "/health/ready", "/metrics", "/openapi.json", "/docs", "/.well-known/jwks.json", "/nowhere") * 3:
                await server.status(path)
            used = processes.resident_megabytes(server.pid)
            open_files = processes.descriptors(server.pid)
    return [
        Figure("resident, idle", idle, "MiB", at_most(105)),
        Figure("resident after each public page was asked for", used, "MiB"),
        Figure("open descriptors, idle", open_files),
    ]
