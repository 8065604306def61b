"""Print mails on the console, for trying Postern out."""

import re
from typing import Final, TextIO

import trio

from core.domain.identifiers import JobId
from core.domain.mail import Mail
from ports.mail import MailDelayed

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
