"""Draws the parts of the fuzzer's requests: ids, addresses in all spellings, texts and filters, good or bad."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Final, TypeVar
from urllib.parse import quote
from uuid import UUID

USER: Final = "urn:ietf:params:scim:schemas:core:2.0:User"

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class View:
    """The ids and addresses that a request can name, its own and others', in an order that depends on the seed alone."""

    users: Sequence[str]
    near: Sequence[str]
    """Those of them whom the directory knows."""
    addresses: Sequence[str]
    """Those of the users come first, in their order."""
    group: str
    others: Sequence[str]
    """Ids of what is no user: organizations, services, invitations."""
    versions: Sequence[str]


# Each of these characters in a text has broken some software.
_TEXTS: Final = (
    "Ada",
    "Lovelace",
    "Ünïcödé ✓",
    "ǰ ﬁ ß İ",
    "日本語",
    "\u202eevil",
    "a" * 256,
    "a" * 257,
    "'; drop table users; --",
    '"><script>alert(1)</script>',
    "%s %(organization)s {0} {{",
    "\\u0000 \\",
    " padded ",
    "",
    "null",
    "true",
    "-1",
)
_BROKEN_FILTERS: Final = (
    "",
    "userName",
    "userName eq",
    'userName eq "',
    "userName eq ada",
    '"ada" eq userName',
    'userName eq "a" or',
    'and userName eq "a"',
    "(" * 30 + 'userName eq "a"' + ")" * 30,
    '(userName eq "a"',
    'userName eq "a")',
    " or ".join(f'userName eq "{number}"' for number in range(25)),
    'userName eq "\\u0000"',
    'userName eq "\\ud800"',
    'userName eq "\\x"',
    'emails[type eq "work" and value co "a"]',
    'emails[type eq "work"',
    "not",
    "not not (active eq true)",
    "1 eq 1",
    "active eq",
    'userName eq "a" -- ',
    "' or 1=1",
    "x" * 3000,
    "\ud83d\ude00",
    'meta.created gt "2011-05-13T04:42:34Z"',
)


class HostileWords:
    def __init__(self, seed: int) -> None:
        self.random = Random(seed)  # noqa: S311 - has to be repeatable
        self._number = 0

    def maybe(self, chance: float) -> bool:
        return self.random.random() < chance

    def one(self, items: Sequence[T]) -> T:
        return self.random.choice(items)

    def some(self, items: Sequence[T], most: int) -> list[T]:
        """Some of these: at least one, unless the list is empty."""
        return self.random.sample(list(items), min(len(items), self.random.randint(1, max(most, 1))))

    def weighed(self, choices: Mapping[T, float]) -> T:
        (chosen,) = self.random.choices(list(choices), list(choices.values()))
        return chosen

    def text(self) -> str:
        return self.one(_TEXTS)

    def external_id(self) -> str:
        return self.one((f"x-{self.random.randrange(20)}", self.text()))

    def verb(self, *verbs: str) -> str:
        verb = self.one(verbs)
        return self.one((verb, verb, verb.title(), verb.upper()))

    def id(self, view: View) -> str:
        """An id as a segment of a path, mostly of a person."""
        kind = self.random.random()
        if kind < 0.6:
            return self.one(view.near or view.users)
        if kind < 0.88:
            return self.one(view.users)
        if kind < 0.93:
            return self.one((*view.others, view.group))
        if kind < 0.96:
            return str(UUID(int=self.random.getrandbits(128), version=4))
        known = self.one(view.users)
        written = (
            known.upper(),
            known.replace("-", ""),
            f"%7B{known}%7D",
            f"urn:uuid:{known}",
            known[:-1],
            f"{known}%20",
            "1",
            "null",
            "*",
        )
        return self.one((*written, quote(self.text(), safe=""), "%F0%28%8C%28", "x" * 3000))

    def people(self, view: View, most: int) -> list[str]:
        return self.some(view.near if view.near and self.maybe(0.8) else view.users, most)

    def address(self, view: View) -> str:
        """An address of a person, or one that another organization has invited."""
        address = self.one(view.addresses)
        return address if self.maybe(0.7) else self._spelt(address)

    def new_address(self) -> str:
        self._number += 1
        return f"{self.one(('New', 'new', 'nEw', 'neŵ'))}{self._number}@{self.one(('fuzz.example', 'Fuzz.Example', 'sub.fuzz.example'))}"

    def _spelt(self, address: str) -> str:
        local, _, domain = address.partition("@")
        return self.one(
            (
                address.upper(),
                address.title(),
                address.swapcase(),
                f" {address}\t",
                f"{local}+tag@{domain}",
                f'"{local}"@{domain}',
                f"Ada <{address}>",
                f"{address}.",
                f"{local}\u200b@{domain}",
                "".join(chr(ord(letter) + 0xFEE0) if "a" <= letter <= "z" else letter for letter in local) + f"@{domain}",
                f"{local}@{domain.replace('.', '。')}",
                # The long s and the kelvin sign, which case folding turns into s and k.
                f"{local}@{domain}".replace("s", "\u017f").replace("k", "\u212a"),
                f"{local}@xn--{domain}",
                f"{address}\x00",
                f"{address},{address}",
                f"{local}@[127.0.0.1]",
                local,
                f"@{domain}",
                f"{local}@",
                "x" * 250 + f"@{domain}",
            )
        )

    def filter(self, view: View, depth: int = 0) -> str:
        kind = self.random.random()
        if depth < 3 and kind < 0.15:
            return f"{self.filter(view, depth + 1)} {self.one(('and', 'or', 'AND', 'Or'))} {self.filter(view, depth + 1)}"
        if depth < 3 and kind < 0.25:
            return f"{self.one(('not ', 'not', ''))}({self.filter(view, depth + 1)})"
        if kind < 0.35:
            return self.one(_BROKEN_FILTERS)
        field, value = self.one(
            (
                ("userName", self.address(view)),
                ("emails.value", self.address(view)),
                ("emails", self.address(view)),
                ('emails[type eq "work"].value', self.address(view)),
                ("id", self.id(view)[:100]),
                ("externalId", self.external_id()),
                ("members", self.one(view.users)),
                ("members.value", self.one((*view.users, *view.others))),
                ("active", self.one(("true", "False"))),
                ("displayName", self.text()),
                ("name.familyName", self.text()),
                ("password", "x"),
                ("userName", self.one(("", "@", ".example", "a", "%", "_"))),
            )
        )
        operator = self.one(("eq", "eq", "eq", "co", "sw", "ew", "EQ", "ne", "gt", "pr"))
        written = value if field == "active" else json.dumps(value, ensure_ascii=self.maybe(0.5))
        return f"{field} {operator} {written}"

    def version(self, view: View) -> str:
        return self.one((*view.versions, *view.versions, "*", 'W/"x"', "", '"', ", ,", 'W/"é"', "x" * 2000))
