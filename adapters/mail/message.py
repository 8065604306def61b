"""From a `Mail` to the bytes on the wire: headers that nobody can inject into, a text and an HTML part, the envelope's two addresses."""

import re
from dataclasses import dataclass
from datetime import datetime
from email.errors import MessageError
from email.headerregistry import Address
from email.message import EmailMessage
from email.policy import SMTP, SMTPUTF8
from email.utils import format_datetime, parseaddr
from typing import Final, Self

from core.domain.identifiers import JobId
from core.domain.mail import Mail
from ports.mail import MailRefused

# RFC 5321, 4.5.3.1: 64 octets before the @, 254 for what fits a path.
_LONGEST_LOCAL: Final = 64
_LONGEST_ADDRESS: Final = 254
# RFC 5322 dot-atom, with letters of other scripts as RFC 6532 allows. Quoted local parts are legal, unused, and trouble: not taken.
_LOCAL_PART: Final = re.compile(r"[\w!#$%&'*+/=?^`{|}~-]+(\.[\w!#$%&'*+/=?^`{|}~-]+)*")
_DOMAIN: Final = re.compile(r"[A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?(\.[A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?)*")
_CONTROLS: Final = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]+")
_LONGEST_SUBJECT: Final = 500
# How an RFC 2047 encoded word begins. The standard library decodes it wherever it stands in a value that we set, and writes what comes out,
# line breaks and all: `=?utf-8?q?=0D=0ABcc:...` would be a header.
_ENCODED_WORD: Final = "=?"
_HEADERS: Final = [b"From", b"To", b"Subject", b"Date", b"Message-ID", b"Auto-Submitted", b"MIME-Version", b"Content-Type"]


class MalformedAddress(ValueError):
    """Not an address that mail can be sent to. The text says why without quoting the address."""


@dataclass(frozen=True, slots=True)
class MailAddress:
    """An address as SMTP writes it: the domain in ASCII."""

    local: str
    domain: str

    @classmethod
    def parse(cls, text: str) -> Self:
        local, _, domain = text.rpartition("@")
        if not _LOCAL_PART.fullmatch(local) or _ENCODED_WORD in local:
            raise MalformedAddress("the part before the @ is malformed")
        try:
            ascii_domain = domain.encode("idna").decode("ascii").lower()
        except UnicodeError:
            raise MalformedAddress("the part after the @ is no host name") from None
        if not _DOMAIN.fullmatch(ascii_domain):
            raise MalformedAddress("the part after the @ is no host name")
        if len(local.encode()) > _LONGEST_LOCAL or len(local.encode()) + 1 + len(ascii_domain) > _LONGEST_ADDRESS:
            raise MalformedAddress("it is too long")
        return cls(local, ascii_domain)

    @property
    def is_international(self) -> bool:
        return not self.local.isascii()

    def __str__(self) -> str:
        return f"{self.local}@{self.domain}"


@dataclass(frozen=True, slots=True)
class Sender:
    """Who the mails come from."""

    address: MailAddress
    name: str = ""

    @classmethod
    def parse(cls, text: str) -> Self:
        """`Name <address>`, or the address alone. Raises `MalformedAddress`."""
        if _CONTROLS.search(text) or _ENCODED_WORD in text:
            raise MalformedAddress("it has control characters, or is encoded")
        name, text = parseaddr(text)
        address = MailAddress.parse(text)
        if address.is_international:
            # Every mail would then need a server with SMTPUTF8.
            raise MalformedAddress("the part before the @ is not ASCII")
        return cls(address, name)


@dataclass(frozen=True, slots=True)
class Letter:
    """A composed mail with its envelope. An international one needs a server that speaks SMTPUTF8 (RFC 6531)."""

    sender: str
    recipient: str
    is_international: bool
    content: bytes


def compose(mail: Mail, id: JobId, sender: Sender, date: datetime) -> Letter:  # noqa: A002 - the noun's own word
    """Raises `MailRefused` when no mail can be made of it."""
    try:
        recipient = MailAddress.parse(mail.to)
    except MalformedAddress as reason:
        raise MailRefused(f"Not an address to send mail to: {reason}") from None
    message = EmailMessage(policy=SMTPUTF8 if recipient.is_international else SMTP)
    try:
        message["From"] = Address(display_name=sender.name, addr_spec=str(sender.address))
        message["To"] = str(recipient)
        message["Subject"] = _one_line(mail.subject)
        message["Date"] = format_datetime(date)
        # The same at every attempt: a receiver that got the mail, although we never heard so, can tell the repeat.
        message["Message-ID"] = f"<{id}@{sender.address.domain}>"
        # RFC 3834: no holiday notices back, please.
        message["Auto-Submitted"] = "auto-generated"
        # Quoted-printable: seven bits and short lines whatever the server can do.
        message.set_content(mail.text, cte="quoted-printable")
        message.add_alternative(mail.html, subtype="html", cte="quoted-printable")
        content = message.as_bytes()
    except (MessageError, ValueError, LookupError):
        # Their texts quote the mail.
        raise MailRefused("No mail can be made of this subject and text") from None
    if _headers(content) != _HEADERS:
        raise MailRefused("The mail would have had other headers than ours")
    return Letter(str(sender.address), str(recipient), recipient.is_international, content)


def _one_line(subject: str) -> str:
    """A line break in a subject is somebody's attempt at a header, or a slip: the mail still goes out, on one line."""
    return _CONTROLS.sub(" ", subject).replace(_ENCODED_WORD, "= ?").strip()[:_LONGEST_SUBJECT]


def _headers(content: bytes) -> list[bytes]:
    """The names of the headers as a receiver will see them, whatever the standard library made of their values."""
    head = content.partition(b"\r\n\r\n")[0]
    return [line.partition(b":")[0] for line in head.split(b"\r\n") if not line.startswith((b" ", b"\t"))]
