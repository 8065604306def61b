"""From a `Mail` to the bytes on the wire: headers that nobody can inject into, a text and an HTML part, the envelope's two addresses."""

import re
from binascii import b2a_qp
from datetime import datetime
from email.errors import MessageError
from email.header import Header
from email.headerregistry import Address
from email.policy import EmailPolicy
from email.utils import format_datetime, parseaddr
from functools import lru_cache
from typing import Final, Self

from adapters.mail_address import ENCODED_WORD, MailAddress, MalformedAddress
from core.domain.identifiers import JobId
from core.domain.mail import Mail
from core.frozen import Frozen
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


class Sender(Frozen):
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


# Its lines end as SMTP needs it.
_SMTP: Final = EmailPolicy(linesep="\r\n")
_LONGEST_LINE: Final = 78
# RFC 2045, 6.7: `=_` stands in no quoted-printable text, so a line that begins like this ends a part wherever it stands.
_BOUNDARY: Final = "=_part"


class Letter(Frozen):
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
    try:
        # Address and identifier are in one line as they are: they have no letter that would need anything else.
        head = (
            _sender(sender)
            + f"To: {recipient}\r\n".encode()
            + _subject(_one_line(mail.subject))
            # The same identifier at every attempt: a receiver that got the mail, although we never heard so, can tell the repeat. And no
            # holiday notices back, please (RFC 3834).
            + f"Date: {format_datetime(date)}\r\n"
            f"Message-ID: <{id}@{sender.address.domain}>\r\n"
            "Auto-Submitted: auto-generated\r\n"
            "MIME-Version: 1.0\r\n"
            f'Content-Type: multipart/alternative; boundary="{_BOUNDARY}"\r\n'
            f"Content-Language: {mail.language.value}\r\n".encode()
        )
        content = b"".join((head, b"\r\n", _part("plain", mail.text), _part("html", mail.html), f"--{_BOUNDARY}--\r\n".encode()))
    except (MessageError, ValueError, LookupError):
        # Their texts quote the mail.
        raise MailRefused("No mail can be made of this subject and text") from None
    if _headers(head) != _HEADERS:
        raise MailRefused("The mail would have had other headers than ours")
    return Letter(str(sender.address), str(recipient), recipient.is_international, content)


@lru_cache
def _sender(sender: Sender) -> bytes:
    header = _SMTP.header_factory("From", Address(display_name=sender.name, addr_spec=str(sender.address)))
    folded: str = header.fold(policy=_SMTP)
    return folded.encode()


def _subject(text: str) -> bytes:
    if not text.isascii():
        # As a whole (RFC 2047): the policy puts a second space before a word with other letters if it begins a line.
        return f"Subject: {Header(text, 'utf-8', maxlinelen=75, header_name='Subject').encode(linesep=_SMTP.linesep)}\r\n".encode()
    if len(line := f"Subject: {text}") <= _LONGEST_LINE:
        return f"{line}\r\n".encode()
    return _SMTP.fold_binary("Subject", text)


def _part(subtype: str, text: str) -> bytes:
    """Quoted-printable: seven bits and short lines, which every server can take."""
    lines = b"\r\n".join([*text.encode().splitlines(), b""])
    head = f'--{_BOUNDARY}\r\nContent-Type: text/{subtype}; charset="utf-8"\r\nContent-Transfer-Encoding: quoted-printable\r\n\r\n'
    return b"".join((head.encode(), b2a_qp(lines), b"\r\n"))


def _one_line(subject: str) -> str:
    """A line break in a subject is somebody's attempt at a header, or a slip: the mail still goes out, on one line."""
    return _CONTROLS.sub(" ", subject).replace(ENCODED_WORD, "= ?").strip()[:_LONGEST_SUBJECT]


def _headers(head: bytes) -> list[bytes]:
    """The names of the headers as a receiver will see them. The standard library may have turned a value into another header."""
    head = head.partition(b"\r\n\r\n")[0].removesuffix(b"\r\n")
    return [line.partition(b":")[0] for line in head.split(b"\r\n") if not line.startswith((b" ", b"\t"))]
