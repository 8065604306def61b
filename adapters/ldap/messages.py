"""The LDAP messages that Postern sends and reads (RFC 4511, section 4), and their encoding."""

from collections.abc import Mapping, Sequence
from enum import IntEnum
from typing import Final

from core.domain.identity.upstream.ldap.filters import (
    AnyOfFilter,
    ComparedFilter,
    EveryFilter,
    ExtendedFilter,
    LdapFilter,
    NotFilter,
    PresentFilter,
    SubstringsFilter,
)
from core.frozen import Frozen

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
    """Reads the elements of one content, one after the other (RFC 4511, section 5.1): BER with definite lengths. Reading never recurses:
    the caller states which element comes next, so unexpected nesting is never entered.
    """

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


START_TLS: Final = b"1.3.6.1.4.1.1466.20037"
PAGED_RESULTS: Final = b"1.2.840.113556.1.4.319"
"""RFC 2696."""
PASSWORD_POLICY: Final = b"1.3.6.1.4.1.42.2.27.8.5.1"
"""draft-behera-ldap-password-policy-10."""
PASSWORD_EXPIRED: Final = b"2.16.840.1.113730.3.4.4"
"""draft-vchu-ldap-pwd-policy-00: 389 sends it for a password that has to be changed."""
_VERSION: Final = 3
_SIMPLE: Final = 0x80
_CONTROLS: Final = 0xA0
_EXTENDED_NAME: Final = 0x80
_MOST_CONTROLS: Final = 20
_MOST_ATTRIBUTES: Final = 200


class LdapOperation(IntEnum):
    BIND = 0x60
    BOUND = 0x61
    UNBIND = 0x42
    SEARCH = 0x63
    ENTRY = 0x64
    DONE = 0x65
    REFERENCE = 0x73
    EXTENDED = 0x77
    EXTENDED_DONE = 0x78


class SearchScope(IntEnum):
    BASE = 0
    ONE = 1
    SUBTREE = 2


class LdapResultCode(IntEnum):
    """Those that we decide by."""

    SUCCESS = 0
    TIME_LIMIT = 3
    SIZE_LIMIT = 4
    REFERRAL = 10
    NO_SUCH_OBJECT = 32
    INVALID_CREDENTIALS = 49
    BUSY = 51
    UNAVAILABLE = 52


class MessageBounds(Frozen):
    bytes: int
    values: int
    """In one entry."""
    cuts: bool = False
    """Whether further values are left out. Otherwise they make the message malformed."""


ORDINARY: Final = MessageBounds(2 << 20, 10_000)


class LdapControl(Frozen):
    oid: bytes
    value: bytes | None


class LdapResult(Frozen):
    code: int
    said: str
    """In the directory's own words, for an administrator."""
    controls: tuple[LdapControl, ...] = ()

    def control(self, oid: bytes) -> LdapControl | None:
        return next((one for one in self.controls if one.oid == oid), None)


class ReceivedEntry(Frozen):
    dn: str
    attributes: Mapping[str, Sequence[bytes]]
    """By their names in lower case."""
    is_cut: bool = False
    """There are more values than the bounds let in."""


class LdapMessage(Frozen):
    """One message of the directory."""

    number: int
    operation: int
    result: LdapResult | None
    entry: ReceivedEntry | None


def message(number: int, operation: bytes, controls: Sequence[bytes] = ()) -> bytes:
    parts = [integer(number), operation]
    if controls:
        parts.append(encoded(_CONTROLS, *controls))
    return encoded(SEQUENCE, *parts)


def bind(dn: str, password: bytes) -> bytes:
    return encoded(LdapOperation.BIND, integer(_VERSION), octets(dn.encode()), octets(password, _SIMPLE))


def unbind() -> bytes:
    return encoded(LdapOperation.UNBIND)


def start_tls() -> bytes:
    return encoded(LdapOperation.EXTENDED, octets(START_TLS, _EXTENDED_NAME))


def search(base: str, scope: SearchScope, wanted: LdapFilter, attributes: Sequence[str], *, most: int, seconds: int) -> bytes:
    return encoded(
        LdapOperation.SEARCH,
        octets(base.encode()),
        integer(scope, ENUMERATED),
        # Aliases are never followed: they could lead out of the base.
        integer(0, ENUMERATED),
        integer(most),
        integer(seconds),
        boolean(value=False),
        encoded_filter(wanted),
        encoded(SEQUENCE, *(octets(one.encode()) for one in attributes)),
    )


def paged(size: int, cookie: bytes) -> bytes:
    return _control(PAGED_RESULTS, encoded(SEQUENCE, integer(size), octets(cookie)), is_critical=True)


def asks_for_policy() -> bytes:
    return _control(PASSWORD_POLICY, None, is_critical=False)


def _control(oid: bytes, value: bytes | None, *, is_critical: bool) -> bytes:
    parts = [octets(oid)]
    if is_critical:
        parts.append(boolean(value=True))
    if value is not None:
        parts.append(octets(value))
    return encoded(SEQUENCE, *parts)


def encoded_filter(wanted: LdapFilter) -> bytes:  # noqa: PLR0911 - one for each kind
    """The reader of filters bounds how deep they are."""
    match wanted:
        case EveryFilter(parts):
            return encoded(0xA0, *(encoded_filter(one) for one in parts))
        case AnyOfFilter(parts):
            return encoded(0xA1, *(encoded_filter(one) for one in parts))
        case NotFilter(part):
            return encoded(0xA2, encoded_filter(part))
        case ComparedFilter(attribute, comparison, value):
            return encoded(0xA0 | comparison, octets(attribute.encode()), octets(value))
        case PresentFilter(attribute):
            return octets(attribute.encode(), 0x87)
        case SubstringsFilter(attribute, first, middle, last):
            pieces = [octets(first, 0x80)] if first else []
            pieces += [octets(one, 0x81) for one in middle]
            pieces += [octets(last, 0x82)] if last else []
            return encoded(0xA4, octets(attribute.encode()), encoded(SEQUENCE, *pieces))
        case ExtendedFilter(attribute, rule, value, with_dn):
            said = [octets(rule.encode(), 0x81)] if rule else []
            said += [octets(attribute.encode(), 0x82)]
            said += [octets(value, 0x83)]
            said += [boolean(value=True, tag=0x84)] if with_dn else []
            return encoded(0xA9, *said)


def received(content: bytes, bounds: MessageBounds = ORDINARY) -> LdapMessage:
    """The message in the content of its outermost sequence. Raises `MalformedMessage`."""
    elements = Elements(content)
    number = elements.number()
    operation = elements.next_tag()
    if operation is None:
        raise MalformedMessage("a message without an operation")
    body = elements.take()
    controls = _controls(elements)
    match operation:
        case LdapOperation.ENTRY:
            return LdapMessage(number, operation, None, _entry(body, bounds))
        case LdapOperation.BOUND | LdapOperation.DONE | LdapOperation.EXTENDED_DONE:
            return LdapMessage(number, operation, _result(body, controls), None)
        case _:
            return LdapMessage(number, operation, None, None)


def page_cookie(result: LdapResult) -> bytes:
    """Empty when no page follows. Raises `MalformedMessage`."""
    control = result.control(PAGED_RESULTS)
    if control is None or control.value is None:
        return b""
    inner = Elements(Elements(control.value).take(SEQUENCE))
    inner.take(INTEGER)
    return inner.take(OCTETS)


def policy_error(result: LdapResult) -> int | None:
    """The number of the error that the directory's password policy names. None when it names none. Raises `MalformedMessage`."""
    control = result.control(PASSWORD_POLICY)
    if control is None or control.value is None:
        return None
    error = Elements(Elements(control.value).take(SEQUENCE)).skip_to(0x81)
    return None if error is None else int.from_bytes(error[:1], "big")


def _result(body: bytes, controls: tuple[LdapControl, ...]) -> LdapResult:
    elements = Elements(body)
    code = elements.number(ENUMERATED)
    elements.take(OCTETS)
    said = elements.text()
    return LdapResult(code, said, controls)


def _entry(body: bytes, bounds: MessageBounds) -> ReceivedEntry:
    elements = Elements(body)
    dn = elements.take(OCTETS)
    listed = Elements(elements.take(SEQUENCE))
    attributes: dict[str, list[bytes]] = {}
    number, is_cut = 0, False
    while not listed.is_over and not is_cut:
        if len(attributes) >= _MOST_ATTRIBUTES:
            raise MalformedMessage("too many attributes")
        one = Elements(listed.take(SEQUENCE))
        name = one.text().lower()
        values = Elements(one.take(SET))
        kept = attributes.setdefault(name, [])
        while not values.is_over:
            number += 1
            if number > bounds.values:
                if bounds.cuts:
                    is_cut = True
                    break
                raise MalformedMessage("too many values")
            kept.append(values.take(OCTETS))
    try:
        return ReceivedEntry(dn.decode(), attributes, is_cut)
    except UnicodeDecodeError:
        raise MalformedMessage("a name that is no UTF-8") from None


def _controls(elements: Elements) -> tuple[LdapControl, ...]:
    if elements.next_tag() != _CONTROLS:
        return ()
    listed, controls = Elements(elements.take(_CONTROLS)), list[LdapControl]()
    while not listed.is_over:
        if len(controls) >= _MOST_CONTROLS:
            raise MalformedMessage("too many controls")
        one = Elements(listed.take(SEQUENCE))
        oid = one.take(OCTETS)
        if one.next_tag() == BOOLEAN:
            one.take(BOOLEAN)
        controls.append(LdapControl(oid, None if one.is_over else one.take(OCTETS)))
    return tuple(controls)
