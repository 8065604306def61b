"""The digest that proves an audit log on its way: of all entries in their order, with no key, so that both installations can compute it."""

from hashlib import sha256


class LogDigest:
    """`digest` is SHA-256 over the digest before and the entry's content, in PostgreSQL's own form, and begins with zeros."""

    def __init__(self) -> None:
        self.entries = 0
        self._digest = bytes(32)

    def take(self, content: bytes) -> None:
        self._digest = sha256(self._digest + content).digest()
        self.entries += 1

    @property
    def digest(self) -> str:
        return self._digest.hex()
