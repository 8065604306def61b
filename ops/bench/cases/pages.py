"""The cost of pages, against the cheapest answer of the server."""

import re
from collections.abc import Sequence
from functools import partial
from operator import attrgetter
from typing import Final

import trio

from ops.bench.harness import DidNotStart, Options, Server, directory, generate, serving
from ops.bench.load import fetch
from ops.bench.paired import Contestant, Side, ratio, take_turns
from ops.bench.report import Figure, at_most, complain
from ops.bench.shared_postgres import shared_postgres

CONNECTIONS: Final = 16
TURNS: Final = 7
LIVE: Final = "GET /health/live"
PAGE: Final = "GET /ui/sign-in"
CPU: Final = attrgetter("server")
_ASSET: Final = re.compile(r'(?:href|src)="(/assets/[^"]+)"')


async def pages(options: Options) -> Sequence[Figure]:
    """The sign-in page against `GET /health/live`: CPU per request, and the kilobytes of a first visit."""
    seconds = max(1.0, options.seconds / 2)
    with directory() as place, shared_postgres(place) as postgres:
        data_dir = place / "postern"
        data_dir.mkdir()
        async with serving(data_dir, database_url=postgres.create("postern")) as server:
            weight = await _first_visit(server)
            complain("pages: 16 connections …")
            await trio.to_thread.run_sync(postgres.settle)
            side = Side(server.pid, "postern", postgres)
            live, page = [
                Contestant(f"GET {path}", side, partial(generate, server.target(path), CONNECTIONS, seconds))
                for path in (LIVE.removeprefix("GET "), PAGE.removeprefix("GET "))
            ]
            await take_turns([live, page], TURNS)
    return [
        *(Figure(f"{one.name}: CPU per request", one.median(CPU), "µs", beside=one.described()) for one in (live, page)),
        Figure(f"{PAGE} against {LIVE}: CPU per request", ratio(page, live, CPU), bar=at_most(3.0)),
        Figure("first visit to the sign-in page, bodies uncompressed", weight, "KiB", bar=at_most(30)),
        Figure("requests that failed", live.failures + page.failures, bar=at_most(0)),
    ]


async def _first_visit(server: Server) -> float:
    """The page with everything that it loads."""
    page = await _body(server, "/ui/sign-in")
    assets = sorted(set(_ASSET.findall(page.decode())))
    return (len(page) + sum([len(await _body(server, asset)) for asset in assets])) / 1024


async def _body(server: Server, path: str) -> bytes:
    answer = await fetch(server.target(path))
    if answer is None or answer.status != 200:
        raise DidNotStart(f"{path} does not answer")
    return answer.body
