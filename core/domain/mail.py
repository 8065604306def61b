"""A mail, ready to be sent: every mail has a text and an HTML part."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from core.domain.jobs import NewJob
from core.domain.json import Json

MAIL_JOB: Final = "mail"


class NoMail(Exception):
    """The payload of this job is not a mail."""


@dataclass(frozen=True, slots=True)
class Mail:
    to: str
    subject: str
    text: str
    html: str

    def as_job(self) -> NewJob:
        """Sealed, because mails carry links that let their holder in."""
        return NewJob(MAIL_JOB, {"to": self.to, "subject": self.subject, "text": self.text, "html": self.html}, sealed=True)

    @classmethod
    def of_job(cls, payload: Mapping[str, Json]) -> "Mail":
        """The mail that `as_job` made into this payload. Raises `NoMail`."""
        to, subject, text, html = (payload.get(part) for part in ("to", "subject", "text", "html"))
        if not (isinstance(to, str) and isinstance(subject, str) and isinstance(text, str) and isinstance(html, str)):
            raise NoMail
        return cls(to, subject, text, html)
