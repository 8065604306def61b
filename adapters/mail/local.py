"""Mail without a mail server, for trying Postern out and for tests: on the console, or in `.eml` files, which are read again here."""

import os
import re
from collections.abc import Iterator
from contextlib import suppress
from datetime import datetime
from email import message_from_bytes, policy
from email.errors import HeaderParseError
from email.message import EmailMessage
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import Final, TextIO

import trio

from adapters.mail.message import Sender, compose
from core.domain.identifiers import JobId
from core.domain.mail import Mail
from core.frozen import Frozen
from ports.mail import MailDelayed
from ports.system import Clock

# A terminal obeys control characters, and part of a mail's text comes from other people.
_CONTROLS: Final = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


class ConsoleTransport:
    """Implements `ports.mail.MailTransport`. Prints the text part."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        # One mail at a time, or their lines would mix.
        self._limiter = trio.CapacityLimiter(1)

    async def send(self, mail: Mail, id: JobId) -> None:  # noqa: A002 - the noun's own word
        text = f"--- mail {id}\nTo: {_one_line(mail.to)}\nSubject: {_one_line(mail.subject)}\n\n{_harmless(mail.text)}\n---\n"
        await trio.to_thread.run_sync(self._print, text, limiter=self._limiter)

    async def check(self) -> str:
        return "printed on the console"

    def _print(self, text: str) -> None:
        try:
            self._stream.write(text.encode(errors="replace").decode())
            self._stream.flush()
        except (OSError, ValueError) as error:
            raise MailDelayed(f"The console cannot be written to: {type(error).__name__}") from None


def _harmless(text: str) -> str:
    return _CONTROLS.sub("\N{REPLACEMENT CHARACTER}", text.replace("\r\n", "\n"))


def _one_line(text: str) -> str:
    return _harmless(text).replace("\n", " ")


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


_SUFFIX: Final = ".eml"
# No mail of ours is a tenth as long.
_LONGEST: Final = 1 << 20
# Our templates put each link on a line of its own. The installation's address in the last line of a mail has other text around it.
_LINK: Final = re.compile(r"^(https?://[^\s<>\"]+)$", re.MULTILINE)


class FolderUnreadable(Exception):
    """The folder or a mail cannot be read. The message is one sentence that says why."""


class KeptMail(Frozen):
    """A mail as its file has it. `id` is the file's name without its ending. `sent_at` is None when the file has no date."""

    id: str
    to: str
    subject: str
    sent_at: datetime | None
    text: str

    def fits(self, to: str, subject: str) -> bool:
        """Whether the mail went to exactly this address and has this text in its subject, in any case. An empty text fits every mail."""
        return to.casefold() in {"", self.to.casefold()} and subject.casefold() in self.subject.casefold()

    @property
    def links(self) -> tuple[str, ...]:
        return tuple(_LINK.findall(self.text))


class MailFolder:
    """The directory of a `FileTransport`. Each call reads files and blocks, so a server calls the methods in a thread."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def mails(self, *, to: str = "", subject: str = "") -> Iterator[KeptMail]:
        """The mails, the newest first. Each mail is read when the iterator reaches it. A mail that vanishes meanwhile is skipped. Raises
        `FolderUnreadable`.
        """
        for name in self._names():
            mail = self._read(name)
            if mail is not None and mail.fits(to, subject):
                yield mail

    def newest(self) -> str:
        """The id of the newest mail, or nothing. Raises `FolderUnreadable`."""
        return next(iter(self._names()), "")

    def find(self, id: str) -> KeptMail | None:  # noqa: A002 - the noun's own word
        """None when no mail has the id. Only files that the directory lists are opened, so an id cannot lead out of the directory. Raises
        `FolderUnreadable`.
        """
        return self._read(id) if id in self._names() else None

    def _names(self) -> list[str]:
        # The names are UUIDs of version 7, so their order is the order of time.
        try:
            found = [file.name for file in self._directory.iterdir() if file.name.endswith(_SUFFIX) and not file.name.startswith(".")]
        except FileNotFoundError:
            return []  # The first mail makes the directory.
        except OSError as error:
            raise FolderUnreadable(f"The mail directory {self._directory} cannot be read: {error.strerror}") from None
        return sorted((name.removesuffix(_SUFFIX) for name in found), reverse=True)

    def _read(self, name: str) -> KeptMail | None:
        try:
            with (self._directory / f"{name}{_SUFFIX}").open("rb") as file:
                content = file.read(_LONGEST)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise FolderUnreadable(f"The mail {self._directory / name}{_SUFFIX} cannot be read: {error.strerror}") from None
        return _parsed(name, content)


def _parsed(name: str, content: bytes) -> KeptMail:
    message = message_from_bytes(content, policy=policy.default)
    return KeptMail(name, _header(message, "To"), _header(message, "Subject"), _date(message), _text(message))


def _header(message: EmailMessage, name: str) -> str:
    try:
        return " ".join(str(message.get(name, "")).split())
    except (HeaderParseError, ValueError, IndexError):
        return ""  # Another program wrote the file.


def _date(message: EmailMessage) -> datetime | None:
    try:
        return parsedate_to_datetime(_header(message, "Date"))
    except (ValueError, OverflowError):
        return None


def _text(message: EmailMessage) -> str:
    part = message.get_body(("plain",))
    try:
        text = part.get_content() if part is not None else ""
    except (LookupError, ValueError):
        return ""
    return text.replace("\r\n", "\n") if isinstance(text, str) else ""
