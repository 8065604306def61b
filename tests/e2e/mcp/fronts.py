"""Web servers by https, on threads: one that hands everything on to a server on loopback, and one that publishes a client's document."""

import json
import socket
import ssl
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from threading import Thread
from typing import Any

from ops.stand_ins.mail_server import Certificates

Handle = Callable[[socket.socket], None]


@contextmanager
def _listening(certificates: Certificates, handle: Handle) -> Iterator[int]:
    """The port of a server that does this with each connection."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificates.certificate, certificates.key)
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def one(plain: socket.socket) -> None:
            with suppress(OSError), context.wrap_socket(plain, server_side=True) as wrapped:
                handle(wrapped)

        def accept() -> None:
            with suppress(OSError):
                while True:
                    Thread(target=one, args=[listener.accept()[0]], daemon=True).start()

        Thread(target=accept, daemon=True).start()
        yield listener.getsockname()[1]
        listener.shutdown(socket.SHUT_RDWR)


def front(certificates: Certificates, port: int) -> AbstractContextManager[int]:
    """Hands everything on to this port."""

    def pump(source: socket.socket, target: socket.socket) -> None:
        with suppress(OSError):
            while data := source.recv(65536):
                target.sendall(data)
            target.shutdown(socket.SHUT_WR)

    def handle(came: socket.socket) -> None:
        with socket.create_connection(("127.0.0.1", port)) as onward:
            Thread(target=pump, args=(came, onward), daemon=True).start()
            pump(onward, came)

    return _listening(certificates, handle)


def publishing(certificates: Certificates, document: Callable[[], Any]) -> AbstractContextManager[int]:
    """Answers each request with this document."""

    def handle(came: socket.socket) -> None:
        asked = b""
        while b"\r\n\r\n" not in asked:
            if not (data := came.recv(65536)):
                return
            asked += data
        body = json.dumps(document()).encode()
        head = "HTTP/1.1 200 OK", "Connection: close", "Content-Type: application/json", f"Content-Length: {len(body)}", "", ""
        came.sendall("\r\n".join(head).encode() + body)

    return _listening(certificates, handle)
