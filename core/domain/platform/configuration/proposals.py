"""Proposals: a program plans a configuration document, and an owner applies exactly that plan by one press on a page of the console.

A proposal gives no right. Whoever made it could plan the document, and the owner who applies it could have set everything by hand.
"""

from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final

from core.domain.errors import BadRequest, Conflict
from core.domain.identifiers import ManagementKeyId, OrganizationId, ProposalId, UserId
from core.domain.json import Json, timestamp
from core.domain.record.events import Actor, Event, Target
from core.domain.tenancy.roles import Capability
from core.frozen import Frozen

PROPOSES: Final = Capability.SETTINGS_MANAGE
"""Who proposes needs it, as long as the proposal counts."""
LIFETIME: Final = timedelta(days=1)
MOST_PROPOSALS: Final = 20
"""The limit of an organization, of those that wait."""
MOST_CHANGES: Final = 200
"""Of a proposal. The page of one shows all that the press would do, and nobody reads more than this."""


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


def require_readable(changes: int) -> None:
    """Raises `BadRequest` for a plan that no page would show whole."""
    if changes > MOST_CHANGES:
        raise BadRequest(
            f"document: it makes {changes} changes, and a page shows at most {MOST_CHANGES}: propose it in parts",
            words="proposal_large",
            values={"most": MOST_CHANGES},
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
