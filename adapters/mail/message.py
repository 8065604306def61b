"""Composes a mail: the lines of its text, and its bytes for a mail server."""

import re
from binascii import b2a_qp
from collections.abc import Callable, Mapping
from datetime import datetime
from email.errors import MessageError
from email.header import Header
from email.headerregistry import Address
from email.policy import EmailPolicy
from email.utils import format_datetime, parseaddr
from functools import lru_cache
from textwrap import TextWrapper
from typing import Final, Self

from adapters.mail_address import ENCODED_WORD, MailAddress, MalformedAddress
from core.domain.identifiers import JobId
from core.domain.languages import Language
from core.domain.mail import Mail
from core.frozen import Frozen
from ports.mail import MailRefused

_COLUMNS: Final = 79
# Non-breaking spaces, as French uses them, are no places to break at.
_wrapper: Final = TextWrapper(width=_COLUMNS, break_long_words=False, break_on_hyphens=False)
# Japanese and Chinese have no spaces between words: a line may end behind each character, unless a mark follows that belongs to it. Each
# takes two columns.
_WIDE: Final = "\u3000-\u30ff\u3400-\u9fff\uff01-\uff60"
_OPENING: Final = "「『（【《“‘"  # noqa: RUF001 - these very marks
_CLOSING: Final = "、。，．！？：；」』）】》”’ー…々"  # noqa: RUF001
_PART: Final = re.compile(rf"\s+|[{_OPENING}]*(?:[{_WIDE}]|[^\s{_WIDE}{_OPENING}{_CLOSING}]+)[{_CLOSING}]*|\S")
_IS_WIDE: Final = re.compile(f"[{_WIDE}]")


def _filled_closely(text: str) -> str:
    lines, line, room = [], "", _COLUMNS
    for part in _PART.findall(" ".join(text.split())):
        width = len(part) + len(_IS_WIDE.findall(part))
        if width > room and line:
            lines.append(line.rstrip())
            line, room = "", _COLUMNS
        if line or not part.isspace():
            line, room = line + part, room - width
    return "\n".join([*lines, line.rstrip()])


FILL: Final[Mapping[Language, Callable[[str], str]]] = {
    **dict.fromkeys(Language, _wrapper.fill),
    **dict.fromkeys((Language.JAPANESE, Language.CHINESE), _filled_closely),
}


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
    """The sender of the mails."""

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
            # With such a sender, every mail would need a server with SMTPUTF8.
            raise MalformedAddress("the part before the @ is not ASCII")
        return cls(address, name)


# SMTP needs lines that end with CR LF.
_SMTP: Final = EmailPolicy(linesep="\r\n")
_LONGEST_LINE: Final = 78
# RFC 2045, 6.7: quoted-printable text never contains `=_`, so no line within a part can look like this boundary.
_BOUNDARY: Final = "=_part"


class Letter(Frozen):
    """A composed mail with its envelope. A mail to an international address needs a server that speaks SMTPUTF8 (RFC 6531)."""

    sender: str
    recipient: str
    is_international: bool
    content: bytes


def compose(mail: Mail, id: JobId, sender: Sender, date: datetime) -> Letter:  # noqa: A002 - the noun's own word
    """Composes the bytes for a mail server: headers that no value can break out of, a text part, an HTML part, and the envelope's two
    addresses.

    Raises `MailRefused` when the mail cannot be composed.
    """
    try:
        recipient = MailAddress.parse(mail.to)
    except MalformedAddress as reason:
        raise MailRefused(f"Not an address to send mail to: {reason}") from None
    try:
        # Address and message id are written as they are, on one line: none of their characters needs encoding or folding.
        head = (
            _sender(sender)
            + f"To: {recipient}\r\n".encode()
            + _subject(_one_line(mail.subject))
            # The message id is the same at every attempt. So a receiver that got the mail already, without our knowing, recognises the
            # repeated mail. `Auto-Submitted` keeps holiday notices from coming back (RFC 3834).
            + f"Date: {format_datetime(date)}\r\n"
            f"Message-ID: <{id}@{sender.address.domain}>\r\n"
            "Auto-Submitted: auto-generated\r\n"
            "MIME-Version: 1.0\r\n"
            f'Content-Type: multipart/alternative; boundary="{_BOUNDARY}"\r\n'
            f"Content-Language: {mail.language.tag}\r\n".encode()
        )
        content = b"".join((head, b"\r\n", _part("plain", mail.text), _part("html", mail.html), f"--{_BOUNDARY}--\r\n".encode()))
    except (MessageError, ValueError, LookupError):
        # The texts of these errors quote the mail, so they are left out.
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
        # The whole subject is encoded (RFC 2047), because the policy adds a second space if an encoded word begins a line.
        return f"Subject: {Header(text, 'utf-8', maxlinelen=75, header_name='Subject').encode(linesep=_SMTP.linesep)}\r\n".encode()
    if len(line := f"Subject: {text}") <= _LONGEST_LINE:
        return f"{line}\r\n".encode()
    return _SMTP.fold_binary("Subject", text)


def _part(subtype: str, text: str) -> bytes:
    """A part in quoted-printable, because every server takes its seven bits and short lines."""
    lines = b"\r\n".join([*text.encode().splitlines(), b""])
    head = f'--{_BOUNDARY}\r\nContent-Type: text/{subtype}; charset="utf-8"\r\nContent-Transfer-Encoding: quoted-printable\r\n\r\n'
    return b"".join((head.encode(), b2a_qp(lines), b"\r\n"))


def _one_line(subject: str) -> str:
    """A line break in a subject is an attempt to inject a header, or a mistake. The mail still goes out, with its subject on one line."""
    return _CONTROLS.sub(" ", subject).replace(ENCODED_WORD, "= ?").strip()[:_LONGEST_SUBJECT]


def _headers(head: bytes) -> list[bytes]:
    """The names of the headers as a receiver will see them. The standard library may have turned a value into another header."""
    head = head.partition(b"\r\n\r\n")[0].removesuffix(b"\r\n")
    return [line.partition(b":")[0] for line in head.split(b"\r\n") if not line.startswith((b" ", b"\t"))]
