"""One client's connection: bytes in, one request after the other, bytes out, and every wait on the client under a deadline."""

import select
import socket
from enum import Enum, auto
from math import inf
from typing import Any, cast

import h11
import structlog
import trio
from hypercorn.config import Config
from hypercorn.trio.tcp_server import TCPServer
from hypercorn.trio.worker_context import WorkerContext
from hypercorn.typing import AppWrapper
from hypercorn.utils import parse_socket_addr

from entrypoints.http.protocol import Application, Exchange
from entrypoints.http.server_settings import ServerSettings
from entrypoints.http.wire import RETRY_SOON, Malformed, RequestHead, error_answer

log = structlog.get_logger()

Stream = trio.SocketStream | trio.SSLStream[trio.SocketStream]

_HEAD_READ = 16 * 1024
_BODY_READ = 64 * 1024
# How long, and for how much, a client that we stop listening to is heard out, so that our last answer reaches it before a reset does.
_LINGER = 0.5
_LINGER_BYTES = 1024 * 1024
# A connection that has not sent its request when the server winds up gets this long to do so.
_LAST_CALL = 1.0


class Worker(WorkerContext):
    """What all connections of one `serve` share."""

    def __init__(self, application: Application, settings: ServerSettings, config: Config) -> None:
        super().__init__(None)
        self.application = application
        self.settings = settings
        self.config = config
        self.state: dict[str, Any] = {}
        self.connections: set[Connection] = set()
        # By file descriptor: connections whose request the application has.
        self.in_flight: dict[int, Connection] = {}
        self.draining = False

    async def watch(self) -> None:
        """End the requests whose clients have left.

        Nobody reads from a connection while its request is being worked on, so the kernel is asked, for all of them in one call. This costs
        the quick requests nothing, where a task per request that waits for the end of the stream would add a third to their price.
        """
        interval = self.settings.watch_interval
        while True:
            await trio.sleep(interval)
            before = trio.current_time() - interval
            poll = select.poll()
            watched = {number: connection for number, connection in self.in_flight.items() if connection.began < before}
            for number in watched:
                poll.register(number, _LEFT)
            if watched:
                for number, events in poll.poll(0):
                    if events & _GONE:
                        watched[number].scope.cancel()


# Linux tells of a closed sending side even while unread bytes stand before it; elsewhere only a connection that is wholly gone shows.
_LEFT = getattr(select, "POLLRDHUP", 0)
_GONE = _LEFT | select.POLLHUP | select.POLLERR


class Phase(Enum):
    BEGINNING = auto()
    IDLE = auto()
    HEAD = auto()
    REQUEST = auto()


class Connection(TCPServer):
    """Hypercorn's TCP server, from the accepted stream to its end, with our own way in between: no task, channel or timer per request."""

    def __init__(self, worker: Worker, accepted: socket.socket, stream: Stream, scheme: str) -> None:
        # Hypercorn wraps applications to tell WSGI from ASGI; ours is called directly.
        super().__init__(cast(AppWrapper, worker.application), worker.config, worker, {}, cast(trio.SSLStream[trio.SocketStream], stream))
        self.worker = worker
        self.scope = trio.CancelScope()
        self.began = inf
        self._settings = worker.settings
        self._socket = accepted
        self._number = accepted.fileno()
        self._tls = stream if isinstance(stream, trio.SSLStream) else None
        self._transport = stream.transport_stream if isinstance(stream, trio.SSLStream) else stream
        self._scheme = scheme
        self._client = parse_socket_addr(accepted.family, accepted.getpeername())
        self._server = parse_socket_addr(accepted.family, accepted.getsockname())
        self._phase = Phase.BEGINNING
        self._body_waited = 0.0
        # Unread bytes may be on their way: a plain close would reset the connection and take our answer along.
        self._linger = False

    async def run(self) -> None:
        try:
            with self.scope:
                await self._converse()
            if self.scope.cancelled_caught and self._phase is Phase.HEAD:
                await self._farewell(408, "The request came too slowly")
        except (trio.BrokenResourceError, trio.ClosedResourceError, OSError):
            pass  # The client is gone, which is its right.
        except Exception:
            log.exception("connection_failed")
        finally:
            self.worker.connections.discard(self)
            await self._end()

    def wind_up(self) -> None:
        """The server is stopping: leave soon, if nothing comes. Not at once: a request may be on its way to us, and its client could not
        tell whether it was worked on.
        """
        if self._phase is not Phase.REQUEST:
            self.scope.deadline = min(self.scope.deadline, trio.current_time() + _LAST_CALL)

    def must_close(self) -> bool:
        return self.worker.draining

    async def transmit(self, data: bytes) -> None:
        if self._tls is not None:
            patience = self._settings.silence + len(data) / self._settings.least_bytes_a_second
            with trio.move_on_after(patience) as limit:
                try:
                    await self._tls.send_all(data)
                except (trio.BrokenResourceError, trio.ClosedResourceError):
                    await self._lose()
            if limit.cancelled_caught:
                await self._lose()
            return
        try:
            sent = self._socket.send(data)
        except BlockingIOError:
            sent = 0
        except OSError:
            await self._lose()
            return
        if sent < len(data):
            await self._transmit_rest(memoryview(data)[sent:])

    async def receive_body(self, received: int) -> bytes | None:
        began = trio.current_time()
        with trio.CancelScope(deadline=began + self._patience(self._body_waited, received)) as limit:
            try:
                data = await self._read(_BODY_READ)
            except (trio.BrokenResourceError, trio.ClosedResourceError, OSError):
                return b""
        if limit.cancelled_caught:
            return None
        self._body_waited += trio.current_time() - began
        return data

    def _patience(self, waited: float, moved: int) -> float:
        """How long the client may pause now, having let us wait so long in all for so many bytes."""
        settings = self._settings
        return min(settings.silence, settings.transfer_patience + moved / settings.least_bytes_a_second - waited)

    async def _transmit_rest(self, rest: memoryview) -> None:
        waited = 0.0
        sent = 0
        while sent < len(rest):
            began = trio.current_time()
            with trio.CancelScope(deadline=began + self._patience(waited, sent)) as limit:
                await trio.lowlevel.wait_writable(self._socket)
            if limit.cancelled_caught:
                await self._lose()
                return
            waited += trio.current_time() - began
            try:
                sent += self._socket.send(rest[sent:])
            except BlockingIOError:
                continue
            except OSError:
                await self._lose()
                return

    async def _lose(self) -> None:
        """The client cannot be answered any more: end this connection, and with it whoever is working for it."""
        self.scope.cancel()
        await trio.lowlevel.checkpoint_if_cancelled()

    async def _read(self, most: int) -> bytes:
        if self._tls is not None:
            return bytes(await self._tls.receive_some(most))
        while True:
            # Waiting first: a client rarely has its next request here already, and every round passes by the scheduler once.
            await trio.lowlevel.wait_readable(self._socket)
            try:
                return self._socket.recv(most)
            except BlockingIOError:
                continue

    async def _converse(self) -> None:
        keep_alive = self._settings.keep_alive
        if self._tls is not None:
            self._allow(self._settings.handshake)
            await self._tls.do_handshake()
        data = b""
        while True:
            if data:
                # Not idle any more, so a server that winds up now lets this request through.
                self._phase = Phase.BEGINNING
                await trio.lowlevel.checkpoint()
            else:
                self._allow(keep_alive)
                data = await self._read(_HEAD_READ)
                if not data:
                    return
            parser = h11.Connection(h11.SERVER, max_incomplete_event_size=self._settings.most_head_bytes)
            try:
                request = await self._read_head(parser, data)
                if request is None:
                    return
                head = RequestHead(request)
            except h11.RemoteProtocolError as error:
                await self._reject(
                    error.error_status_hint,
                    "The request is malformed" if error.error_status_hint != 431 else "The request head is too large",
                )
                return
            except Malformed as error:
                await self._reject(error.status, error.text)
                return
            exchange = Exchange(self, parser, head)
            await self._answer(exchange, head)
            if not exchange.keeps_alive:
                self._linger = not exchange.body_complete
                return
            self._phase = Phase.IDLE
            data = exchange.rest()

    def _allow(self, seconds: float) -> None:
        """Let the next wait on the client take this long."""
        if self.worker.draining:
            seconds = min(seconds, _LAST_CALL)
        self.scope.deadline = trio.current_time() + seconds

    async def _read_head(self, parser: h11.Connection, data: bytes) -> h11.Request | None:
        while True:
            parser.receive_data(data)
            event = parser.next_event()
            if type(event) is h11.Request:
                return event
            if self._phase is not Phase.HEAD:
                self._phase = Phase.HEAD
                self._allow(self._settings.head_patience)
            data = await self._read(_HEAD_READ)
            if not data:
                return None

    async def _answer(self, exchange: Exchange, head: RequestHead) -> None:
        worker = self.worker
        if len(worker.in_flight) >= self._settings.most_requests:
            await exchange.refuse(503, "SERVICE_UNAVAILABLE", "The service is busy", headers=RETRY_SOON)
            return
        scope = head.scope()
        scope["scheme"] = self._scheme
        scope["client"] = self._client
        scope["server"] = self._server
        scope["state"] = worker.state.copy()
        # The task outlives the request, and with it what the last one bound to its log lines.
        structlog.contextvars.clear_contextvars()
        self._phase = Phase.REQUEST
        self._body_waited = 0.0
        self.scope.deadline = inf
        self.began = trio.current_time()
        worker.in_flight[self._number] = self
        failed = True
        try:
            await worker.application(scope, exchange.receive, exchange.send)
            failed = False
        except Exception:
            log.exception("asgi_application_failed", method=head.method)
        except BaseExceptionGroup as group:
            # A nursery of the application's may end with a fault and our own cancellation together.
            ends, faults = group.split(trio.Cancelled)
            if faults is not None:
                if not isinstance(faults, ExceptionGroup):
                    raise
                log.exception("asgi_application_failed", method=head.method, exc_info=faults)
            if ends is not None:
                raise ends from None
        finally:
            del worker.in_flight[self._number]
        if exchange.finished or exchange.abandoned:
            return
        if not failed:
            log.error("asgi_application_failed", method=head.method, error="it returned without a whole answer")
        if exchange.answering:
            # Only breaking off tells the client that this is not all of it.
            exchange.keeps_alive = False
        else:
            await exchange.refuse(500, "INTERNAL_SERVER_ERROR", "Internal server error")

    async def _reject(self, status: int, text: str) -> None:
        self._linger = True
        self._phase = Phase.REQUEST
        await self.transmit(error_answer(status, "BAD_REQUEST", text, close=True))

    async def _farewell(self, status: int, text: str) -> None:
        with trio.move_on_after(_LINGER):
            await self.transmit(error_answer(status, "BAD_REQUEST", text, close=True))

    async def _end(self) -> None:
        if self._tls is not None or self._linger:
            with trio.move_on_after(_LINGER, shield=True):
                try:
                    if self._linger and self._tls is None:
                        await self._hear_out()
                    await self.stream.aclose()
                except (trio.BrokenResourceError, trio.ClosedResourceError, OSError):
                    pass
        self._transport.socket.close()

    async def _hear_out(self) -> None:
        self._socket.shutdown(socket.SHUT_WR)
        heard = 0
        while heard < _LINGER_BYTES:
            data = await self._read(_BODY_READ)
            if not data:
                return
            heard += len(data)
