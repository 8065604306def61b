"""LDAP filters (RFC 4515), and the attributes that Postern never requests."""

import re
from collections.abc import Iterable
from enum import IntEnum
from typing import Final

from core.domain.errors import BadRequest
from core.frozen import Frozen

# By their names in lower case. What ends like a password needs no line here.
_CREDENTIALS: Final = frozenset(
    {
        "currentvalue",
        "initialauthincoming",
        "initialauthoutgoing",
        "lmpwdhistory",
        "msfve-keypackage",
        "ntpwdhistory",
        "priorvalue",
        "pwdhistory",
        "sambapasswordhistory",
        "trustauthincoming",
        "trustauthoutgoing",
        "userpkcs12",
        "sshprivatekey",
    }
)
# Families of products that add members: LAPS of Windows, keys of Kerberos, one-time passwords, what names itself a password, a secret or a
# hash, and the settings of OpenLDAP and 389, in which their own passwords stand. `pwdLastSet` and its like say nothing but when.
_FAMILIES: Final = re.compile(
    r"mslaps-.*|ms-laps-.*|krb.*key.*|krbpwdhistory|ipanthash|ipatoken.*|oath.*(?:secret|key).*|.*(?:otp|totp).*(?:secret|key).*"
    r"|passwordhistory|.*passwordhash.*|.*nthash.*|.*lmhash.*|.*(?:password|passwd|pwd|rootpw|credentials|secret)[0-9]*|olc.*|nsslapd-.*"
)
# Every attribute has a number beside its names, and directories take either, some of them as `OID.2.5.4.35`.
_NUMBER: Final = re.compile(r"(?:oid\.)?[0-9].*", re.DOTALL)


def is_number(attribute: str) -> bool:
    """Whether the attribute is named by its number, which says nothing of what it holds."""
    return _NUMBER.fullmatch(_plain(attribute)) is not None


def is_credential(attribute: str) -> bool:
    """Returns whether the attribute holds a credential, whatever its case and its options, such as `userPassword;binary`. Postern neither
    reads nor compares such an attribute: repeated comparisons reveal a value.
    """
    name = _plain(attribute)
    return name in _CREDENTIALS or _FAMILIES.fullmatch(name) is not None


def is_readable(attribute: str) -> bool:
    """Whether its value may become a field of a person."""
    return not is_number(attribute) and not is_credential(attribute)


def require_no_credential(field: str, attributes: Iterable[str]) -> None:
    """Raises `BadRequest`, also for a number: no list knows the numbers of all credentials."""
    for one in attributes:
        if is_number(one):
            raise BadRequest(
                f"{field}: {one} is the number of an attribute: write its name", words="ldap_number", values={"attribute": one}
            )
        if is_credential(one):
            raise BadRequest(
                f"{field}: {one} contains a credential, which Postern does not read", words="ldap_credential", values={"attribute": one}
            )


def _plain(attribute: str) -> str:
    """The name without its options, in lower case."""
    return attribute.partition(";")[0].strip().lower()


LONGEST_FILTER: Final = 2000
MOST_NESTED: Final = 10
MOST_PARTS: Final = 100
LONGEST_ATTRIBUTE: Final = 100
_ATTRIBUTE: Final = re.compile(r"[A-Za-z][A-Za-z0-9.;-]*|[0-9]+(?:\.[0-9]+)*")
_RULE: Final = re.compile(r"[A-Za-z0-9.;-]{1,100}")
_ESCAPED: Final = re.compile(r"[0-9A-Fa-f]{2}")


class LdapComparison(IntEnum):
    """How an attribute is compared with one value. The numbers are those of RFC 4511, section 4.5.1."""

    EQUAL = 3
    AT_LEAST = 5
    AT_MOST = 6
    LIKE = 8


class ComparedFilter(Frozen):
    attribute: str
    comparison: LdapComparison
    value: bytes


class PresentFilter(Frozen):
    attribute: str


class SubstringsFilter(Frozen):
    attribute: str
    first: bytes
    """Empty when any beginning will do."""
    middle: tuple[bytes, ...]
    last: bytes


class ExtendedFilter(Frozen):
    """A comparison by a rule of the directory, such as that for nested groups of Active Directory."""

    attribute: str
    rule: str
    value: bytes
    with_dn: bool


class EveryFilter(Frozen):
    parts: "tuple[LdapFilter, ...]"


class AnyOfFilter(Frozen):
    parts: "tuple[LdapFilter, ...]"


class NotFilter(Frozen):
    part: "LdapFilter"


LdapFilter = ComparedFilter | PresentFilter | SubstringsFilter | ExtendedFilter | EveryFilter | AnyOfFilter | NotFilter


class NoFilter(Exception):
    """The text is no filter from this place on; the first character is 1."""

    def __init__(self, why: str, place: int) -> None:
        super().__init__(why)
        self.why = why
        self.place = place


def is_attribute(text: str) -> bool:
    return len(text) <= LONGEST_ATTRIBUTE and _ATTRIBUTE.fullmatch(text) is not None


def read_filter(text: str) -> LdapFilter:
    """Raises `NoFilter`."""
    return _read(text)[0]


def _read(text: str) -> tuple[LdapFilter, list[str]]:
    """The filter, and the attributes that it names."""
    if len(text) > LONGEST_FILTER:
        raise NoFilter("too long", LONGEST_FILTER + 1)
    reader = _Reader(text)
    found = reader.filter(1)
    if reader.at < len(text):
        raise NoFilter("nothing may follow the last bracket", reader.at + 1)
    return found, reader.attributes


def person_filter(text: str) -> str:
    """The text, if it is a filter that asks for no credential. Raises `BadRequest`, which says where it is wrong."""
    stripped = text.strip()
    try:
        _, attributes = _read(stripped)
    except NoFilter as wrong:
        raise BadRequest(
            f"person_filter: no filter, at character {wrong.place}: {wrong.why}",
            words="ldap_filter",
            values={"place": wrong.place, "near": stripped[max(wrong.place - 11, 0) : wrong.place + 9]},
        ) from None
    require_no_credential("person_filter", attributes)
    return stripped


def named(people: LdapFilter, attributes: tuple[str, ...], name: str) -> LdapFilter:
    """Returns a filter for those of the people who have this name in one of the attributes. An administrator writes the filter of people.
    It is parsed into a tree, and the name that a user has typed is added as a value of the tree. No filter is concatenated from texts, so
    no input changes what a filter asks for.
    """
    value = name.encode()
    return EveryFilter((people, AnyOfFilter(tuple(ComparedFilter(one, LdapComparison.EQUAL, value) for one in attributes))))


class _Reader:
    def __init__(self, text: str) -> None:
        self._text = text
        self._parts = 0
        self.attributes: list[str] = []
        self.at = 0

    def filter(self, depth: int) -> LdapFilter:
        if depth > MOST_NESTED:
            raise NoFilter(f"more than {MOST_NESTED} brackets in each other", self.at + 1)
        self._parts += 1
        if self._parts > MOST_PARTS:
            raise NoFilter(f"more than {MOST_PARTS} parts", self.at + 1)
        self._take("(")
        sign = self._peek()
        found: LdapFilter
        if sign in {"&", "|"}:
            self.at += 1
            parts: list[LdapFilter] = []
            while self._peek() == "(":
                parts.append(self.filter(depth + 1))
            if not parts:
                raise NoFilter(f"{sign} needs a filter in brackets", self.at + 1)
            found = EveryFilter(tuple(parts)) if sign == "&" else AnyOfFilter(tuple(parts))
        elif sign == "!":
            self.at += 1
            found = NotFilter(self.filter(depth + 1))
        else:
            found = self._item()
        self._take(")")
        return found

    def _item(self) -> LdapFilter:
        begins = self.at
        ends = self._text.find("=", begins)
        if ends < 0 or any(bracket in self._text[begins:ends] for bracket in "()"):
            raise NoFilter("a comparison needs =", begins + 1)
        left = self._text[begins:ends]
        self.at = ends + 1
        if left.endswith(":"):
            return self._extended(left[:-1], begins)
        comparison = {">": LdapComparison.AT_LEAST, "<": LdapComparison.AT_MOST, "~": LdapComparison.LIKE}.get(
            left[-1:], LdapComparison.EQUAL
        )
        attribute = left if comparison is LdapComparison.EQUAL else left[:-1]
        if not is_attribute(attribute):
            raise NoFilter("no name of an attribute", begins + 1)
        self.attributes.append(attribute)
        pieces = self._values(stars=comparison is LdapComparison.EQUAL)
        if len(pieces) == 1:
            return ComparedFilter(attribute, comparison, pieces[0])
        if pieces == [b"", b""]:
            return PresentFilter(attribute)
        if b"" in pieces[1:-1]:
            raise NoFilter("two stars beside each other", ends + 2)
        return SubstringsFilter(attribute, pieces[0], tuple(pieces[1:-1]), pieces[-1])

    def _extended(self, left: str, begins: int) -> LdapFilter:
        attribute, *rest = left.split(":")
        with_dn = [one.lower() for one in rest[:1]] == ["dn"]
        rules = rest[1:] if with_dn else rest
        rule = rules[0] if rules else ""
        if attribute == "":
            # It would compare every attribute that the rule is for, also those that hold credentials.
            raise NoFilter("a comparison by a rule names its attribute", begins + 1)
        if not is_attribute(attribute) or len(rules) > 1 or (rules and not _RULE.fullmatch(rule)):
            raise NoFilter("no comparison by a rule", begins + 1)
        self.attributes.append(attribute)
        return ExtendedFilter(attribute, rule, self._values(stars=False)[0], with_dn)

    def _values(self, *, stars: bool) -> list[bytes]:
        """The value up to the closing bracket, split at its stars."""
        pieces, piece = [], bytearray()
        while self.at < len(self._text) and self._text[self.at] != ")":
            character = self._text[self.at]
            if character == "\\":
                digits = self._text[self.at + 1 : self.at + 3]
                if not _ESCAPED.fullmatch(digits):
                    raise NoFilter("two hexadecimal digits follow a \\", self.at + 1)
                piece += bytes.fromhex(digits)
                self.at += 3
                continue
            if character == "(" or not character.isprintable():
                raise NoFilter(f"write this character as \\{ord(character) & 0xFF:02x}", self.at + 1)
            if character == "*":
                if not stars:
                    raise NoFilter("no star here: write it as \\2a", self.at + 1)
                pieces.append(bytes(piece))
                piece.clear()
            else:
                piece += character.encode()
            self.at += 1
        return [*pieces, bytes(piece)]

    def _peek(self) -> str:
        return self._text[self.at : self.at + 1]

    def _take(self, character: str) -> None:
        if self._peek() != character:
            raise NoFilter(f"a {character} belongs here", self.at + 1)
        self.at += 1
