"""Where the audit log is read, and where its chains are kept. Entries are written by `ports.unit_of_work.UnitOfWork.record`."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Protocol

from core.domain.identifiers import OrganizationId
from core.domain.pages import Listed, Page
from core.domain.record.audit import AuditEntry, AuditFilter
from core.domain.record.audit_chains import ChainFinding, StoredLink
from core.frozen import Frozen


class AuditLog(Protocol):
    """Outside any unit of work: one statement, one round trip."""

    async def newest(self, organization: OrganizationId, page: Page) -> Listed[AuditEntry]:
        """The newest first: those that wait to be linked, then the chain from its end. A page far back costs no more than the first, and
        the total is exact.
        """

    async def matching(self, organization: OrganizationId, wanted: AuditFilter, page: Page) -> Listed[AuditEntry]:
        """The newest first. At most `MOST_COUNTED` entries are counted; a total of that size means "at least this many"."""


class Backlog(Frozen):
    """Entries that wait to be linked. `pending` counts up to a limit."""

    pending: int
    oldest: datetime | None


class AuditChains(Protocol):
    """The chains, over the whole installation."""

    async def link(self, key: bytes, most: int) -> int | None:
        """Links the oldest waiting entries, at most this many, in one transaction. Returns how many; None when another process is doing it.
        Anyone may call it at any time.
        """

    async def backlog(self) -> Backlog: ...

    async def next_chain(self, after: OrganizationId | None) -> OrganizationId | None:
        """In a stable order. The first call passes None; None follows the last."""

    async def links(self, chain: OrganizationId, since: int, most: int) -> Sequence[StoredLink]:
        """In their order, from this number on: a part of the chain, with everything that stands in its places. Empty at the end of the
        chain.
        """

    async def unchained(self, chain: OrganizationId | None, most: int) -> Sequence[ChainFinding]:
        """Entries that are in no chain and do not wait for one either, and those that wait for a chain that is not theirs."""

    async def find(self, slug: str) -> OrganizationId | None:
        """None when no organization has this slug, or the one that had it is being deleted."""

    async def slugs(self) -> Mapping[OrganizationId, str]:
        """Of all organizations that still have one."""
