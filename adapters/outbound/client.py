"""The HTTP client for URLs that tenants name, and the certificate authorities that it trusts."""

import ssl
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Final

import httpcore
import trio

from adapters.outbound.connections import KeptConnections, OutboundConnection
from adapters.outbound.dialer import Dialer
from core.domain.outbound import OutboundDestination
from core.frozen import Frozen, replace
from ports.outbound import NO_HEADERS, Failure, OutboundAnswer, OutboundFailed, OutboundRequest
from ports.record import SpanKind, current_span


class Trust:
    """Outbound calls trust the machine's own certificate authorities, and those that the operator adds.

    One TLS context for all connections of one protocol. Reading a few hundred certificates takes twenty milliseconds, so the context is
    made once, in a thread, and does not hold up the event loop. Each protocol needs a `Trust` of its own: the HTTP client writes its
    protocol into the context (ALPN), and a mail server would refuse that protocol.
    """

    def __init__(self, authorities: Path | None) -> None:
        self._authorities = authorities
        self._context: ssl.SSLContext | None = None
        self._first = trio.Lock()

    async def context(self) -> ssl.SSLContext:
        async with self._first:
            if self._context is None:
                self._context = await trio.to_thread.run_sync(_context, self._authorities)
        return self._context


def _context(authorities: Path | None) -> ssl.SSLContext:
    context = ssl.create_default_context()
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    if authorities is not None:
        context.load_verify_locations(authorities)
    return context


LONGEST_ANSWER: Final = 64 << 10
# The size of a page with a hundred objects.
LONGEST_PAGE: Final = 4 << 20
# A caller takes these answers for failures (OpenTelemetry's conventions for clients of HTTP).
_FAILED: Final = 400


class GuardedClient:
    """Implements `ports.outbound.Outbound`. `authorities` is a file with certificate authorities that are trusted besides the machine's
    own.

    It speaks HTTP/1.1 on Trio. The dialer checks each connection, and connections are reused for a while. It follows no redirects, uses no
    proxies of the environment and no compression, reads only short responses, and has one deadline for a whole call.
    """

    def __init__(self, dialer: Dialer, authorities: Path | None = None, *, traced_hosts: Collection[str] = ()) -> None:
        """`traced_hosts` are the operator's own: calls to them carry `traceparent`. Nobody else learns the ids of our traces."""
        self._dialer = dialer
        self._traced_hosts = frozenset(traced_hosts)
        self._trust = Trust(authorities)
        self._connections: KeptConnections | None = None
        self._first = trio.Lock()

    def may_call(self, destination: OutboundDestination) -> bool:
        return destination.address is None or self._dialer.permits(destination.address)

    async def post(self, request: OutboundRequest, timeout: timedelta) -> OutboundAnswer:  # noqa: ASYNC109 - one deadline for a whole call
        headers = {"content-length": str(len(request.body)), **request.headers}
        return await self._answered(_Asked("POST", request.destination, headers, request.body, LONGEST_ANSWER), timeout)

    async def get(
        self,
        destination: OutboundDestination,
        timeout: timedelta,  # noqa: ASYNC109 - one deadline for a whole call
        *,
        most: int,
        headers: Mapping[str, str] = NO_HEADERS,
    ) -> OutboundAnswer:
        return await self._answered(_Asked("GET", destination, headers, None, most + 1), timeout)

    async def send(
        self,
        method: str,
        request: OutboundRequest,
        timeout: timedelta,  # noqa: ASYNC109 - one deadline for a whole call
        *,
        most: int,
    ) -> OutboundAnswer:
        has_body = bool(request.body) or method in {"POST", "PUT", "PATCH"}
        headers = {**({"content-length": str(len(request.body))} if has_body else {}), **request.headers}
        asked = _Asked(method, request.destination, headers, request.body if has_body else None, most + 1, once=method == "POST")
        return await self._answered(asked, timeout)

    async def _answered(self, asked: "_Asked", timeout: timedelta) -> OutboundAnswer:  # noqa: ASYNC109 - one deadline for a whole call
        open_span = current_span.get()
        if open_span is None:
            return await self._answer(asked, timeout)
        to = asked.destination
        attributes = (("http.request.method", asked.method), ("server.address", to.host), ("server.port", to.port))
        with open_span.child(SpanKind.CLIENT, asked.method, attributes) as span:
            if to.host in self._traced_hosts:
                asked = replace(asked, headers={**asked.headers, "traceparent": span.context().header()})
            try:
                answer = await self._answer(asked, timeout)
            except OutboundFailed as failed:
                span.error = failed.failure.value
                raise
            span.attributes = (*attributes, ("http.response.status_code", answer.status))
            if answer.status >= _FAILED:
                span.error = str(answer.status)
            return answer

    async def _answer(self, asked: "_Asked", timeout: timedelta) -> OutboundAnswer:  # noqa: ASYNC109 - one deadline for a whole call
        taken = _Taken()
        try:
            with trio.move_on_after(timeout.total_seconds()), _explained():
                while True:
                    try:
                        return await self._ask(asked, taken)
                    except _KeptConnectionLost:
                        if asked.once:
                            raise
                        # The server closed the kept connection as we began to write. The loop takes the next kept connection, or a new one.
                        continue
        except OutboundFailed as failed:
            raise OutboundFailed(failed.failure, was_connected=taken.was_connected) from None
        raise OutboundFailed(Failure.TIMEOUT, was_connected=taken.was_connected)

    async def _ask(self, asked: "_Asked", taken: "_Taken") -> OutboundAnswer:
        connections = self._connections or await self._opened()
        to = asked.destination
        headers = {"host": to.authority, "accept-encoding": "identity", **asked.headers}
        url = httpcore.URL(scheme=to.scheme, host=to.host, port=to.port, target=to.target)
        request = httpcore.Request(asked.method, url, headers=list(headers.items()), content=asked.content)
        taken.connection = None
        connection, kept = await connections.take(url.origin)
        taken.connection = connection
        answered = False
        try:
            response = await connection.handle_async_request(request)
            answered = True
            parts: list[bytes] = []
            received = 0
            try:
                # After enough bytes the loop is cancelled, not left with `break`: only a cancellation ends the library's generators and the
                # connection here.
                with trio.CancelScope() as enough:
                    async for part in response.aiter_stream():
                        parts.append(part)
                        received += len(part)
                        if received >= asked.longest:
                            enough.cancel()
            finally:
                await response.aclose()
        except (httpcore.NetworkError, httpcore.RemoteProtocolError):
            if kept and not answered:
                raise _KeptConnectionLost from None
            raise
        finally:
            await connections.give_back(url.origin, connection)
        named = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in response.headers}
        return OutboundAnswer(response.status, named, b"".join(parts)[: asked.longest])

    async def _opened(self) -> KeptConnections:
        async with self._first:
            if self._connections is None:
                self._connections = KeptConnections(self._dialer, await self._trust.context())
        return self._connections

    async def aclose(self) -> None:
        if self._connections is not None:
            await self._connections.aclose()


class PlainClient(GuardedClient):
    """Implements `ports.outbound.OperatorsOutbound`, for destinations that the operator names. Its dialer permits every address."""

    async def call(self, method: str, request: OutboundRequest, timeout: timedelta) -> OutboundAnswer:  # noqa: ASYNC109 - one deadline
        headers = {**({"content-length": str(len(request.body))} if request.body or method == "POST" else {}), **request.headers}
        return await self._answered(_Asked(method, request.destination, headers, request.body or None, LONGEST_PAGE), timeout)


class _Asked(Frozen):
    """`longest` is how many bytes of the answer are read. What goes `once` is not sent again over another connection."""

    method: str
    destination: OutboundDestination
    headers: Mapping[str, str]
    content: bytes | None
    longest: int
    once: bool = False


class _Taken:
    """The connection over which a call goes, for whoever asks afterwards whether there was one."""

    connection: OutboundConnection | None = None

    @property
    def was_connected(self) -> bool:
        return self.connection is not None and self.connection.has_connected


class _KeptConnectionLost(httpcore.NetworkError):
    """The server closed a kept connection before any byte of an answer arrived."""


@contextmanager
def _explained() -> Iterator[None]:
    """Turn the library's errors into `OutboundFailed`."""
    try:
        yield
    except httpcore.ConnectError as error:
        raise OutboundFailed(Failure.TLS if _of_tls(error) else Failure.UNREACHABLE) from None
    except (httpcore.NetworkError, httpcore.TimeoutException):
        raise OutboundFailed(Failure.UNREACHABLE) from None
    except (httpcore.ProtocolError, httpcore.UnsupportedProtocol):
        raise OutboundFailed(Failure.MALFORMED) from None


def _of_tls(error: BaseException | None) -> bool:
    while error is not None:
        if isinstance(error, ssl.SSLError):
            return True
        error = error.__cause__ or error.__context__
    return False
