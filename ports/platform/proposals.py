"""The store of proposals."""

from collections.abc import Sequence
from datetime import datetime
from typing import Protocol

from core.domain.identifiers import OrganizationId, ProposalId
from core.domain.platform.configuration.proposals import Proposal
from core.frozen import Frozen


class SealedProposal(Frozen):
    proposal: Proposal
    sealed_document: bytes | None
    """None once the proposal is applied."""


class ProposalStore(Protocol):
    """Outside a unit of work, `list` and `find` are one statement and one round trip each. They know no proposal whose day is over, none of
    a management key that has ended, has expired or may propose no more, and none of a person who is no member any more, is deactivated or
    may propose no more. The other methods need a unit of work in which the caller has locked the organization. Only PostgreSQL implements
    `ProposalStore`.
    """

    async def list(self, organization: OrganizationId, now: datetime) -> Sequence[Proposal]:
        """The newest first."""

    async def find(self, organization: OrganizationId, proposal: ProposalId, now: datetime) -> SealedProposal | None: ...

    async def waiting(self, organization: OrganizationId, now: datetime) -> int:
        """How many proposals wait, of those that `list` knows."""

    async def add(self, proposal: Proposal, sealed_document: bytes) -> None: ...

    async def take(self, organization: OrganizationId, proposal: ProposalId, at: datetime) -> bool:
        """Marks a waiting proposal as applied, and forgets its document. Of two callers, one gets False."""

    async def remove(self, organization: OrganizationId, proposal: ProposalId) -> bool:
        """False when there is none."""
