"""Whose certificates are trusted by those whom we call: the machine's own authorities, and those that the operator adds."""

import ssl
from pathlib import Path

import trio


class Trust:
    """One context for all connections of a kind. Reading a few hundred certificates takes twenty milliseconds, in which nothing else would
    happen here, so it is done once, in a thread. What speaks another protocol needs one of its own: the HTTP client names its protocol in
    it (ALPN), and a server for another one would refuse that.
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
