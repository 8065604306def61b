"""E-mail addresses: when two of them are the same. A library behind `ports/identity/accounts.py` decides which are well formed."""

import unicodedata
from typing import Final

from core.frozen import Frozen

_IDEOGRAPHIC_FULL_STOP: Final = "\u3002"


class Email(Frozen):
    """An address as its owner wrote it, with the key for comparisons: NFKC, case folded, the labels of its domain between plain dots."""

    address: str

    @property
    def key(self) -> str:
        # Case folding can undo the normalization ("ǰ" is an example), so normalize before and after.
        folded = unicodedata.normalize("NFKC", self.address).casefold()
        local, at, domain = unicodedata.normalize("NFKC", folded).rpartition("@")
        # Each of them separates labels (RFC 3490 section 3.1). NFKC has made this one of the halfwidth one, a plain one of the wide one.
        return f"{local}{at}{domain.replace(_IDEOGRAPHIC_FULL_STOP, '.')}" if at else domain

    @property
    def domain(self) -> str:
        return self.key.rpartition("@")[2]

    def __str__(self) -> str:
        return self.address
