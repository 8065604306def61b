"""The ways in which mail leaves."""

from datetime import timedelta
from typing import Protocol

from core.domain.identifiers import JobId
from core.domain.mail import Mail


class MailTransport(Protocol):
    """SMTP, the console, a file and a folder implement it. An operator chooses by `POSTERN_MAIL`."""

    async def send(self, mail: Mail, id: JobId) -> None:  # noqa: A002 - the noun's own word
        """Hand the mail over. The id becomes the Message-ID, the same at every attempt. Raises `MailRefused` when another attempt is
        pointless, and `MailDelayed` otherwise.
        """

    async def check(self) -> str:
        """One line for `postern doctor` that says where mail goes. Raises `MailDelayed` when mail could not be delivered now."""


class MailRefused(Exception):
    """The server refused this mail for good, with a 5xx answer."""


class MailDelayed(Exception):
    """The mail cannot leave now: no connection, a timeout, a 4xx answer, or failed authentication. Before `after`, another attempt is
    pointless. `asked` is False when no server was asked.
    """

    def __init__(self, message: str, *, after: timedelta | None = None, asked: bool = True) -> None:
        self.after = after
        self.asked = asked
        super().__init__(message)
