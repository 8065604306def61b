"""A server that gives the answers of a list, one after the other, and keeps the requests."""

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Event, Thread


@dataclass(frozen=True)
class ScriptedAnswer:
    status: int
    body: str = "{}"
    headers: tuple[tuple[str, str], ...] = ()
    never: bool = False
    """No answer comes until the server stops."""
    cut: bool = False
    """The connection closes without an answer."""


@dataclass(frozen=True)
class KeptRequest:
    method: str
    path: str
    headers: dict[str, str]
    body: str
    at: float


@dataclass
class ScriptedServer:
    port: int
    requests: list[KeptRequest] = field(default_factory=list)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"


@contextmanager
def scripted(answers: Sequence[ScriptedAnswer]) -> Iterator[ScriptedServer]:
    left, over = iter(answers), Event()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def answer(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", "0"))).decode()
            headers = {name.lower(): value for name, value in self.headers.items()}
            made.requests.append(KeptRequest(self.command, self.path, headers, body, time.monotonic()))
            given = next(left, ScriptedAnswer(500, '{"error": "no answer is left"}'))
            if given.never:
                over.wait()
            if given.never or given.cut:
                self.close_connection = True
                return
            self.send_response(given.status)
            for name, value in given.headers:
                self.send_header(name, value)
            content = b"" if given.status == 204 else given.body.encode()
            if given.status != 204:
                self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = answer  # noqa: N815 - the names that the base class calls

        def log_message(self, format: str, *arguments: object) -> None:  # noqa: A002 - the base class's name
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    made = ScriptedServer(server.server_address[1])
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield made
    finally:
        over.set()
        server.shutdown()
        server.server_close()
        thread.join()
