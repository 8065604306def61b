"""E-mail addresses: when two of them are the same. A library behind `ports/identity/accounts.py` decides which are well formed."""

import unicodedata

from core.frozen import Frozen


class Email(Frozen):
    """An address as its owner wrote it, with the key for comparisons: NFKC, case folded."""

    address: str

    @property
    def key(self) -> str:
        # Case folding can undo the normalization ("ǰ" is an example), so normalize before and after.
        folded = unicodedata.normalize("NFKC", self.address).casefold()
        return unicodedata.normalize("NFKC", folded)

    @property
    def domain(self) -> str:
        return self.key.rpartition("@")[2]

    def __str__(self) -> str:
        return self.address
