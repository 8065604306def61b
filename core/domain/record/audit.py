"""The audit log: its entries and filters, the hash chains that protect it, and their verification."""

import hmac
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from enum import StrEnum
from hashlib import sha256
from typing import Final
from uuid import UUID

from core.domain.errors import BadRequest
from core.domain.formats import Json
from core.domain.identifiers import AuditEntryId, OrganizationId, UserId
from core.domain.record.events import ActingKey, Actor, TargetType
from core.domain.requests import MOST_ROWS_COUNTED, Page
from core.frozen import Frozen

LONGEST_USER_AGENT: Final = 512
# The address of an actor whose account is deleted.
DELETED_USER: Final = "deleted-user@unknown"
# These replace the forgotten part of an entry.
FORGOTTEN_ADDRESS: Final = "0.0.0.0"  # noqa: S104 - nothing is bound to it
FORGOTTEN_USER_AGENT: Final = "anonymized"


def kept_user_agent(actor: Actor) -> str | None:
    return None if actor.user_agent is None else actor.user_agent[:LONGEST_USER_AGENT]


class Person(Frozen):
    """The actor, with the account's present data."""

    id: UserId
    email: str
    is_platform_owner: bool
    name: str | None = None
    """The present name. None in the log of an organization that may not see it."""


class NamedService(Frozen):
    """The service that an entry is about, by its present names."""

    slug: str
    name: str


class AuditEntry(Frozen, kw_only=True):
    """An entry. `actor` is None for the system."""

    id: AuditEntryId
    organization: OrganizationId
    actor: Person | ActingKey | None
    impersonator: Person | None
    subject: Person | None = None
    """The person whom the entry is about, while the person is a member of the organization or uses one of its services."""
    service: NamedService | None = None
    """The service that the entry is about, while there is one."""
    action: str
    target_type: str
    target_id: str
    address: str | None
    user_agent: str | None
    success: bool
    details: Mapping[str, Json]
    created_at: datetime


class AuditFilter(Frozen, kw_only=True):
    """Selects the entries that satisfy all of these conditions. The span includes `since`, and excludes `until`."""

    action: str | None = None
    target_type: TargetType | None = None
    target_id: str | None = None
    actor: UserId | None = None
    success: bool | None = None
    since: datetime | None = None
    until: datetime | None = None

    def __post_init__(self) -> None:
        if self.target_id is not None and self.target_type is None:
            raise BadRequest("target_id: needs a target_type", words="target_without_kind")
        if self.since is not None and self.until is not None and self.since >= self.until:
            raise BadRequest("until: must be later than since", words="since_until")

    @property
    def is_empty(self) -> bool:
        return self == _EVERYTHING


_EVERYTHING: Final = AuditFilter()


def require_reachable(page: Page) -> None:
    """Refuses a page far down a filtered list. Such a page would have to walk over everything before it, so the answer
    names a better way.
    """
    if page.offset + page.limit > MOST_ROWS_COUNTED:
        raise BadRequest(
            f"page: a filtered list ends after {MOST_ROWS_COUNTED} entries; narrow it with since and until", words="span_narrower"
        )


# The chain of entries that belong to no organization: those about the platform or about a person.
PLATFORM_CHAIN: Final = OrganizationId(UUID(int=0))

AUDIT_TOPIC: Final = "audit"
"""The doorbell's topic for entries that wait for their place in a chain."""

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
    """The digest of each link covers its entry and the link before it. So a check finds entries that were removed, added, changed or moved.

    The digest of a link. A key is part of it, so access to the database is not enough to make one. It covers the chain's id and the number,
    so a link is valid only in its own place.
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


# What was altered since, before the place that was reached, a later run does not see. So no run is taken up after a week.
PROGRESS_COUNTS_FOR: Final = timedelta(days=7)
_PURPOSE: Final = b"progress of a verification"


class Reached(Frozen):
    """How far a verification of the audit log has come, so that another run can resume it: all chains before this one were checked, and of
    this one all links up to its `head`.
    """

    began: datetime
    only: OrganizationId | None
    chain: OrganizationId
    head: ChainHead
    links: int
    forgotten: int
    chains: int = 0
    """How many chains came before."""
    links_before: int = 0
    """How many links those have."""
    faults: Mapping[str, int] = {}
    """How many were found so far, by the name of the chain."""
    noted: ChainHead | None = None
    """The end of the one chain at an earlier time, which the run compares."""


def sealed_progress(key: bytes, reached: Reached) -> str:
    """Authenticates the progress with a key that is derived from the chains' key, which is not in the database: nobody else can claim that
    something was verified. It is a key of its own, so no link of a chain can serve as such a code.
    """
    text = json.dumps(
        {
            "began": reached.began.isoformat(),
            "only": None if reached.only is None else str(reached.only),
            "chain": str(reached.chain),
            "head": str(reached.head),
            "links": reached.links,
            "forgotten": reached.forgotten,
            "chains": reached.chains,
            "links_before": reached.links_before,
            "faults": dict(reached.faults),
            "noted": None if reached.noted is None else str(reached.noted),
        }
    )
    return f"{text}\n{_code(key, text)}\n"


def opened_progress(key: bytes, text: str, only: OrganizationId | None, noted: ChainHead | None, now: datetime) -> Reached:
    """Raises `BadRequest`, which says why this run cannot go on there."""
    said, _, code = text.rstrip("\n").partition("\n")
    if not hmac.compare_digest(_code(key, said).encode(), code.encode()):
        raise BadRequest("It is not the progress of a verification with these keys")
    kept = json.loads(said)
    reached = Reached(
        began=datetime.fromisoformat(kept["began"]),
        only=_chain(kept["only"]),
        chain=OrganizationId(UUID(kept["chain"])),
        head=ChainHead.parse(kept["head"]),
        links=kept["links"],
        forgotten=kept["forgotten"],
        chains=kept["chains"],
        links_before=kept["links_before"],
        faults=kept["faults"],
        noted=None if kept["noted"] is None else ChainHead.parse(kept["noted"]),
    )
    if reached.only != only:
        raise BadRequest("It is the progress of a verification of other chains")
    if reached.noted != noted:
        raise BadRequest("It is the progress of a verification that compares another head")
    if not now - PROGRESS_COUNTS_FOR <= reached.began <= now:
        raise BadRequest("The verification was begun more than a week ago")
    return reached


def _code(key: bytes, text: str) -> str:
    return hmac.digest(hmac.digest(key, _PURPOSE, sha256), text.encode(), sha256).hex()


def _chain(text: str | None) -> OrganizationId | None:
    return None if text is None else OrganizationId(UUID(text))
