"""Where the audit log is read, and where its chains are kept. Entries are written by `ports.unit_of_work.UnitOfWork.record`."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from core.domain.audit import AuditEntry, AuditFilter
from core.domain.audit_chains import Finding, StoredLink
from core.domain.identifiers import OrganizationId
from core.domain.pages import Listed, Page


class AuditLog(Protocol):
    """Outside any unit of work: one statement, one round trip."""

    async def newest(self, organization: OrganizationId, page: Page) -> Listed[AuditEntry]:
        """The newest first: those that wait to be linked, then the chain from its end. A page far back costs no more than the first, and
        the total is exact.
        """

    async def matching(self, organization: OrganizationId, wanted: AuditFilter, page: Page) -> Listed[AuditEntry]:
        """The newest first. No more than `MOST_COUNTED` are looked at, and a total of so many says "at least"."""


@dataclass(frozen=True, slots=True)
class Backlog:
    """Entries that wait to be linked. `pending` stops counting somewhere."""

    pending: int
    oldest: datetime | None


class AuditChains(Protocol):
    """The chains, over the whole installation."""

    async def link(self, key: bytes, most: int) -> int | None:
        """Link the oldest entries that wait, at most so many, in one transaction. Returns how many; None when another process is about it.
        May be called at any time, by anybody.
        """

    async def backlog(self) -> Backlog: ...

    async def next_chain(self, after: OrganizationId | None) -> OrganizationId | None:
        """In any order that stays. The first with None; None after the last."""

    async def links(self, chain: OrganizationId, since: int, most: int) -> Sequence[StoredLink]:
        """In their order, from this number on: a part of the chain, with all that stand in its places. Empty when there are no more."""

    async def unchained(self, chain: OrganizationId | None, most: int) -> Sequence[Finding]:
        """Entries in no chain that do not wait for it either, and those that wait for a chain that is not theirs."""

    async def find(self, slug: str) -> OrganizationId | None:
        """None when no organization has this slug, or the one that had it is being deleted."""

    async def slugs(self) -> Mapping[OrganizationId, str]:
        """Of all organizations that have one still."""
