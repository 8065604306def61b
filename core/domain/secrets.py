"""Values that must not be printed. A secret is formatted as `***` everywhere. `reveal` is the only way to its text, and
is easy to search for.
"""

from hashlib import sha256
from typing import ClassVar, Self


class Secret:
    __slots__ = ("_value",)

    longest: ClassVar[int] = 16 << 10
    """In characters. The decoder refuses a request with a longer one, or cuts it where a wrong one has an answer of its own."""

    def __init__(self, value: str) -> None:
        self._value = value

    def reveal(self) -> str:
        return self._value

    def digest(self) -> bytes:
        """The form in which the database keeps a random token. Not for passwords, which have too little entropy for a plain hash."""
        return sha256(self._value.encode()).digest()

    def __eq__(self, other: object) -> bool:
        raise TypeError("Secrets are compared by digest or in constant time, never with ==")

    __hash__ = None  # type: ignore[assignment]  # a secret is never a key

    def __repr__(self) -> str:
        return "***"

    __str__ = __repr__

    def __format__(self, format_spec: str) -> str:
        return "***"

    def __copy__(self) -> Self:
        return self

    def __reduce__(self) -> str:
        raise TypeError("Secrets are not pickled")


class Password(Secret):
    """A password as its owner typed it. Of a longer one, requests keep one character more than any has: it is refused as a wrong one is."""

    longest: ClassVar[int] = 128


class Token(Secret):
    """A random, opaque token as its holder sends it."""


def sealing_context(purpose: str) -> str:
    """Of a secret of the installation itself, which the database keeps sealed."""
    return f"server_secrets.sealed_secret:{purpose}"
