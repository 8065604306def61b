"""A connection to an LDAP directory, and the paged searches on it."""

import socket
import ssl
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from types import TracebackType
from typing import Final, Self

import trio

from adapters.ldap import messages
from adapters.ldap.messages import (
    ORDINARY,
    SEQUENCE,
    LdapMessage,
    LdapOperation,
    LdapResult,
    LdapResultCode,
    MalformedMessage,
    MessageBounds,
    ReceivedEntry,
    SearchScope,
    length_at,
)
from core.domain.identity.upstream.ldap.answers import LdapFailed, LdapFault, LdapStep
from core.domain.identity.upstream.ldap.filters import LdapFilter
from core.domain.identity.upstream.ldap.settings import LdapHost
from core.domain.identity.upstream.ldap.surveys import MOST_PEOPLE
from core.frozen import Frozen
from ports.outbound import Failure, OutboundFailed

Dial = Callable[[str, int], Awaitable[tuple[socket.socket, bool]]]

MOST_ANSWER_BYTES: Final = 16 << 20
# In memory, beside its own bytes: short values would otherwise take many times what came.
_A_VALUE_TAKES: Final = 48
_AT_ONCE: Final = 16 << 10
_SECONDS: Final = 5
_GOODBYE_TAKES: Final = 0.2
_UNREACHED: Final = {Failure.REFUSED: LdapFault.NOT_ALLOWED, Failure.UNRESOLVED: LdapFault.NO_NAME}
# X509_V_ERR_… of OpenSSL.
_BY_CERTIFICATE: Final = {
    10: LdapFault.EXPIRED,
    18: LdapFault.OTHER_AUTHORITY,
    19: LdapFault.OTHER_AUTHORITY,
    20: LdapFault.OTHER_AUTHORITY,
    21: LdapFault.OTHER_AUTHORITY,
    62: LdapFault.OTHER_HOST,
    64: LdapFault.OTHER_HOST,
}


class FoundEntries(Frozen):
    entries: Sequence[ReceivedEntry]
    is_more: bool
    """The directory has more that fit; these were not asked for."""


class LdapConnection:
    """One connection to a directory. It begins in TLS, or upgrades to it before anything else is sent. Every response has a bound on bytes,
    entries and pages, and no referral is followed. The caller bounds the time.
    """

    def __init__(self, stream: trio.abc.Stream) -> None:
        self._stream = stream
        self._buffer = bytearray()
        self._number = 0
        self._left = 0
        """Bytes that the answer to the last search may still have, over all its pages."""
        self.has_found = False
        """Entries have come to the last search."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        """Says goodbye if the conversation went well, and does not wait for an answer, since there is none."""
        if kind is None:
            with trio.move_on_after(_GOODBYE_TAKES), suppress(trio.BrokenResourceError, trio.ClosedResourceError):
                await self._stream.send_all(messages.message(self._number + 1, messages.unbind()))
        await self.abandon()

    async def abandon(self) -> None:
        await trio.aclose_forcefully(self._stream)

    def drop(self) -> None:
        """For whoever cannot wait, as when nobody reads on and Python clears up."""
        stream = self._stream
        while isinstance(stream, trio.SSLStream):
            stream = stream.transport_stream
        if isinstance(stream, trio.SocketStream):
            stream.socket.close()

    async def start_tls(self, host: LdapHost, context: ssl.SSLContext) -> None:
        result = await self._done(messages.start_tls(), LdapOperation.EXTENDED_DONE, LdapStep.START_TLS)
        if result.code != LdapResultCode.SUCCESS:
            raise LdapFailed(LdapStep.START_TLS, LdapFault.START_TLS_REFUSED, result.said)
        if self._buffer:
            raise LdapFailed(LdapStep.START_TLS, LdapFault.BYTES_BEHIND)
        self._stream = await in_tls(self._stream, host, context)

    async def bind(self, dn: str, password: bytes) -> LdapResult:
        """The caller has seen to it that neither is empty."""
        return await self._done(messages.bind(dn, password), LdapOperation.BOUND, LdapStep.BIND, [messages.asks_for_policy()])

    async def search(
        self, base: str, scope: SearchScope, wanted: LdapFilter, attributes: Sequence[str], *, most: int, page: int = 0, step: LdapStep
    ) -> FoundEntries:
        """With `page`, the entries come in pages of that size, and the answer ends at `most`. Without, nobody reads on behind `most`: the
        connection serves for nothing else then. Raises `LdapFailed`.
        """
        self.has_found, self._left = False, MOST_ANSWER_BYTES
        found: list[ReceivedEntry] = []
        cookie, pages = b"", 0
        while True:
            controls = [messages.paged(page, cookie)] if page else []
            asked = messages.search(base, scope, wanted, attributes, most=0 if page else most, seconds=_SECONDS)
            result = await self._collect(asked, controls, found, most if not page else most + page, step)
            if result is None:
                if page:
                    raise LdapFailed(step, LdapFault.TOO_LONG)
                return FoundEntries(found[:most], is_more=True)
            if result.code in {LdapResultCode.SIZE_LIMIT, LdapResultCode.TIME_LIMIT} and found:
                return FoundEntries(found[:most], is_more=True)
            if result.code == LdapResultCode.NO_SUCH_OBJECT:
                raise LdapFailed(LdapStep.BASE, LdapFault.NO_BASE, result.said)
            if result.code == LdapResultCode.REFERRAL:
                raise LdapFailed(LdapStep.BASE, LdapFault.REFERRED, result.said)
            if result.code != LdapResultCode.SUCCESS:
                raise LdapFailed(step, refused(result, LdapFault.SEARCH_REFUSED), f"{result.code}: {result.said}")
            cookie = page_cookie(result, step) if page else b""
            if not cookie or len(found) >= most:
                return FoundEntries(found[:most], is_more=bool(cookie) or len(found) > most)
            # Some directories name all pages of a search by one cookie, so that only their number is bounded.
            pages += 1
            if pages * page > most:
                raise LdapFailed(step, LdapFault.TOO_LONG)

    async def _collect(
        self, asked: bytes, controls: Sequence[bytes], found: list[ReceivedEntry], most: int, step: LdapStep
    ) -> LdapResult | None:
        """The result, or None as soon as there are more than `most`."""
        await self.ask(asked, controls, step)
        while True:
            came, size = await self.receive(step)
            self._left -= size
            if came.result is not None and came.operation == LdapOperation.DONE:
                return came.result
            if came.operation == LdapOperation.REFERENCE:
                if self._left < 0:
                    raise LdapFailed(step, LdapFault.TOO_LONG)
                continue
            if came.entry is None:
                raise LdapFailed(step, LdapFault.MALFORMED)
            found.append(came.entry)
            self.has_found = True
            self._left -= _A_VALUE_TAKES * sum(len(values) for values in came.entry.attributes.values())
            if self._left < 0:
                raise LdapFailed(step, LdapFault.TOO_LONG)
            if len(found) > most:
                return None

    async def _done(self, operation: bytes, answer: LdapOperation, step: LdapStep, controls: Sequence[bytes] = ()) -> LdapResult:
        await self.ask(operation, controls, step)
        came, _ = await self.receive(step)
        if came.result is None or came.operation != answer:
            raise LdapFailed(step, LdapFault.MALFORMED)
        return came.result

    async def ask(self, operation: bytes, controls: Sequence[bytes], step: LdapStep) -> None:
        """Begins an operation, whose answers are read by `receive`. Raises `LdapFailed`."""
        self._number += 1
        try:
            await self._stream.send_all(messages.message(self._number, operation, controls))
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            raise LdapFailed(step, LdapFault.CUT_OFF) from None

    async def receive(self, step: LdapStep, bounds: MessageBounds = ORDINARY) -> tuple[LdapMessage, int]:
        """The next message for our last request, and how long it is. Raises `LdapFailed`."""
        try:
            while True:
                content = await self._message(step, bounds.bytes)
                came = messages.received(content, bounds)
                if came.number == self._number:
                    return came, len(content)
                # 0 is a notice that the directory hangs up (RFC 4511, section 4.4). No other number belongs here.
                raise LdapFailed(step, LdapFault.MALFORMED if came.number else LdapFault.CUT_OFF)
        except MalformedMessage:
            raise LdapFailed(step, LdapFault.MALFORMED) from None

    async def _message(self, step: LdapStep, most: int) -> bytes:
        while True:
            if self._buffer and self._buffer[0] != SEQUENCE:
                raise MalformedMessage("no message")
            found = length_at(self._buffer, 1)
            if found is not None:
                length, begins = found
                if length > most:
                    raise LdapFailed(step, LdapFault.TOO_LONG)
                if len(self._buffer) >= begins + length:
                    with memoryview(self._buffer) as view:
                        content = bytes(view[begins : begins + length])
                    del self._buffer[: begins + length]
                    return content
            try:
                more = await self._stream.receive_some(_AT_ONCE)
            except (trio.BrokenResourceError, trio.ClosedResourceError):
                more = b""
            if not more:
                raise LdapFailed(step, LdapFault.CUT_OFF)
            self._buffer += more


def refused(result: LdapResult, fault: LdapFault) -> LdapFault:
    """The fault of a refusal: the directory is busy, or else this one."""
    return LdapFault.BUSY if result.code in {LdapResultCode.BUSY, LdapResultCode.UNAVAILABLE} else fault


def page_cookie(result: LdapResult, step: LdapStep) -> bytes:
    """Empty behind the last page. Raises `LdapFailed`."""
    try:
        return messages.page_cookie(result)
    except MalformedMessage:
        raise LdapFailed(step, LdapFault.MALFORMED) from None


async def dialled(dial: Dial, host: LdapHost) -> trio.SocketStream:
    """Raises `LdapFailed`."""
    try:
        opened, _ = await dial(host.name, host.port)
    except OutboundFailed as failed:
        fault = _UNREACHED.get(failed.failure, LdapFault.NO_ANSWER)
        step = LdapStep.NAME if fault is LdapFault.NO_NAME else LdapStep.CONNECTION
        raise LdapFailed(step, fault, host=host.name) from None
    opened.setblocking(False)
    return trio.SocketStream(trio.socket.from_stdlib_socket(opened))


async def in_tls(stream: trio.abc.Stream, host: LdapHost, context: ssl.SSLContext) -> trio.SSLStream[trio.abc.Stream]:
    """Raises `LdapFailed`."""
    secure = trio.SSLStream(stream, context, server_hostname=host.name, https_compatible=True)
    try:
        await secure.do_handshake()
    except trio.BrokenResourceError as broken:
        cause = broken.__cause__
        if isinstance(cause, ssl.SSLCertVerificationError):
            fault = _BY_CERTIFICATE.get(cause.verify_code, LdapFault.UNTRUSTED)
            raise LdapFailed(LdapStep.CERTIFICATE, fault, cause.verify_message, host.name) from None
        was_cut_off = isinstance(cause, ssl.SSLEOFError) or not isinstance(cause, ssl.SSLError)
        fault = LdapFault.CUT_OFF if was_cut_off else LdapFault.NO_TLS
        raise LdapFailed(LdapStep.CONNECTION, fault, host=host.name) from None
    return secure


MOST_BYTES: Final = 256 << 20
_PAGE: Final = 500
# What is read before others have their turn, and what whoever reads gets at once: few enough that nobody else waits for it.
_PIECE: Final = 50
_PIECE_BYTES: Final = 1 << 20
# Of each reference that a directory sends in place of an entry, besides its own.
_AN_ENTRY_TAKES: Final = 32
# Directories may send smaller pages than those asked for, and empty ones.
_MOST_PAGES: Final = 4 * MOST_PEOPLE // _PAGE
_LONGEST_COOKIE: Final = 64 << 10
_PAGING_SECONDS: Final = 30
# RFC 4511, appendix A.1: the time limit, the size limit, and the administrator's limit.
_CUT_SHORT: Final = frozenset({LdapResultCode.TIME_LIMIT, LdapResultCode.SIZE_LIMIT, 11})


class PagedSearch:
    """A search that is read in pieces, however many entries it finds: in pages, and as it comes where a directory knows no pages. Memory
    holds one piece.
    """

    def __init__(
        self,
        connection: LdapConnection,
        base: str,
        scope: SearchScope,
        wanted: LdapFilter,
        attributes: Sequence[str],
        *,
        step: LdapStep = LdapStep.FILTER,
        bounds: MessageBounds = ORDINARY,
    ) -> None:
        self.connection = connection
        self._asked = messages.search(base, scope, wanted, attributes, most=0, seconds=_PAGING_SECONDS)
        self._step = step
        self._bounds = bounds
        self._left, self._left_bytes, self._left_pages = MOST_PEOPLE, MOST_BYTES, _MOST_PAGES
        self._is_under_way = False
        self._is_over = False
        self._cookie = b""

    async def next(self) -> Sequence[ReceivedEntry]:
        """The next entries, at least one. Empty when all have come. Raises `LdapFailed`, also when the directory ends before all have
        come: a part of the people is never taken for all of them.
        """
        found: list[ReceivedEntry] = []
        piece = 0
        while not self._is_over and len(found) < _PIECE and piece < _PIECE_BYTES:
            if not self._is_under_way:
                await self.connection.ask(self._asked, [messages.paged(_PAGE, self._cookie)], self._step)
                self._is_under_way = True
            came, size = await self.connection.receive(self._step, self._bounds)
            self._left_bytes -= size + _AN_ENTRY_TAKES
            if self._left_bytes < 0:
                raise LdapFailed(self._step, LdapFault.TOO_LONG)
            if came.entry is not None:
                self._left -= 1
                if self._left < 0:
                    raise LdapFailed(self._step, LdapFault.TOO_LONG)
                piece += size
                found.append(came.entry)
            elif came.result is not None and came.operation == LdapOperation.DONE:
                self._end_of_page(came.result)
            elif came.operation != LdapOperation.REFERENCE:
                raise LdapFailed(self._step, LdapFault.MALFORMED)
        await trio.lowlevel.checkpoint()
        return found

    def _end_of_page(self, result: LdapResult) -> None:
        if result.code == LdapResultCode.NO_SUCH_OBJECT:
            raise LdapFailed(LdapStep.BASE, LdapFault.NO_BASE, result.said)
        if result.code == LdapResultCode.REFERRAL:
            raise LdapFailed(LdapStep.BASE, LdapFault.REFERRED, result.said)
        if result.code in _CUT_SHORT:
            raise LdapFailed(self._step, LdapFault.CUT_SHORT, f"{result.code}: {result.said}")
        if result.code != LdapResultCode.SUCCESS:
            raise LdapFailed(self._step, refused(result, LdapFault.SEARCH_REFUSED), f"{result.code}: {result.said}")
        self._cookie = page_cookie(result, self._step)
        self._left_pages -= 1
        if self._left_pages < 0 or len(self._cookie) > _LONGEST_COOKIE:
            raise LdapFailed(self._step, LdapFault.TOO_LONG)
        self._is_under_way, self._is_over = False, self._cookie == b""
