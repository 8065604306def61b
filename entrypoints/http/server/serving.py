"""Serve an ASGI application over sockets that are already bound: lifespan, accepting connections, and an orderly shutdown."""

import errno
import socket
import ssl
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, cast

import structlog
import trio
from hypercorn.app_wrappers import ASGIWrapper
from hypercorn.config import Config
from hypercorn.logging import Logger
from hypercorn.trio.lifespan import Lifespan
from hypercorn.typing import ASGIFramework

from entrypoints.http.server.connection import ClientConnection, Stream, Worker
from entrypoints.http.server.heads import RETRY_SOON, error_answer
from entrypoints.http.server.limits import ServerSettings
from entrypoints.http.server.protocol import Application

__all__ = ["ServerSettings", "serve"]

log = structlog.get_logger()

# Errors of accept(2). `_FULL_HOUSE` means that this machine or process is out of resources, `_BROKEN_LISTENER` that the listener is
# unusable. Any other error concerns one connection that failed before it began.
_FULL_HOUSE = {errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ENOBUFS}
_BROKEN_LISTENER = {errno.EBADF, errno.EINVAL, errno.ENOTSOCK, errno.EOPNOTSUPP}
_FULL_HOUSE_PAUSE = 0.1
_FULL_HOUSE_LOG_EVERY = 10.0
# How many connections are accepted before other tasks have their turn. When many clients connect at once, the kernel keeps the rest
# waiting, and our current clients are not delayed.
_ACCEPTS_AT_ONCE = 8
_WITH_ADDRESSES = {socket.AF_INET, socket.AF_INET6}
# By the reason for which `Worker.make_room` has no room.
_REFUSALS = {
    "address_full": (429, "RATE_LIMIT_EXCEEDED", "This address has too many connections: close some"),
    "process_full": (503, "SERVICE_UNAVAILABLE", "The service is busy"),
}


class _LifespanLog(Logger):
    """Sends the log messages of Hypercorn's lifespan to our own log."""

    def __init__(self, config: Config) -> None:
        pass

    async def warning(self, message: str, *_args: Any, **_kwargs: Any) -> None:
        log.warning("asgi_lifespan", message=message)

    async def exception(self, message: str, *_args: Any, **_kwargs: Any) -> None:
        log.error("asgi_lifespan", message=message, exc_info=True)  # noqa: LOG014 - called by Hypercorn while it handles the exception


async def serve(
    application: Application,
    sockets: Sequence[socket.socket],
    settings: ServerSettings,
    *,
    shutdown: trio.Event,
    closed: Callable[[str], None] = lambda _reason: None,
    task_status: trio.TaskStatus[list[str]] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Serve until `shutdown` is set, then let requests in flight finish within `settings.drain`, and return.

    Reports the addresses once the application has started and connections are accepted. The sockets are bound and listening, and `serve`
    closes them at its end. If processes share a socket, only this process's handle is closed. `closed` is called with the reason for every
    connection that was refused, or closed against its client's will.
    """
    config = Config()
    config.logger_class = _LifespanLog
    # HTTP/2 is not offered: hypercorn's is slower here than its HTTP/1.1, and its clients can end the server.
    config.alpn_protocols = ["http/1.1"]
    worker = Worker(application, settings, config, closed)
    tls = _tls_context(config, settings)
    lifespan = Lifespan(ASGIWrapper(cast("ASGIFramework", application)), config, worker.state)
    try:
        async with trio.open_nursery() as lifespan_nursery:
            await lifespan_nursery.start(lifespan.handle_lifespan)
            await lifespan.wait_for_startup()
            await _serve_connections(worker, sockets, tls, shutdown, task_status)
            await lifespan.wait_for_shutdown()
            lifespan_nursery.cancel_scope.cancel()
    finally:
        for listener in sockets:
            listener.close()


async def _serve_connections(
    worker: Worker,
    sockets: Sequence[socket.socket],
    tls: ssl.SSLContext | None,
    shutdown: trio.Event,
    task_status: trio.TaskStatus[list[str]],
) -> None:
    doors = [Door(worker, listener, tls) for listener in sockets]
    async with trio.open_nursery() as watch:
        watch.start_soon(worker.watch)
        watch.start_soon(worker.rounds.run)
        async with trio.open_nursery() as guests:
            async with trio.open_nursery() as accepting:
                for door in doors:
                    accepting.start_soon(door.keep_open, guests)
                task_status.started([door.address for door in doors])
                await shutdown.wait()
                accepting.cancel_scope.cancel()
            worker.draining = True
            for door in doors:
                door.shut(guests)
            for connection in list(worker.connections):
                connection.wind_up()
            guests.cancel_scope.deadline = trio.current_time() + worker.settings.drain
        if guests.cancel_scope.cancelled_caught:
            log.warning("drain_cut_short", after=worker.settings.drain)
        watch.cancel_scope.cancel()


def _tls_context(config: Config, settings: ServerSettings) -> ssl.SSLContext | None:
    if settings.certificate is None:
        return None
    config.certfile = str(settings.certificate)
    config.keyfile = str(settings.certificate_key)
    context = config.create_ssl_context()
    if context is not None:
        # Renegotiation, which TLS 1.3 abolished, lets a client make us do the costly half of a handshake as often as it likes.
        context.options |= ssl.OP_NO_RENEGOTIATION
    return context


def _address(scheme: str, listener: socket.socket) -> str:
    name = listener.getsockname()
    if listener.family == socket.AF_INET6:
        return f"{scheme}://[{name[0]}]:{name[1]}"
    if listener.family == socket.AF_INET:
        return f"{scheme}://{name[0]}:{name[1]}"
    return f"unix:{name}"


class Door:
    """One listening socket."""

    def __init__(self, worker: Worker, listener: socket.socket, tls: ssl.SSLContext | None) -> None:
        self._worker = worker
        self._listener = listener
        self._tls = tls
        self._scheme = "http" if tls is None else "https"
        self._complained_at = -_FULL_HOUSE_LOG_EVERY
        listener.setblocking(False)
        self.address = _address(self._scheme, listener)

    async def keep_open(self, guests: trio.Nursery) -> None:
        while True:
            await trio.lowlevel.wait_readable(self._listener)
            try:
                self._admit(guests, _ACCEPTS_AT_ONCE)
            except OSError as error:
                if error.errno not in _FULL_HOUSE:
                    raise
                self._complain(error)
                # The connection stays in the backlog and the socket stays readable, so without a pause this loop would spin.
                await trio.sleep(_FULL_HOUSE_PAUSE)

    def shut(self, guests: trio.Nursery) -> None:
        """Accept the connections that the kernel has already accepted, then close. Closing a listener resets the connections in its
        backlog, and their clients would see an error. A connection that arrives between the last accept and the close is reset: Linux does
        not do both in one step, and a filter that keeps connections off would stay on the socket, which other processes may share.
        """
        try:
            while self._admit(guests, _ACCEPTS_AT_ONCE):
                pass
        except OSError as error:
            self._complain(error)
        self._listener.close()

    def _admit(self, guests: trio.Nursery, most: int) -> bool:
        """Accept what waits, up to `most`. True when more may be waiting."""
        for _ in range(most):
            try:
                accepted, peer = self._listener.accept()
            except BlockingIOError:
                return False
            except OSError as error:
                if error.errno in _FULL_HOUSE | _BROKEN_LISTENER:
                    raise
                continue
            self._receive(accepted, self._address_of(peer), guests)
        return True

    def _address_of(self, peer: Any) -> str | None:
        """The peer's address. None for a proxy of ours, since it brings many clients: a trusted proxy, or any peer on a Unix socket."""
        if self._listener.family not in _WITH_ADDRESSES or self._worker.addresses.is_ours(peer[0]):
            return None
        return str(peer[0])

    def _receive(self, accepted: socket.socket, address: str | None, guests: trio.Nursery) -> None:
        accepted.setblocking(False)
        reason = self._worker.make_room(address)
        if reason is not None:
            self._worker.closed(reason)
            self._turn_away(accepted, reason)
            return
        try:
            plain = trio.SocketStream(trio.socket.from_stdlib_socket(accepted))
            stream: Stream = plain
            if self._tls is not None:
                stream = trio.SSLStream(plain, self._tls, server_side=True, https_compatible=True)
            connection = ClientConnection(self._worker, accepted, stream, self._scheme)
        except OSError:
            accepted.close()  # The peer left after we accepted it and before we asked for its address.
            return
        self._worker.connections.enter(connection, address)
        guests.start_soon(connection.run)

    def _turn_away(self, accepted: socket.socket, reason: str) -> None:
        """Answer with the refusal if that costs nothing: one send into an empty buffer, without a task."""
        with suppress(OSError), accepted:
            if self._tls is None:
                accepted.send(error_answer(*_REFUSALS[reason], close=True, headers=RETRY_SOON))

    def _complain(self, error: OSError) -> None:
        now = trio.current_time()
        if now - self._complained_at >= _FULL_HOUSE_LOG_EVERY:
            self._complained_at = now
            log.error("accept_failed", address=self.address, error=errno.errorcode.get(error.errno or 0, "unknown"))
