"""The chains of the audit log: each link's digest covers its entry and the link before, so that what was taken out, put in, altered or
moved shows.
"""

import hmac
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from hashlib import sha256
from typing import Final
from uuid import UUID

from core.domain.errors import BadRequest
from core.domain.identifiers import AuditEntryId, OrganizationId

# Of what is about the platform or about a person, and of no organization.
PLATFORM_CHAIN: Final = OrganizationId(UUID(int=0))

_HEAD: Final = re.compile(r"([0-9]{1,18}):([0-9a-fA-F]{64})")


@dataclass(frozen=True, slots=True)
class Head:
    """Where a chain ends. Noted elsewhere, it shows later that nothing before it was cut off."""

    sequence: int = 0
    digest: bytes = bytes(32)

    def __str__(self) -> str:
        return f"{self.sequence}:{self.digest.hex()}"

    @classmethod
    def parse(cls, text: str) -> "Head":
        found = _HEAD.fullmatch(text.strip())
        if found is None:
            raise BadRequest("A head is a number and 64 hexadecimal digits, with a colon between them")
        return cls(int(found[1]), bytes.fromhex(found[2]))


@dataclass(frozen=True, slots=True)
class Unlinked:
    """`content` says all that the entry says, and what it keeps of the part that may be forgotten."""

    chain: OrganizationId
    entry: AuditEntryId
    content: str


@dataclass(frozen=True, slots=True)
class Link:
    chain: OrganizationId
    entry: AuditEntryId
    sequence: int
    digest: bytes


def link_digest(key: bytes, chain: OrganizationId, before: Head, content: str) -> bytes:
    """Keyed: who can write to the database alone cannot make one. With its chain and its number, a link is of use in no other place."""
    place = chain.bytes + (before.sequence + 1).to_bytes(8)
    return hmac.digest(key, before.digest + place + content.encode(), sha256)


def linked(key: bytes, heads: Mapping[OrganizationId, Head], entries: Iterable[Unlinked]) -> Sequence[Link]:
    """The entries as the next links of their chains, in their order."""
    reached = dict(heads)
    links = []
    for one in entries:
        before = reached.get(one.chain, _BEFORE_THE_FIRST)
        digest = link_digest(key, one.chain, before, one.content)
        links.append(Link(one.chain, one.entry, before.sequence + 1, digest))
        reached[one.chain] = Head(before.sequence + 1, digest)
    return links


_BEFORE_THE_FIRST: Final = Head()


class Personal(StrEnum):
    """How the part that may be forgotten is found."""

    NONE = "none"
    INTACT = "intact"
    FORGOTTEN = "forgotten"
    ALTERED = "altered"


@dataclass(frozen=True, slots=True)
class StoredLink:
    """A link as it is found, with what it is to cover. `content` is None when there is no such entry."""

    chain: OrganizationId
    sequence: int
    entry: AuditEntryId
    digest: bytes
    content: str | None
    belongs: bool
    """The entry says the same of whose it is."""
    personal: Personal


class Fault(StrEnum):
    GAP = "links are missing"
    SURPLUS = "a link stands in a place that is taken"
    MISSING = "its entry is missing"
    ALTERED = "the entry, or its place, was altered"
    FOREIGN = "the entry is another organization's"
    PERSONAL = "the address, user agent or names were altered"
    CUT_OFF = "the chain ends before the noted head"
    REPLACED = "the chain is not the one whose head was noted"
    LOOSE = "the entry stands in no chain"
    STRAY = "the entry waits to be linked into a chain that is not its own"


@dataclass(frozen=True, slots=True)
class Finding:
    chain: OrganizationId
    fault: Fault
    sequence: int | None = None
    entry: AuditEntryId | None = None
    last: int | None = None
    """Of several missing links."""


class ChainCheck:
    """Walks along one chain, link by link in their order, and says of each what is wrong with it."""

    def __init__(self, key: bytes, chain: OrganizationId, noted: Head | None = None) -> None:
        self._key = key
        self._noted = noted
        self.chain = chain
        self.head = Head()
        self.links = 0
        self.forgotten = 0

    def take(self, link: StoredLink) -> Sequence[Finding]:
        findings = []
        self.links += 1
        if link.sequence <= self.head.sequence:
            return [Finding(self.chain, Fault.SURPLUS, link.sequence, link.entry)]
        follows = link.sequence == self.head.sequence + 1
        if not follows:
            findings.append(Finding(self.chain, Fault.GAP, self.head.sequence + 1, last=link.sequence - 1))
        fault = self._fault(link, follows=follows)
        if fault is not None:
            findings.append(Finding(self.chain, fault, link.sequence, link.entry))
        if link.personal is Personal.ALTERED:
            findings.append(Finding(self.chain, Fault.PERSONAL, link.sequence, link.entry))
        self.forgotten += link.personal is Personal.FORGOTTEN
        # What is stored, right or wrong: so each altered entry is told by itself, and not with all that follow.
        self.head = Head(link.sequence, link.digest)
        if self._noted is not None and self._noted.sequence == link.sequence and self._noted.digest != link.digest:
            findings.append(Finding(self.chain, Fault.REPLACED, link.sequence, link.entry))
        return findings

    def _fault(self, link: StoredLink, *, follows: bool) -> Fault | None:
        if link.content is None:
            return Fault.MISSING
        if not link.belongs:
            return Fault.FOREIGN
        # After a gap the digest before is not known, and with it this one cannot be told right from wrong.
        if follows and not hmac.compare_digest(link_digest(self._key, self.chain, self.head, link.content), link.digest):
            return Fault.ALTERED
        return None

    def end(self) -> Sequence[Finding]:
        """After the last link."""
        if self._noted is not None and self._noted.sequence > self.head.sequence:
            return [Finding(self.chain, Fault.CUT_OFF, self.head.sequence, last=self._noted.sequence)]
        return []
