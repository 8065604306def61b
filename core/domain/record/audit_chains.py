"""The chains of the audit log. The digest of each link covers its entry and the link before it. So a check finds entries that were removed,
added, changed or moved.
"""

import hmac
import re
from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from hashlib import sha256
from typing import Final
from uuid import UUID

from core.domain.errors import BadRequest
from core.domain.identifiers import AuditEntryId, OrganizationId
from core.frozen import Frozen

# The chain of entries that belong to no organization: those about the platform or about a person.
PLATFORM_CHAIN: Final = OrganizationId(UUID(int=0))

_HEAD: Final = re.compile(r"([0-9]{1,18}):([0-9a-fA-F]{64})")


class ChainHead(Frozen):
    """The end of a chain. An operator who writes it down elsewhere can later show that nothing before it was removed."""

    sequence: int = 0
    digest: bytes = bytes(32)

    def __str__(self) -> str:
        return f"{self.sequence}:{self.digest.hex()}"

    @classmethod
    def parse(cls, text: str) -> "ChainHead":
        found = _HEAD.fullmatch(text.strip())
        if found is None:
            raise BadRequest("A head is a number and 64 hexadecimal digits, with a colon between them")
        return cls(int(found[1]), bytes.fromhex(found[2]))


class Unlinked(Frozen):
    """An entry that is in no chain yet. `content` covers everything in the entry, including the digest of the part that
    may be forgotten.
    """

    chain: OrganizationId
    entry: AuditEntryId
    content: str


class Link(Frozen):
    chain: OrganizationId
    entry: AuditEntryId
    sequence: int
    digest: bytes


def link_digest(key: bytes, chain: OrganizationId, before: ChainHead, content: str) -> bytes:
    """The digest of a link. A key is part of it, so access to the database is not enough to make one. It covers the chain's id and the
    number, so a link is valid only in its own place.
    """
    place = chain.bytes + (before.sequence + 1).to_bytes(8)
    return hmac.digest(key, before.digest + place + content.encode(), sha256)


def linked(key: bytes, heads: Mapping[OrganizationId, ChainHead], entries: Iterable[Unlinked]) -> Sequence[Link]:
    """The entries as the next links of their chains, in order."""
    reached = dict(heads)
    links = []
    for one in entries:
        before = reached.get(one.chain, _BEFORE_THE_FIRST)
        digest = link_digest(key, one.chain, before, one.content)
        links.append(Link(one.chain, one.entry, before.sequence + 1, digest))
        reached[one.chain] = ChainHead(before.sequence + 1, digest)
    return links


_BEFORE_THE_FIRST: Final = ChainHead()


class PersonalPart(StrEnum):
    """The state of the part that identifies a person and may be forgotten."""

    NONE = "none"
    INTACT = "intact"
    FORGOTTEN = "forgotten"
    ALTERED = "altered"


class StoredLink(Frozen):
    """A stored link, with the content that it should cover. `content` is None when the entry is missing."""

    chain: OrganizationId
    sequence: int
    entry: AuditEntryId
    digest: bytes
    content: str | None
    belongs: bool
    """Whether the entry itself names this chain."""
    personal: PersonalPart


class Fault(StrEnum):
    GAP = "links are missing"
    SURPLUS = "a link has the place of another"
    MISSING = "its entry is missing"
    ALTERED = "the entry, or its place, was altered"
    FOREIGN = "the entry is another organization's"
    PERSONAL = "the address, user agent or names were altered"
    CUT_OFF = "the chain ends before the noted head"
    REPLACED = "the chain is not the one whose head was noted"
    LOOSE = "the entry is in no chain"
    STRAY = "the entry waits to be linked into a chain that is not its own"


class ChainFinding(Frozen):
    chain: OrganizationId
    fault: Fault
    sequence: int | None = None
    entry: AuditEntryId | None = None
    last: int | None = None
    """The last one of several missing links."""


class ChainCheck:
    """Walks along a chain link by link, in order, and reports every fault."""

    def __init__(self, key: bytes, chain: OrganizationId, noted: ChainHead | None = None) -> None:
        self._key = key
        self._noted = noted
        self._place: ChainHead | None = None
        self.chain = chain
        self.head = ChainHead()
        self.links = 0
        self.forgotten = 0

    def go_on_after(self, head: ChainHead, links: int, forgotten: int) -> None:
        """So many links, up to this one, were checked by a run before. This one has to come once more: whoever has cut the chain off since
        would otherwise stay unseen.
        """
        self.head, self.links, self.forgotten = head, links, forgotten
        self._place = head

    def take(self, link: StoredLink) -> Sequence[ChainFinding]:
        findings = []
        if self._place is not None:
            place, self._place = self._place, None
            if link.sequence == place.sequence:
                return [] if link.digest == place.digest else [ChainFinding(self.chain, Fault.REPLACED, link.sequence, link.entry)]
            findings.append(ChainFinding(self.chain, Fault.GAP, place.sequence))
        self.links += 1
        if link.sequence <= self.head.sequence:
            return [ChainFinding(self.chain, Fault.SURPLUS, link.sequence, link.entry)]
        follows = link.sequence == self.head.sequence + 1
        if not follows:
            findings.append(ChainFinding(self.chain, Fault.GAP, self.head.sequence + 1, last=link.sequence - 1))
        fault = self._fault(link, follows=follows)
        if fault is not None:
            findings.append(ChainFinding(self.chain, fault, link.sequence, link.entry))
        if link.personal is PersonalPart.ALTERED:
            findings.append(ChainFinding(self.chain, Fault.PERSONAL, link.sequence, link.entry))
        self.forgotten += link.personal is PersonalPart.FORGOTTEN
        # The next link is compared with the stored digest, even if this digest is wrong. So each altered entry is reported on its own, and
        # the entries after it are not.
        self.head = ChainHead(link.sequence, link.digest)
        if self._noted is not None and self._noted.sequence == link.sequence and self._noted.digest != link.digest:
            findings.append(ChainFinding(self.chain, Fault.REPLACED, link.sequence, link.entry))
        return findings

    def _fault(self, link: StoredLink, *, follows: bool) -> Fault | None:
        if link.content is None:
            return Fault.MISSING
        if not link.belongs:
            return Fault.FOREIGN
        # After a gap the previous digest is unknown, so the digest of this link cannot be checked.
        if follows and not hmac.compare_digest(link_digest(self._key, self.chain, self.head, link.content), link.digest):
            return Fault.ALTERED
        return None

    def end(self) -> Sequence[ChainFinding]:
        """Called after the last link."""
        if self._place is not None:
            return [ChainFinding(self.chain, Fault.CUT_OFF, self._place.sequence)]
        if self._noted is not None and self._noted.sequence > self.head.sequence:
            return [ChainFinding(self.chain, Fault.CUT_OFF, self.head.sequence, last=self._noted.sequence)]
        return []
