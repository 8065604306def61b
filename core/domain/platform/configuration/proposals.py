"""Proposals: a program plans a configuration document, and an owner applies exactly that plan by one press on a page of the console.

A proposal gives no right. Whoever made it could plan the document, and the owner who applies it could have set everything by hand.
"""

from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final

from core.domain.errors import Conflict
from core.domain.identifiers import ManagementKeyId, OrganizationId, ProposalId, UserId
from core.domain.json import Json, timestamp
from core.domain.record.events import Actor, Event, Target
from core.frozen import Frozen

LIFETIME: Final = timedelta(days=1)
MOST_PROPOSALS: Final = 20
"""The limit of an organization, of those that wait."""


class ProposalState(StrEnum):
    """Whether the proposal waits for an owner, or an owner has applied it."""

    WAITING = "waiting"
    APPLIED = "applied"


class Proposal(Frozen, kw_only=True):
    """The stored data of a proposal, without the document."""

    id: ProposalId
    organization: OrganizationId
    document: str
    """The digest of the document."""
    plan: str
    """The digest of the plan: of each change with the values before and after."""
    created_by: UserId
    """The person who proposes. For a management key, the person who answers for it."""
    key: ManagementKeyId | None = None
    proposed_by: str = ""
    """The address of the person, or the name of the management key."""
    created_at: datetime
    expires_at: datetime
    enacted_at: datetime | None = None

    @property
    def state(self) -> ProposalState:
        return ProposalState.WAITING if self.enacted_at is None else ProposalState.APPLIED


class ProposalOvertaken(Conflict):
    """The plan is not the proposed one any more."""

    def __init__(self) -> None:
        super().__init__("What the document would change is not what was proposed any more: ask for a new plan", words="proposal_overtaken")


def sealing_context(proposal: ProposalId) -> str:
    return f"proposals.sealed_document:{proposal}"


def require_proposals_room(waiting: int) -> None:
    if waiting >= MOST_PROPOSALS:
        raise Conflict(
            f"An organization has at most {MOST_PROPOSALS} proposals that wait: apply or withdraw one first",
            words="limit_reached",
            values={"most": MOST_PROPOSALS},
        )


def proposal_created(proposal: Proposal, actor: Actor) -> Event:
    return _event("proposal.created", proposal, actor)


def proposal_applied(proposal: Proposal, actor: Actor) -> Event:
    return _event("proposal.applied", proposal, actor)


def proposal_deleted(proposal: Proposal, actor: Actor) -> Event:
    return _event("proposal.deleted", proposal, actor)


def _event(name: str, proposal: Proposal, actor: Actor) -> Event:
    details: dict[str, Json] = {
        "document_digest": proposal.document,
        "plan_digest": proposal.plan,
        "expires_at": timestamp(proposal.expires_at),
    }
    return Event(name, actor, Target("proposal", str(proposal.id)), proposal.organization, details)
