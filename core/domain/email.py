"""E-mail addresses: what makes two of them the same. Whether one is well formed is a library's business, behind `ports/email_syntax.py`."""

import unicodedata
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Email:
    """An address as its owner wrote it, with the key under which it is compared: NFKC, case folded."""

    address: str

    @property
    def key(self) -> str:
        # Case folding can undo normalization ("ǰ" among others), so normalize on both sides of it.
        folded = unicodedata.normalize("NFKC", self.address).casefold()
        return unicodedata.normalize("NFKC", folded)

    @property
    def domain(self) -> str:
        return self.key.rpartition("@")[2]

    def __str__(self) -> str:
        return self.address
