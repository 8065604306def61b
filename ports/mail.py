"""How mail leaves."""

from datetime import timedelta
from typing import Protocol

from core.domain.identifiers import JobId
from core.domain.mail import Mail


class MailTransport(Protocol):
    async def send(self, mail: Mail, id: JobId) -> None:  # noqa: A002 - the noun's own word
        """Hand it over. The id becomes the Message-ID, the same at every attempt. Raises `MailRefused` when trying again is pointless, and
        `MailDelayed` otherwise.
        """

    async def check(self) -> str:
        """For `postern doctor`: one line that says where mail goes. Raises `MailDelayed` when it could not be delivered now."""


class MailRefused(Exception):
    """The server refused for good: a 5xx answer about this mail."""


class MailDelayed(Exception):
    """Not now: no connection, a timeout, a 4xx answer, or failed authentication. `after`: before that, trying again is pointless."""

    def __init__(self, message: str, *, after: timedelta | None = None) -> None:
        self.after = after
        super().__init__(message)
