"""From a `Mail` to the bytes on the wire: headers that nobody can inject into, a text and an HTML part, the envelope's two addresses."""

import re
from dataclasses import dataclass
from datetime import datetime
from email.errors import MessageError
from email.header import Header
from email.headerregistry import Address
from email.message import EmailMessage
from email.policy import EmailPolicy
from email.utils import format_datetime, parseaddr
from typing import Final, Self

from adapters.mail_address import ENCODED_WORD, MailAddress, MalformedAddress
from core.domain.identifiers import JobId
from core.domain.mail import Mail
from ports.mail import MailRefused

_CONTROLS: Final = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]+")
_LONGEST_SUBJECT: Final = 500
_HEADERS: Final = [
    b"From",
    b"To",
    b"Subject",
    b"Date",
    b"Message-ID",
    b"Auto-Submitted",
    b"MIME-Version",
    b"Content-Type",
    b"Content-Language",
]


@dataclass(frozen=True, slots=True)
class Sender:
    """Who the mails come from."""

    address: MailAddress
    name: str = ""

    @classmethod
    def parse(cls, text: str) -> Self:
        """`Name <address>`, or the address alone. Raises `MalformedAddress`."""
        if _CONTROLS.search(text) or ENCODED_WORD in text:
            raise MalformedAddress("it has control characters, or is encoded")
        name, text = parseaddr(text)
        address = MailAddress.parse(text)
        if address.is_international:
            # Every mail would then need a server with SMTPUTF8.
            raise MalformedAddress("the part before the @ is not ASCII")
        return cls(address, name)


class _Wire(EmailPolicy):
    """As SMTP needs it. The standard library puts a second space before a word with other letters than ASCII if it begins a line, so a
    subject with such letters is encoded as a whole (RFC 2047).
    """

    def fold_binary(self, name: str, value: str) -> bytes:
        if name == "Subject" and not value.isascii():
            encoded = Header(value, "utf-8", maxlinelen=75, header_name=name).encode(linesep=self.linesep)
            return f"{name}: {encoded}{self.linesep}".encode("ascii")
        return super().fold_binary(name, value)


_SMTP: Final = _Wire(linesep="\r\n")
_SMTPUTF8: Final = _Wire(linesep="\r\n", utf8=True)


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
    message = EmailMessage(policy=_SMTPUTF8 if recipient.is_international else _SMTP)
    try:
        message["From"] = Address(display_name=sender.name, addr_spec=str(sender.address))
        message["To"] = str(recipient)
        message["Subject"] = _one_line(mail.subject)
        message["Date"] = format_datetime(date)
        # The same at every attempt: a receiver that got the mail, although we never heard so, can tell the repeat.
        message["Message-ID"] = f"<{id}@{sender.address.domain}>"
        # RFC 3834: no holiday notices back, please.
        message["Auto-Submitted"] = "auto-generated"
        # Quoted-printable: seven bits and short lines, which every server can take.
        message.set_content(mail.text, cte="quoted-printable")
        message.add_alternative(mail.html, subtype="html", cte="quoted-printable")
        # Only now: what is set before belongs to the first part.
        message["Content-Language"] = mail.language.value
        content = message.as_bytes()
    except (MessageError, ValueError, LookupError):
        # Their texts quote the mail.
        raise MailRefused("No mail can be made of this subject and text") from None
    if _headers(content) != _HEADERS:
        raise MailRefused("The mail would have had other headers than ours")
    return Letter(str(sender.address), str(recipient), recipient.is_international, content)


def _one_line(subject: str) -> str:
    """A line break in a subject is somebody's attempt at a header, or a slip: the mail still goes out, on one line."""
    return _CONTROLS.sub(" ", subject).replace(ENCODED_WORD, "= ?").strip()[:_LONGEST_SUBJECT]


def _headers(content: bytes) -> list[bytes]:
    """The names of the headers as a receiver will see them. The standard library may have turned a value into another header."""
    head = content.partition(b"\r\n\r\n")[0]
    return [line.partition(b":")[0] for line in head.split(b"\r\n") if not line.startswith((b" ", b"\t"))]
