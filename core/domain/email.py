"""E-mail addresses: when two of them are the same. A library behind `ports/identity/accounts.py` decides which are well formed."""

import unicodedata
from typing import Final

from core.frozen import Frozen

LONGEST_DOMAIN: Final = 253
_LONGEST_LABEL: Final = 63
# It separates labels, as others do (RFC 3490, section 3.1). NFKC makes this one of the halfwidth one, and a plain one of the wide one.
_IDEOGRAPHIC_FULL_STOP: Final = "\u3002"


class Email(Frozen):
    """An address as its owner wrote it, with the key for comparisons: NFKC, case folded, the domain as mail and name servers know it."""

    address: str

    @property
    def key(self) -> str:
        # Case folding can undo the normalization ("ǰ" is an example), so normalize before and after.
        folded = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", self.address).casefold())
        local, at, domain = folded.rpartition("@")
        return folded if not at or domain.isascii() else f"{local}@{_in_ascii(domain)}"

    @property
    def domain(self) -> str:
        return self.key.rpartition("@")[2]

    def __str__(self) -> str:
        return self.address


def mail_domain(email: Email) -> str:
    """As name servers know it, in ASCII. Empty when it cannot be one."""
    return email.domain if email.domain.isascii() else ""


def _in_ascii(domain: str) -> str:
    """With plain dots alone, where it cannot be the name of a domain. Whatever people type comes by here, so what is too long is left
    before it costs anything: a letter takes one of ASCII at least, and the work grows with the square of a label.
    """
    plain, ascii_domain = domain.replace(_IDEOGRAPHIC_FULL_STOP, "."), ""
    for label in plain.split("."):
        if not 0 < len(label) <= _LONGEST_LABEL or len(ascii_domain) > LONGEST_DOMAIN:
            return plain
        try:
            ascii_domain += f".{label.encode('idna').decode('ascii')}"
        except UnicodeError:
            return plain
    return ascii_domain[1:]
