"""A mail, ready to be sent: every mail has a text and an HTML part."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from core.domain.jobs import NewJob
from core.domain.json import Json
from core.domain.languages import DEFAULT, Language

MAIL_JOB: Final = "mail"
_PARTS: Final = ("to", "subject", "text", "html")


class NoMail(Exception):
    """The payload of this job is not a mail."""


@dataclass(frozen=True, slots=True)
class Mail:
    to: str
    subject: str
    text: str
    html: str
    language: Language = DEFAULT

    def as_job(self) -> NewJob:
        """Sealed, because mails carry links that let their holder in."""
        return NewJob(MAIL_JOB, {part: getattr(self, part) for part in _PARTS} | {"language": self.language.value}, sealed=True)

    @classmethod
    def of_job(cls, payload: Mapping[str, Json]) -> "Mail":
        """The mail that `as_job` made into this payload, or an older process, which did not name the language. Raises `NoMail`."""
        to, subject, text, html, language = (payload.get(part) for part in (*_PARTS, "language"))
        if not (isinstance(to, str) and isinstance(subject, str) and isinstance(text, str) and isinstance(html, str)):
            raise NoMail
        return cls(to, subject, text, html, Language.of(language if isinstance(language, str) else None) or DEFAULT)
