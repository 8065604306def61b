"""The certificate authorities that outbound calls trust: the machine's own authorities, and those that the operator adds."""

import ssl
from pathlib import Path

import trio


class Trust:
    """One TLS context for all connections of one protocol. Reading a few hundred certificates takes twenty milliseconds, so the context is
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
