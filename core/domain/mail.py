"""A mail, ready to be sent: every mail has a text and an HTML part."""

from collections.abc import Mapping
from typing import Final
from uuid import UUID

from core.domain.identifiers import UserId
from core.domain.jobs import NewJob
from core.domain.json import Json
from core.domain.languages import DEFAULT, Language
from core.frozen import Frozen

MAIL_JOB: Final = "mail"
_ACCOUNT: Final = "account"
_PARTS: Final = ("to", "subject", "text", "html")


class NoMail(Exception):
    """The payload of this job is not a mail."""


class Mail(Frozen):
    to: str
    subject: str
    text: str
    html: str
    language: Language = DEFAULT
    account: UserId | None = None
    """The account that the mail was written for. The mail is deleted when the account is forgotten, even if nobody has proved the address.
    None for mails that others send to an address, such as an invitation.
    """

    def as_job(self) -> NewJob:
        """The job is sealed, because mails contain links that let their holder in."""
        payload = {part: getattr(self, part) for part in _PARTS} | {"language": self.language.value} | naming(self.account)
        return NewJob(MAIL_JOB, payload, sealed=True)

    @classmethod
    def of_job(cls, payload: Mapping[str, Json]) -> "Mail":
        """Reads a payload that `as_job` made. Processes of older releases made payloads without a language and an
        account. Raises `NoMail`.
        """
        to, subject, text, html, language = (payload.get(part) for part in (*_PARTS, "language"))
        if not (isinstance(to, str) and isinstance(subject, str) and isinstance(text, str) and isinstance(html, str)):
            raise NoMail
        spoken = Language.of(language if isinstance(language, str) else None) or DEFAULT
        return cls(to, subject, text, html, spoken, named_account(payload))


def naming(account: UserId | None) -> dict[str, str]:
    """The part of a job's payload that names the account of a mail."""
    return {} if account is None else {_ACCOUNT: str(account)}


def named_account(payload: Mapping[str, Json]) -> UserId | None:
    """Reads the part that `naming` made."""
    try:
        return UserId(UUID(str(payload[_ACCOUNT])))
    except (KeyError, ValueError):
        return None
