"""The encoding of LDAP (RFC 4511, section 5.1): BER with definite lengths. Reading never recurses: whoever reads says which element comes
next, so nesting that nobody expects is never entered.
"""

from typing import Final

INTEGER: Final = 0x02
OCTETS: Final = 0x04
ENUMERATED: Final = 0x0A
BOOLEAN: Final = 0x01
SEQUENCE: Final = 0x30
SET: Final = 0x31
# A length of four bytes is more than any answer may have.
_MOST_LENGTH_BYTES: Final = 4
_LONGEST_INTEGER: Final = 4
_HIGH: Final = 0x80


class MalformedMessage(Exception):
    """The other side does not speak LDAP, or not as the standard has it."""


def encoded(tag: int, *contents: bytes) -> bytes:
    content = b"".join(contents)
    length = len(content)
    if length < _HIGH:
        return bytes((tag, length)) + content
    size = (length.bit_length() + 7) // 8
    return bytes((tag, _HIGH | size)) + length.to_bytes(size, "big") + content


def integer(value: int, tag: int = INTEGER) -> bytes:
    return encoded(tag, value.to_bytes(value.bit_length() // 8 + 1, "big", signed=True))


def boolean(value: bool, tag: int = BOOLEAN) -> bytes:  # noqa: FBT001 - the value of the element
    return encoded(tag, b"\xff" if value else b"\x00")


def octets(value: bytes, tag: int = OCTETS) -> bytes:
    return encoded(tag, value)


def length_at(data: bytes | bytearray, at: int) -> tuple[int, int] | None:
    """The length of the element whose length begins here, and where its content begins. None when that needs more bytes. Raises
    `MalformedMessage`.
    """
    if at >= len(data):
        return None
    first = data[at]
    if first < _HIGH:
        return first, at + 1
    size = first - _HIGH
    if not 1 <= size <= _MOST_LENGTH_BYTES:
        raise MalformedMessage("a length that LDAP does not have")
    if at + 1 + size > len(data):
        return None
    return int.from_bytes(data[at + 1 : at + 1 + size], "big"), at + 1 + size


class Elements:
    """Reads the elements of one content, one after the other."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    @property
    def is_over(self) -> bool:
        return self._at >= len(self._data)

    def next_tag(self) -> int | None:
        return None if self.is_over else self._data[self._at]

    def take(self, *tags: int) -> bytes:
        """The content of the next element, which must have one of these tags; without tags, any. Raises `MalformedMessage`."""
        tag = self.next_tag()
        if tag is None or (tags and tag not in tags):
            raise MalformedMessage("another element than the one that belongs here")
        found = length_at(self._data, self._at + 1)
        if found is None or found[1] + found[0] > len(self._data):
            raise MalformedMessage("an element that is cut off")
        length, begins = found
        self._at = begins + length
        return self._data[begins : self._at]

    def skip_to(self, tag: int) -> bytes | None:
        """The content of the first of the remaining elements that has this tag. None when there is none. Raises `MalformedMessage`."""
        while not self.is_over:
            is_it = self.next_tag() == tag
            content = self.take()
            if is_it:
                return content
        return None

    def number(self, tag: int = INTEGER) -> int:
        content = self.take(tag)
        if not 1 <= len(content) <= _LONGEST_INTEGER:
            raise MalformedMessage("a number that LDAP does not have")
        return int.from_bytes(content, "big", signed=True)

    def text(self) -> str:
        """For people: what is no UTF-8 is replaced."""
        return self.take(OCTETS).decode("utf-8", "replace")
