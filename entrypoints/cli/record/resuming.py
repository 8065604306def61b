"""The file by which a stopped `postern audit verify` goes on."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

import trio

from core.domain.errors import BadRequest
from core.domain.identifiers import OrganizationId
from core.domain.record.audit import ChainHead, Reached
from core.usecases.record import Audit
from entrypoints.cli.output.printing import printable
from entrypoints.failures import USAGE, StartFailed
from ports.system import Clock

# In seconds. After a kill, at most this much work is done again.
_EVERY: Final = 5.0


class NotResumed(StartFailed):
    status = USAGE


class ResumeFile:
    """`path` need not be there yet. Nobody but the operator may read it, and nobody without the keys can make one that counts."""

    def __init__(self, audit: Audit, path: Path) -> None:
        self._audit = audit
        self._path = path

    async def begin(self, only: OrganizationId | None, noted: ChainHead | None, clock: Clock) -> Reached | None:
        """Where the run before came to. None without a file. Raises `NotResumed`."""
        try:
            text = self._path.read_text(encoding="utf-8")
        except FileNotFoundError:
            # A place that cannot be kept is told now, and not after the first seconds of a long run.
            with self._writing():
                self._put("").unlink()
            return None
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "not UTF-8"
            raise NotResumed(f"{printable(str(self._path))} cannot be read: {reason}") from None
        try:
            return await self._audit.progress_in(text, only, noted, clock.now())
        except BadRequest as refusal:
            raise NotResumed(f"{printable(str(self._path))}: {refusal.message}. Take it away to begin anew") from None

    async def keep(self, place: Callable[[], Reached | None]) -> None:
        """Writes the place every few seconds, until it is cancelled."""
        while True:
            await trio.sleep(_EVERY)
            if (reached := place()) is not None:
                await self.write(reached)

    async def write(self, reached: Reached) -> None:
        text = await self._audit.progress_of(reached)
        with self._writing():
            self._put(text).replace(self._path)

    def _put(self, text: str) -> Path:
        """A file beside the path, with this text."""
        beside = self._path.with_name(f"{self._path.name}.new")
        beside.touch(mode=0o600)
        beside.write_text(text, encoding="utf-8")
        return beside

    @contextmanager
    def _writing(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise NotResumed(f"{printable(str(self._path))} cannot be written: {error.strerror}") from None

    def remove(self) -> None:
        with suppress(OSError):
            self._path.unlink()
