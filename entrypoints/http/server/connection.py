"""One client's connection: bytes in, one request after another, bytes out, and a deadline on every wait for the client."""

import select
import socket
from collections.abc import Callable
from enum import Enum, auto
from math import inf
from typing import Any, cast

import structlog
import trio
from hypercorn.config import Config
from hypercorn.trio.tcp_server import TCPServer
from hypercorn.trio.worker_context import WorkerContext
from hypercorn.typing import AppWrapper
from hypercorn.utils import parse_socket_addr

from entrypoints.event_loop_rounds import Rounds
from entrypoints.http.machinery.addresses import ClientAddresses
from entrypoints.http.server.bodies import SECTION_END, AnyBody, Body, MalformedBody, WholeBody, is_complete
from entrypoints.http.server.heads import RETRY_SOON, Headers, RequestHead, error_answer
from entrypoints.http.server.limits import Guests, Pace, ServerSettings
from entrypoints.http.server.protocol import FINISH, Application, Exchange

log = structlog.get_logger()

Stream = trio.SocketStream | trio.SSLStream[trio.SocketStream]

_HEAD_READ = 16 * 1024
_SPACE = 0x20
_BODY_READ = 64 * 1024
# When we stop serving a client, we still read from the client, for this long and for this many bytes. Otherwise a reset could overtake our
# last answer.
_LINGER = 0.5
_LINGER_BYTES = 1024 * 1024
# When the server stops, a connection that has not sent its request gets this long to do so.
_LAST_CALL = 1.0


_GIVEN_UP_AT_ONCE = 8
# How much is sent over TLS in one step: less than a client that keeps the pace takes in a period of `silence`.
_TLS_PIECE = 8 * 1024


def _uncounted(_reason: str) -> None:
    pass


class Worker(WorkerContext):
    """The state that all connections of one `serve` share. `closed` is called with the reason when a connection was refused, or closed
    against its client's will.
    """

    def __init__(
        self, application: Application, settings: ServerSettings, config: Config, closed: Callable[[str], None] = _uncounted
    ) -> None:
        super().__init__(None)
        self.application = application
        self.settings = settings
        self.config = config
        self.closed = closed
        self.state: dict[str, Any] = {}
        self.addresses = ClientAddresses(settings.trusted_proxies)
        self.connections: Guests[ClientConnection] = Guests(settings.most_connections_per_address)
        # By file descriptor: connections whose request is with the application.
        self.in_flight: dict[int, ClientConnection] = {}
        # How many connections of `in_flight` are not waiting for their client.
        self.working = 0
        # Connections whose current request has had to wait for its client; they stay until that request is over.
        self.waiting: Guests[ClientConnection] = Guests(settings.most_waiting_per_address)
        self.draining = False
        self.rounds = Rounds()
        # The first bytes of probes. Probes never wait for the next round.
        self.probing = tuple(b"GET %b " % path for path in settings.probes)

    def make_room(self, address: str | None) -> str | None:
        """Make room for one more connection. `address` is None for a connection from a proxy of ours. Returns the reason when there is no
        room.
        """
        while not self.connections.has_room(address):
            idle = self.connections.longest_resting_of(address)
            if idle is None:
                return "address_full"
            idle.give_way()
        while len(self.connections) >= self.settings.most_connections:
            idle = self.connections.longest_resting_of_greediest()
            if idle is None:
                return "process_full"
            idle.give_way()
        return None

    def bound_waiting(self) -> bool:
        """When we wait for too many clients, give up the clients that have kept us waiting longest. Only a few at a time, because ending
        hundreds at once would delay all other clients. A client that has been prompt so far is spared. True when there is more to do.
        """
        patience = trio.current_time() - self.settings.prompt
        for _ in range(_GIVEN_UP_AT_ONCE):
            if not self.waiting.overcrowded and len(self.waiting) <= self.settings.most_waiting:
                return False
            slowest = self.waiting.longest_resting_of_greediest() or next(iter(self.waiting))
            if slowest.waited_for_since > patience:
                return False
            self.waiting.leave(slowest)
            slowest.give_up_waiting()
        return True

    async def watch(self) -> None:
        """End requests whose clients have left, and requests beyond the limit on waiting for clients.

        While the application works on a request, nothing reads from its connection. So one call asks the kernel about all connections. This
        costs quick requests nothing. A task for each request, waiting for the end of the stream, would add a third to a request's cost.
        """
        interval = self.settings.watch_interval
        while True:
            await trio.sleep(interval)
            while self.bound_waiting():
                await trio.lowlevel.checkpoint()
            before = trio.current_time() - interval
            poll = select.poll()
            watched = {
                number: connection for number, connection in self.in_flight.items() if connection.began < before and not connection.finishes
            }
            for number in watched:
                poll.register(number, _LEFT)
            if watched:
                for number, events in poll.poll(0):
                    if events & _GONE:
                        watched[number].scope.cancel()


# Linux reports that a client has closed its sending side even while bytes are unread. Elsewhere only a wholly closed connection is noticed.
_LEFT = getattr(select, "POLLRDHUP", 0)
_GONE = _LEFT | select.POLLHUP | select.POLLERR


class Phase(Enum):
    BEGINNING = auto()
    IDLE = auto()
    HEAD = auto()
    REQUEST = auto()


class ClientConnection(TCPServer):
    """Hypercorn's TCP server, with our own handling of requests: no task, channel or timer for each request."""

    def __init__(self, worker: Worker, accepted: socket.socket, stream: Stream, scheme: str) -> None:
        # Hypercorn wraps applications to tell WSGI from ASGI. Our application is called directly.
        super().__init__(
            cast("AppWrapper", worker.application), worker.config, worker, {}, cast("trio.SSLStream[trio.SocketStream]", stream)
        )
        self.worker = worker
        self.scope = trio.CancelScope()
        self.began = inf
        self.finishes = False
        self._settings = worker.settings
        self._socket = accepted
        self._number = accepted.fileno()
        self._tls = stream if isinstance(stream, trio.SSLStream) else None
        self._transport = stream.transport_stream if isinstance(stream, trio.SSLStream) else stream
        self._scheme = scheme
        self._client = parse_socket_addr(accepted.family, accepted.getpeername())
        self._server = parse_socket_addr(accepted.family, accepted.getsockname())
        self._phase = Phase.BEGINNING
        self.waited_for_since = inf
        self._request_headers: Headers = ()
        self._body_pace: Pace | None = None
        # The current waits for the client. At most two, since an application may read and write at once.
        self._waits: list[trio.CancelScope] = []
        self._given_up = False
        self._gave_way = False
        # Unread bytes may be on their way: a plain close would reset the connection and lose our answer.
        self._linger = False

    async def run(self) -> None:
        try:
            with self.scope:
                await self._converse()
            if self.scope.cancelled_caught and self._phase is Phase.HEAD and not self._gave_way:
                if not self.worker.draining:
                    self.worker.closed("slow_head")
                await self._farewell(408, "The request arrived too slowly")
        except (trio.BrokenResourceError, trio.ClosedResourceError, OSError):
            pass  # The client has closed the connection, which is no fault.
        except Exception:
            log.exception("connection_failed")
        finally:
            self.worker.connections.leave(self)
            self.worker.waiting.leave(self)
            await self._end()

    def finish(self) -> None:
        """Do not cancel this request when its client leaves, because the application has begun work that would be lost."""
        self.finishes = True

    def wind_up(self) -> None:
        """The server is stopping, so close soon if nothing arrives. Not at once: a request may be on its way, and its client could not tell
        whether the request was processed.
        """
        if self._phase is not Phase.REQUEST:
            self.scope.deadline = min(self.scope.deadline, trio.current_time() + _LAST_CALL)

    def must_close(self) -> bool:
        return self.worker.draining

    def give_way(self) -> None:
        """Close this connection to make room for another. Called only while no request is under way here."""
        self._gave_way = True
        self.worker.connections.leave(self)
        self.worker.closed("made_room")
        self.scope.cancel()

    def give_up_waiting(self) -> None:
        """Stop waiting for this client, because we wait for too many clients. Does nothing while the application works on the request."""
        self._given_up = bool(self._waits)
        for wait in self._waits:
            wait.cancel()

    async def transmit(self, data: bytes) -> None:
        if self._tls is not None:
            await self._transmit_secured(self._tls, memoryview(data))
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
        pace = self._body_pace
        if pace is None:
            pace = self._body_pace = Pace(self._settings, received)
        began = trio.current_time()
        with trio.CancelScope(deadline=began + pace.patience) as wait:
            self._begin_wait(wait)
            try:
                data = await self._read(_BODY_READ)
            except (trio.BrokenResourceError, trio.ClosedResourceError, OSError):
                return b""
            finally:
                self._end_wait(wait)
        if wait.cancelled_caught:
            self._count_as_slow("slow_body")
            return None
        pace.waited(trio.current_time() - began, len(data))
        return data

    async def _transmit_rest(self, rest: memoryview) -> None:
        pace = Pace(self._settings)
        while rest:
            began = trio.current_time()
            with trio.CancelScope(deadline=began + pace.patience) as wait:
                self._begin_wait(wait)
                try:
                    await trio.lowlevel.wait_writable(self._socket)
                finally:
                    self._end_wait(wait)
            if wait.cancelled_caught:
                self._count_as_slow("slow_reader")
                await self._lose()
                return
            try:
                sent = self._socket.send(rest)
            except BlockingIOError:
                sent = 0
            except OSError:
                await self._lose()
                return
            pace.waited(trio.current_time() - began, sent)
            rest = rest[sent:]

    async def _transmit_secured(self, tls: "trio.SSLStream[trio.SocketStream]", rest: memoryview) -> None:
        """Send a piece at a time, because TLS does not tell how much of a piece has gone out until the whole piece has."""
        pace = Pace(self._settings)
        while rest:
            piece = rest[:_TLS_PIECE]
            began = trio.current_time()
            with trio.CancelScope(deadline=began + pace.patience + len(piece) / self._settings.least_bytes_a_second) as wait:
                self._begin_wait(wait)
                try:
                    await tls.send_all(piece)
                except (trio.BrokenResourceError, trio.ClosedResourceError):
                    await self._lose()
                finally:
                    self._end_wait(wait)
            if wait.cancelled_caught:
                self._count_as_slow("slow_reader")
                await self._lose()
                return
            pace.waited(trio.current_time() - began, len(piece))
            rest = rest[len(piece) :]

    def _begin_wait(self, wait: trio.CancelScope) -> None:
        """From here on we wait for the client. Waiting does not count as work, and has a limit of its own."""
        worker = self.worker
        self._waits.append(wait)
        if len(self._waits) == 1 and self._number in worker.in_flight:
            worker.working -= 1
        if self not in worker.waiting:
            self.waited_for_since = trio.current_time()
            worker.waiting.enter(self, self._address())
            worker.bound_waiting()

    def _end_wait(self, wait: trio.CancelScope) -> None:
        self._waits.remove(wait)
        if not self._waits and self._number in self.worker.in_flight:
            self.worker.working += 1

    def _count_as_slow(self, reason: str) -> None:
        self.worker.closed("crowded_out" if self._given_up else reason)

    def _address(self) -> str | None:
        """The address of the client itself, also behind a proxy of ours. None when the proxy does not report the client's address."""
        addresses = self.worker.addresses
        forwarded = b", ".join(value for name, value in self._request_headers if name == b"x-forwarded-for")
        address = addresses.of(None if self._client is None else self._client[0], forwarded or None)
        return None if addresses.is_ours(address) else address

    async def _lose(self) -> None:
        """End this connection and its request, because the client can no longer be answered."""
        self.scope.cancel()
        await trio.lowlevel.checkpoint_if_cancelled()

    async def _read(self, most: int) -> bytes:
        if self._tls is not None:
            return bytes(await self._tls.receive_some(most))
        while True:
            # Wait before the first `recv`: a client's next request is rarely here already, and each loop must pass the scheduler once.
            await trio.lowlevel.wait_readable(self._socket)
            try:
                return self._socket.recv(most)
            except BlockingIOError:
                continue

    async def _converse(self) -> None:
        worker, keep_alive = self.worker, self._settings.keep_alive
        if self._tls is not None:
            self._allow(self._settings.handshake)
            await self._tls.do_handshake()
        data, is_new = b"", True
        while True:
            if data:
                self._let_through()
                await trio.lowlevel.checkpoint()
            else:
                self._allow(keep_alive)
                data = await self._read(_HEAD_READ)
                stands_in_line = worker.rounds.is_full() if is_new or not data else worker.rounds.is_crowded()
                if stands_in_line and not data.startswith(worker.probing):
                    if data:
                        self._let_through()
                    await worker.rounds.next_one()
                if not data:
                    return
                is_new = False
            try:
                parts = await self._read_head(data)
                if parts is None or self._gave_way:
                    return
                section, received = parts
                head = RequestHead(section)
            except MalformedBody as error:
                await self._reject(error.status, error.text)
                return
            exchange = Exchange(self, head, self._body_of(head, received))
            await self._answer(exchange, head)
            if not exchange.keeps_alive:
                self._linger = not exchange.body_complete
                return
            self._phase = Phase.IDLE
            data = exchange.rest()

    def _body_of(self, head: RequestHead, received: bytes) -> AnyBody:
        length, settings = head.length, self._settings
        if length is not None and length <= len(received):
            return WholeBody(received[:length], received[length:])
        return Body(length, received, most_trailers=settings.most_header_lines, most_trailer_bytes=settings.most_head_bytes)

    def _let_through(self) -> None:
        """A request has arrived and now waits for us, however long that takes. So a server that stops, too, lets it through."""
        self._phase = Phase.REQUEST
        self.scope.deadline = inf

    def _allow(self, seconds: float) -> None:
        """Let the next wait on the client take this long."""
        if self.worker.draining:
            seconds = min(seconds, _LAST_CALL)
        self.scope.deadline = trio.current_time() + seconds

    async def _read_head(self, data: bytes) -> tuple[bytes, bytes] | None:
        """The bytes before the first empty line, and the bytes after it. None when the client leaves before the line arrives."""
        most_lines, most = self._settings.most_header_lines, self._settings.most_head_bytes
        while True:
            complete = is_complete(data, most_lines)
            section, _, received = data.partition(SECTION_END)
            # Part of the empty line may have arrived.
            if len(section) > (most if complete else most + len(SECTION_END) - 1):
                raise MalformedBody(431, "The request head is too large")
            if complete:
                return section, received
            if data[0] <= _SPACE:
                # No request begins with such a byte, but a TLS handshake does.
                raise MalformedBody(400, "The request line is malformed")
            if self._phase is not Phase.HEAD:
                self._phase = Phase.HEAD
                self._allow(self._settings.head_patience)
            more = await self._read(_HEAD_READ)
            if not more:
                return None
            data += more

    async def _answer(self, exchange: Exchange, head: RequestHead) -> None:
        worker = self.worker
        if worker.working >= self._settings.most_requests and head.target.partition(b"?")[0] not in self._settings.probes:
            await exchange.refuse(503, "SERVICE_UNAVAILABLE", "The service is busy", headers=RETRY_SOON)
            return
        scope = head.scope()
        scope["scheme"] = self._scheme
        scope["client"] = self._client
        scope["server"] = self._server
        scope["state"] = worker.state.copy()
        scope["extensions"][FINISH] = self.finish
        # One task serves all requests of a connection. Without this call, log lines would have values of the previous request.
        structlog.contextvars.clear_contextvars()
        self._phase = Phase.REQUEST
        self._request_headers = head.headers
        self._body_pace = None
        self.scope.deadline = inf
        self.began = trio.current_time()
        self.finishes = False
        worker.in_flight[self._number] = self
        worker.working += 1
        worker.connections.busy(self)
        failed = True
        try:
            await worker.application(scope, exchange.receive, exchange.send)
            failed = False
        except Exception:
            log.exception("asgi_application_failed", method=head.method)
        except BaseExceptionGroup as group:
            # A nursery of the application may end with a fault and our own cancellation together.
            ends, faults = group.split(trio.Cancelled)
            if faults is not None:
                if not isinstance(faults, ExceptionGroup):
                    raise
                log.exception("asgi_application_failed", method=head.method, exc_info=faults)
            if ends is not None:
                raise ends from None
        finally:
            self._end_request()
        if exchange.finished or exchange.abandoned:
            return
        if not failed:
            log.error("asgi_application_failed", method=head.method, error="it returned without a whole answer")
        if exchange.answering:
            # The client learns that the answer is incomplete only if the connection is closed.
            exchange.keeps_alive = False
        else:
            await exchange.refuse(500, "INTERNAL_SERVER_ERROR", "Internal server error")

    def _end_request(self) -> None:
        worker = self.worker
        del worker.in_flight[self._number]
        worker.working -= 1
        worker.connections.rests(self)
        if self.waited_for_since != inf:
            worker.waiting.leave(self)
            self.waited_for_since = inf

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
