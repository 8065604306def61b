"""The servers that `ops.bench.alone.http` compares.

`python -m ops.bench.alone.http_servers stock|quart|plain PORT` starts one, until a signal ends it.
"""

import socket
import sys
from collections.abc import Awaitable, Callable
from typing import Any

import hypercorn.trio
import trio
from hypercorn.config import Config
from quart_trio import QuartTrio

from entrypoints.http.server.serving import ServerSettings, serve

_BODY = b'{"status":"ok"}'
_HEADERS = [(b"content-type", b"application/json"), (b"content-length", b"15")]


def quart() -> QuartTrio:
    application = QuartTrio("bench")

    @application.get("/")
    async def root() -> dict[str, str]:
        return {"status": "ok"}

    return application


async def plain(scope: Any, receive: Callable[[], Awaitable[Any]], send: Callable[[Any], Awaitable[None]]) -> None:
    if scope["type"] == "lifespan":
        for stage in ("startup", "shutdown"):
            await receive()
            await send({"type": f"lifespan.{stage}.complete"})
        return
    await send({"type": "http.response.start", "status": 200, "headers": _HEADERS})
    await send({"type": "http.response.body", "body": _BODY})


async def stock(port: int) -> None:
    config = Config()
    config.bind = [f"127.0.0.1:{port}"]
    config.errorlog = None
    await hypercorn.trio.serve(quart(), config)


async def ours(application: Any, port: int) -> None:
    await serve(application, [socket.create_server(("127.0.0.1", port), backlog=1024)], ServerSettings(), shutdown=trio.Event())


def main() -> None:
    kind, port = sys.argv[1], int(sys.argv[2])
    if kind == "stock":
        trio.run(stock, port)
    else:
        trio.run(ours, quart() if kind == "quart" else plain, port)


if __name__ == "__main__":
    main()
