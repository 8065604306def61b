"""What tracing costs: servers that differ in nothing but their settings, in turns on one PostgreSQL."""

import subprocess
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from itertools import cycle
from operator import attrgetter
from typing import Final

import trio

from ops.bench.filling.serving_people import SIGNING_IN, Revised, credentials, serve_people, sign_in_all
from ops.bench.harness import DidNotStart, Options, directory, generate
from ops.bench.load import Target, fetch
from ops.bench.paired import Contestant, each_once, ratio, take_turns
from ops.bench.report import ROOT, Figure, at_most
from ops.bench.shared_postgres import shared_postgres
from ops.free_ports import free_port

_TURNS: Final = 15
_SERVER: Final = attrgetter("server")
_UNHASHED: Final = attrgetter("unhashed")
_SHARES: Final = {"off": None, "a tenth traced": "0.1", "all traced": "1"}


async def traces(options: Options) -> Sequence[Figure]:
    """GET /api/user and sign-ins with tracing off, with a tenth of the requests traced (the default), and with all: processor time. A
    collector in another process takes the spans.
    """
    figures: list[Figure] = []
    async with AsyncExitStack() as stack:
        place = stack.enter_context(directory())
        postgres = stack.enter_context(shared_postgres(place))
        collector = await stack.enter_async_context(_collecting())
        servers: list[Revised] = []
        for number, (name, share) in enumerate(_SHARES.items()):
            more = {} if share is None else {"POSTERN_TRACES_ENDPOINT": collector, "POSTERN_TRACES_SAMPLE": share}
            servers.append(await serve_people(name, ROOT, stack, place / f"server{number}", postgres, more=more))
        for one in servers:
            await sign_in_all(one)
        seconds = min(options.seconds, 2.0)
        for connections in (1, 16):
            asking = [
                Contestant(one.name, one.side, partial(generate, one.server.target("/api/user"), connections, seconds, tokens=one.asked))
                for one in servers
            ]
            await take_turns(asking, _TURNS)
            figures += _compared(f"GET /api/user, {connections} connections", asking, _SERVER)
        signing = [Contestant(one.name, one.side, each_once(credentials(one, cycle(one.emails)), SIGNING_IN, seconds)) for one in servers]
        await take_turns(signing, _TURNS)
        figures += _compared("sign-in besides hashing", signing, _UNHASHED)
        figures.append(Figure("spans sent while all are traced", await _sent(servers[-1]), beside="not lost: the collector keeps up"))
    return figures


def _compared(what: str, all_of: Sequence[Contestant], figure: "attrgetter[float]") -> Sequence[Figure]:
    off, *others = all_of
    return [
        *(Figure(f"{what}: CPU, {one.name}", one.median(figure), "µs", beside=one.described()) for one in all_of),
        *(Figure(f"{what}: CPU, {one.name} against off", ratio(one, off, figure), bar=at_most(1.05)) for one in others),
        Figure(f"{what}: requests that failed", sum(one.failures for one in all_of), bar=at_most(0)),
    ]


async def _sent(one: Revised) -> float:
    answer = await fetch(Target("127.0.0.1", one.server.port, "/metrics"))
    lines = b"" if answer is None else answer.body
    found = [line.split()[-1] for line in lines.splitlines() if line.startswith(b'sso_spans_total{outcome="sent"}')]
    if not found or not float(found[0]):
        raise DidNotStart("the collector got no spans")
    return float(found[0])


@asynccontextmanager
async def _collecting() -> AsyncIterator[str]:
    """A collector in a process of its own, so that its work is not counted. It reads what it gets, and forgets it."""
    port = free_port()
    process = await trio.lowlevel.open_process([sys.executable, "-c", _COLLECTOR, str(port)], stderr=subprocess.DEVNULL)
    url = f"http://127.0.0.1:{port}/v1/traces"
    try:
        with trio.fail_after(30):
            while (await fetch(Target("127.0.0.1", port, "/"))) is None:  # noqa: ASYNC110 - it waits for another process
                await trio.sleep(0.05)
        yield url
    finally:
        process.kill()
        with trio.CancelScope(shield=True):
            await process.wait()


_COLLECTOR: Final = """
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

class Collector(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        self.rfile.read(int(self.headers["content-length"]))
        self.send_response(200)
        self.send_header("content-length", "2")
        self.end_headers()
        self.wfile.write(b"{}")

    do_GET = lambda self: self.send_error(404)
    log_message = lambda self, *_: None

ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Collector).serve_forever()
"""
