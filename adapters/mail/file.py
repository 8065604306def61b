"""Write each mail into an `.eml` file, for tests and for machines without a mail server."""

import os
from contextlib import suppress
from pathlib import Path
from typing import Final

import trio

from adapters.mail.message import Sender, compose
from core.domain.identifiers import JobId
from core.domain.mail import Mail
from ports.mail import MailDelayed
from ports.system import Clock

# Mails carry links that let their holder in, so nobody else on this machine may read them.
_DIRECTORY_MODE: Final = 0o700
_FILE_MODE: Final = 0o600


class FileTransport:
    """Implements `ports.mail.MailTransport`. The mail's id names the file, so a mail that is sent again replaces its own file."""

    def __init__(self, directory: Path, sender: Sender, clock: Clock) -> None:
        self._directory = directory
        self._sender = sender
        self._clock = clock
        self._limiter = trio.CapacityLimiter(1)

    async def send(self, mail: Mail, id: JobId) -> None:  # noqa: A002 - the noun's own word
        letter = compose(mail, id, self._sender, self._clock.now())
        await trio.to_thread.run_sync(self._write, str(id), letter.content, limiter=self._limiter)

    async def check(self) -> str:
        await trio.to_thread.run_sync(self._try, limiter=self._limiter)
        return f"written to {self._directory}, one .eml each"

    def _write(self, name: str, content: bytes) -> None:
        # The file has a name that readers skip, until the mail is complete.
        unfinished = self._directory / f".{name}"
        try:
            self._directory.mkdir(mode=_DIRECTORY_MODE, parents=True, exist_ok=True)
            descriptor = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, _FILE_MODE)
            with os.fdopen(descriptor, "wb") as file:
                file.write(content)
                file.flush()
                # The mail's job is deleted once this method returns, so the mail must be on the disk by then.
                os.fsync(file.fileno())
            unfinished.replace(self._directory / f"{name}.eml")
        except OSError as error:
            with suppress(OSError):
                unfinished.unlink()
            raise MailDelayed(f"The mail directory cannot be written to: {error.strerror}") from None

    def _try(self) -> None:
        probe = self._directory / f".probe-{os.getpid()}"
        try:
            self._directory.mkdir(mode=_DIRECTORY_MODE, parents=True, exist_ok=True)
            probe.write_bytes(b"")
            probe.unlink()
        except OSError as error:
            raise MailDelayed(f"The mail directory cannot be written to: {error.strerror}") from None
