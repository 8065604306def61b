"""Mails, and the email addresses that they go to."""

from collections.abc import Mapping
from typing import Final
from uuid import UUID

from core.domain.formats import Json
from core.domain.identifiers import UserId
from core.domain.jobs import NewJob
from core.domain.languages import DEFAULT, Language
from core.domain.normal_forms import LONGEST_NORMALIZED, NotNormalized, folded
from core.frozen import Frozen

MAIL_JOB: Final = "mail"
_ACCOUNT: Final = "account"
_PARTS: Final = ("to", "subject", "text", "html")


class NoMail(Exception):
    """The payload of this job is not a mail."""


class Mail(Frozen):
    """A mail that is ready to send. Every mail has a text part and an HTML part."""

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


LONGEST_DOMAIN: Final = 253
LONGEST_LABEL: Final = 63
# The ideographic full stop separates labels, and so do similar characters (RFC 3490, section 3.1). NFKC turns the halfwidth full stop into
# this one, and the fullwidth one into a plain dot.
_IDEOGRAPHIC_FULL_STOP: Final = "\u3002"


class Email(Frozen):
    """An email address as its owner wrote it, with a key for comparisons. The key is normalized by NFKC and case folded, and its domain has
    the form that mail and name servers use. A library behind `ports/identity/accounts.py` decides which addresses are well formed.
    """

    address: str

    @property
    def key(self) -> str:
        try:
            plain = folded(self.address, LONGEST_NORMALIZED)
        except NotNormalized:
            # No mailbox is called so, and no account has this key.
            return self.address
        local, at, domain = plain.rpartition("@")
        return plain if not at or domain.isascii() else f"{local}@{_in_ascii(domain)}"

    @property
    def domain(self) -> str:
        return self.key.rpartition("@")[2]

    def __str__(self) -> str:
        return self.address


def mail_domain(email: Email) -> str:
    """The domain as name servers know it, in ASCII. Empty when it cannot be a domain."""
    return email.domain if email.domain.isascii() else ""


def _in_ascii(domain: str) -> str:
    """The domain in ASCII. If it cannot be a domain, it is returned with plain dots only. All typed text comes through this function, so
    texts that are too long are returned before they cost anything: each letter becomes at least one ASCII letter, and the work grows with
    the square of a label's length.
    """
    plain, ascii_domain = domain.replace(_IDEOGRAPHIC_FULL_STOP, "."), ""
    for label in plain.split("."):
        if not 0 < len(label) <= LONGEST_LABEL or len(ascii_domain) > LONGEST_DOMAIN:
            return plain
        try:
            ascii_domain += f".{label.encode('idna').decode('ascii')}"
        except UnicodeError:
            return plain
    return ascii_domain[1:]
