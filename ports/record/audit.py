"""Reading the audit log, and keeping its chains. `ports.unit_of_work.UnitOfWork.record` writes the entries."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Protocol

from core.domain.identifiers import AuditEntryId, OrganizationId
from core.domain.pages import Listed, Page
from core.domain.record.audit import AuditEntry, AuditFilter
from core.domain.record.audit_chains import ChainFinding, StoredLink
from core.frozen import Frozen
from ports.progress import Advance, ignored


class AuditLog(Protocol):
    """Each method is one statement and one round trip, outside any unit of work."""

    async def newest(self, organization: OrganizationId, page: Page) -> Listed[AuditEntry]:
        """The newest first: entries that wait to be linked, then the chain from its end. A page far back costs no more than the first one.
        The total is exact.
        """

    async def matching(self, organization: OrganizationId, wanted: AuditFilter, page: Page) -> Listed[AuditEntry]:
        """The newest first. At most `MOST_COUNTED` entries are counted; a total of that size means "at least this many"."""

    async def last(self, action: str) -> datetime | None:
        """When the platform's log last recorded the action, with success. None if never."""

    async def find(self, organization: OrganizationId, entry: AuditEntryId) -> AuditEntry | None:
        """None when the organization's log has no such entry."""


class Backlog(Frozen):
    """Entries that wait to be linked. `pending` counts up to a limit."""

    pending: int
    oldest: datetime | None


class AuditChains(Protocol):
    """The chains of the whole installation."""

    async def link(self, key: bytes, most: int) -> int | None:
        """Links the oldest waiting entries, at most this many, in one transaction. Returns how many were linked; None when another process
        is linking. Any process may call it at any time.
        """

    async def backlog(self) -> Backlog: ...

    async def next_chains(self, after: OrganizationId | None, most: int) -> Sequence[OrganizationId]:
        """In a stable order. The first call passes None; none follow the last."""

    async def links(self, chain: OrganizationId, since: int, most: int) -> Sequence[StoredLink]:
        """The links of a chain in their order, from this number on. Each comes with every entry that stands in its place. Empty at the end
        of the chain.
        """

    async def parts(self, places: Sequence[tuple[OrganizationId, int]], most: int) -> Sequence[Sequence[StoredLink]]:
        """What `links` returns for each of the places. Reads them at once, each at a moment of its own."""

    async def about(self, chain: OrganizationId | None) -> int:
        """About how many links this chain has, or all chains together. Costs nothing: nobody counts."""

    async def unchained(self, chain: OrganizationId | None, most: int, advance: Advance = ignored) -> Sequence[ChainFinding]:
        """Entries that are in no chain and do not wait for one either, and entries that wait for a chain of somebody else. Tells `advance`
        how many entries it has looked at.
        """

    async def find(self, slug: str) -> OrganizationId | None:
        """None when no organization has this slug, or the one that had it is being deleted."""

    async def slugs(self) -> Mapping[OrganizationId, str]:
        """Of all organizations that still have one."""
