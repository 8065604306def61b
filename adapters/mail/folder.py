"""Read the mails that `FileTransport` wrote, for people who try Postern out without a mail server."""

import re
from collections.abc import Iterator
from datetime import datetime
from email import message_from_bytes, policy
from email.errors import HeaderParseError
from email.message import EmailMessage
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import Final

from core.frozen import Frozen

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
