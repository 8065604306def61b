"""The filter that the operator names. A new file under its name takes effect without a restart, once it has proved whole; until then, and
if it does not, the one before stays.
"""

import os
from pathlib import Path

import structlog
import trio

from adapters.crypto.known_passwords.filters import FileState, FilterUnusable, PasswordFilter, open_filter
from core.domain.secrets import Password
from ports.crypto import ListedPasswords

log = structlog.get_logger()


class NoBreachedPasswords:
    """Implements `ports.crypto.BreachedPasswords` for an installation with neither a filter nor a service."""

    async def contains(self, password: Password) -> bool:  # noqa: ARG002 - the port's
        return False


class WatchedFilter:
    """Implements `ports.crypto.BreachedPasswords` and `WatchedFile`."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._current: PasswordFilter | None = None
        self._seen: FileState | str | None = None
        """What the last look found: a content, or the reason why there is none. Each is logged once."""
        self._limiter = trio.CapacityLimiter(1)

    async def contains(self, password: Password) -> bool:
        if self._seen is None:
            await self.look()  # the first question waits until the file is read; a command has no watcher
        current = self._current
        return current is not None and current.contains(password)

    async def look(self) -> ListedPasswords | None:
        await trio.to_thread.run_sync(self._look, limiter=self._limiter)
        current = self._current
        if current is None or not current.is_unchanged():
            return None
        return ListedPasswords(current.head.count, current.head.day)

    def _look(self) -> None:
        try:
            state = FileState.of(os.stat(self._path))  # noqa: PTH116 - in a thread
        except OSError as error:
            self._refuse(f"cannot be read: {error.strerror}", f"cannot be read: {error.strerror}")
            return
        if state == self._seen:
            return
        try:
            opened = open_filter(self._path)
        except FilterUnusable as refusal:
            self._refuse(state, str(refusal))
            return
        self._current, self._seen = opened, opened.state
        log.info(
            "password_filter_opened",
            file=str(self._path),
            hashes=opened.head.count,
            kind=opened.head.kind.value,
            day=opened.head.day.isoformat(),
        )

    def _refuse(self, seen: FileState | str, reason: str) -> None:
        if seen != self._seen:
            self._seen = seen
            # One that was written over knows nothing any more.
            kept = self._current is not None and self._current.is_unchanged()
            log.error("password_filter_refused", file=str(self._path), reason=reason, kept=kept)
