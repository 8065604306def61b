"""The answer of `/metrics`, and the check of the scraper's token."""

import hmac
from collections.abc import Callable
from hashlib import sha256
from time import monotonic

import trio

from core.domain.errors import TokenInvalid, Unauthorized
from core.domain.secrets import Secret
from ports.metrics import MetricsPage

_SCHEME = b"bearer"


class Scrapes:
    """The metrics page, rendered at most once in `interval` seconds. Rendering the page is costly, more so with many processes, and anybody
    may request the page on an installation without a metrics token and without a proxy.
    """

    def __init__(
        self, page: MetricsPage, token: Secret | None = None, *, interval: float = 1.0, now: Callable[[], float] = monotonic
    ) -> None:
        self._page = page
        self._wanted = None if token is None else _digest(token.reveal().encode())
        self._interval = interval
        self._now = now
        self._text = b""
        self._made_at: float | None = None
        # A second scraper waits for the page that the first one asked for.
        self._making = trio.Lock()

    def require_token(self, authorization: bytes | None) -> None:
        """Raises `Unauthorized` or `TokenInvalid` when the operator requires a token and this header does not carry the token."""
        if self._wanted is None:
            return
        scheme, _, given = (authorization or b"").partition(b" ")
        if scheme.lower() != _SCHEME:
            raise Unauthorized
        # The code compares digests, so that the time of the comparison does not even reveal the token's length.
        if not hmac.compare_digest(_digest(given.strip()), self._wanted):
            raise TokenInvalid

    async def text(self) -> bytes:
        """The page, at most `interval` seconds old."""
        async with self._making:
            now = self._now()
            if self._made_at is None or now - self._made_at >= self._interval:
                self._text = await trio.to_thread.run_sync(self._page.render)
                self._made_at = now
            return self._text


def _digest(text: bytes) -> bytes:
    return sha256(text).digest()
