"""The store of organizations' domains, and of the proofs of domains."""

from collections.abc import Sequence
from datetime import datetime
from typing import Protocol, TypeVar

from core.domain.identifiers import DomainId, OrganizationId
from core.domain.tenancy.domains import Domain
from core.frozen import Frozen
from ports.tenancy.webhooks import Owner

Proved = TypeVar("Proved", bound=Domain)


class Verified(Frozen):
    is_new: bool
    """The domain was not verified before."""


class ProofStore(Protocol[Proved]):
    """The proofs of domains. When a member acts, the caller has already locked the organization. Only PostgreSQL implements
    `ProofStore`, once for domains and once for domain routes.
    """

    async def claim_due(self, at: datetime, until: datetime, limit: int) -> Sequence[Proved]:
        """Verified domains whose check is due, the longest overdue first. No other process gets them before `until`."""

    async def verify(self, domain: Proved, at: datetime, next_check_at: datetime) -> Verified | None:
        """None when another organization has verified the domain for anything, or when this organization uses another domain by now. Of two
        organizations that prove the same domain, one gets it. Of several members who verify it at once, one learns that it is new.
        """

    async def seen(self, domain: DomainId, at: datetime, next_check_at: datetime) -> None:
        """The proof of a verified domain was found again."""

    async def missed(self, domain: Proved, at: datetime, next_check_at: datetime, most: int) -> Proved | None:
        """The proof of a verified domain was not found. After `most` times in a row, the domain is no longer verified. None when the domain
        was not verified, or somebody has seen or missed its proof since the caller read it.
        """

    async def owners(self, organization: OrganizationId) -> Sequence[Owner]: ...


class DomainStore(ProofStore[Domain], Protocol):
    """Outside a unit of work, `find` and `claim_due` are one statement and one round trip each. The other methods need a unit of work."""

    async def find(self, organization: OrganizationId) -> Domain | None: ...

    async def save(self, domain: Domain) -> None:
        """Replaces the domain that the organization had."""

    async def remove(self, organization: OrganizationId) -> Domain | None:
        """Returns the domain that was removed."""
