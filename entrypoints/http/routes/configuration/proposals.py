"""Proposals: programs plan a document, an owner applies exactly that plan. `postern mcp` and whoever else may not apply come here."""

from collections.abc import Sequence
from datetime import datetime
from typing import Annotated, Any, Final
from uuid import UUID

import msgspec

from core.domain.errors import BadRequest, Conflict
from core.domain.identifiers import ProposalId
from core.domain.identity.proofs import StepUp
from core.domain.platform.configuration.objects import pointer
from core.domain.platform.configuration.planning import PROPOSES, Proposal, ProposalOvertaken, ProposalState, require_readable
from core.domain.secrets import Secret
from core.domain.tenancy.members import Member
from core.domain.tenancy.roles import Capability
from entrypoints.bootstrap import Postern
from entrypoints.http.machinery.accepts import Json
from entrypoints.http.machinery.answers import NO_BODY, NoBody
from entrypoints.http.machinery.callers import OWNER_IN_PERSON, able
from entrypoints.http.machinery.calls import Call
from entrypoints.http.machinery.derived import shown
from entrypoints.http.machinery.endpoints import endpoint
from entrypoints.http.machinery.fields import CreatedAt, Id, OrganizationPath, Total, Word, bounded, example
from entrypoints.http.machinery.limits import DOCUMENTS, UNLIMITED
from entrypoints.http.routes.configuration.acting import DocumentCaller
from entrypoints.http.routes.configuration.applying import Configuring, Planned
from entrypoints.http.routes.configuration.documents import (
    ConfigurationApplied,
    ConfigurationPlan,
    applied_record,
    plan_digest,
    plan_record,
)

_TAGS = ("proposals",)
_PROPOSALS: Final = "/api/organizations/{org_slug}/proposals"
_PROPOSAL: Final = f"{_PROPOSALS}/{{proposal_id}}"
_VIEW: Final = able(Capability.SETTINGS_MANAGE, impersonated=True)
# A proposal outlasts an impersonation.
_MAKE: Final = able(PROPOSES, impersonated=False)
_BODY: Final = Json(limit=128 << 10)
_TREE: Final = {"postern": 1, "organizations": {"acme": {"roles": {"support": {"name": "Support", "permissions": ["end_users.view"]}}}}}

_PlanDigest = Annotated[str, example("9f2c4d4c86a1d0c5f2a0b3b8a3d7e9f1c2b3a4958677869504132231f0e1d2c3")]


class ProposalPath(OrganizationPath, frozen=True):
    proposal_id: UUID
    """The proposal's ID."""


class NewProposal(msgspec.Struct, frozen=True, kw_only=True):
    """What is proposed."""

    document: Annotated[dict[Word, Any], example(_TREE)]
    """The document: `postern: 1`, and `organizations` with this organization alone. It holds no secrets."""


class ProposalSeen(msgspec.Struct, frozen=True, kw_only=True):
    """What the owner has seen."""

    digest: Annotated[_PlanDigest, bounded({"minLength": 64, "maxLength": 64})]
    """The digest of the plan, as the proposal has it."""


class ProposalRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A proposal, without its document."""

    id: Id
    url: Annotated[str, example("https://id.example.com/ui/o/acme/settings/proposals/0199c3f2-4f0e-7a51-9a3d-0d6c1f2b3a4c")]
    """The page on which an owner applies it. The link opens it for no one else."""
    state: ProposalState
    """Whether it waits for an owner, or an owner has applied it."""
    document: Annotated[str, example("5f70bf18a086007016e948b04aed3b82103a36bea41755b6cddfaf10ace3c6ef")]
    """The digest of the document."""
    digest: _PlanDigest
    """The digest of the plan. An owner who applies the proposal sends it back."""
    proposed_by: Annotated[str, example("Assistant")]
    """The email address of the person, or the name of the management API key, that proposes."""
    expires_at: datetime
    """Until when an owner can apply it: a day after it was created."""
    created_at: CreatedAt
    enacted_at: datetime | None
    """When an owner applied it; null if none did."""


class ProposalWithPlan(ProposalRecord, frozen=True, kw_only=True):
    """A proposal, and what applying it would do now."""

    plan: ConfigurationPlan | None
    """The plan, as things are now; null once it is applied."""
    is_overtaken: Annotated[bool, example(False)]
    """Whether this plan differs from the proposed one. Then no one can apply the proposal."""


class ProposalList(msgspec.Struct, frozen=True):
    """The proposals of the last day."""

    proposals: Sequence[ProposalRecord]
    """The proposals, the newest first."""
    total: Total


@endpoint.post(_PROPOSALS, caller=_MAKE, keys=True, limit=DOCUMENTS, status=201, refuses=(BadRequest, Conflict), accepts=_BODY, tags=_TAGS)
async def create_proposal(call: Call[NewProposal, None, OrganizationPath, Member], postern: Postern) -> ProposalWithPlan:
    """Propose a document to the owner

    Nothing changes. The document is planned as by the endpoint for plans, and kept for a day. Give an owner the `url` of the answer: on
    that page they see the plan, and apply exactly it after recent reauthentication. If anything of it has changed by then, nothing is done.
    A document with problems, with nothing to do, or with more than 200 changes, is refused. An organization has at most twenty proposals
    that wait.
    """
    planned = await _planned(call, postern, call.body.document)
    if planned.problems:
        more = f", and {len(planned.problems) - 1} more problems: plan the document to see them" if len(planned.problems) > 1 else ""
        raise BadRequest(f"{pointer(planned.problems[0].steps) or 'document'}: {planned.problems[0].message}{more}")
    if planned.is_empty:
        raise BadRequest("document: it changes nothing, so there is nothing to propose")
    require_readable(len(planned.plan.changes))
    made = await postern.platform.proposals.create(
        call.caller, msgspec.json.encode(call.body.document), planned.document.digest, _digest(planned), call.actor
    )
    return _with_plan(made, url=_url(call, postern, made), plan=_shown(planned), is_overtaken=False)


@endpoint.get(_PROPOSALS, caller=_VIEW, keys=True, tags=_TAGS)
async def list_proposals(call: Call[None, None, OrganizationPath, Member], postern: Postern) -> ProposalList:
    """List the proposals of an organization, the newest first

    Those of the last day, applied ones included. A proposal counts as long as the management API key or the person that made it may still
    propose: it goes with a key that ends or expires, and with a person who leaves, is deactivated or may do less.
    """
    found = await postern.platform.proposals.list(call.caller)
    return ProposalList([_record(one, url=_url(call, postern, one)) for one in found], len(found))


@endpoint.get(_PROPOSAL, caller=_VIEW, keys=True, limit=DOCUMENTS, tags=_TAGS)
async def get_proposal(call: Call[None, None, ProposalPath, Member], postern: Postern) -> ProposalWithPlan:
    """Get a proposal, and what applying it would do now

    The plan is made again for you. With `is_overtaken`, it is not the proposed one any more.
    """
    opened = await postern.platform.proposals.get(call.caller, ProposalId(call.path.proposal_id))
    one, url = opened.proposal, _url(call, postern, opened.proposal)
    if opened.document is None:
        return _with_plan(one, url=url, plan=None, is_overtaken=False)
    planned = await _planned(call, postern, msgspec.json.decode(opened.document))
    return _with_plan(one, url=url, plan=_shown(planned), is_overtaken=_digest(planned) != one.plan)


@endpoint.post(f"{_PROPOSAL}/apply", caller=OWNER_IN_PERSON, step_up=StepUp.ACCOUNT, limit=DOCUMENTS, refuses=(Conflict,), tags=_TAGS)
async def apply_proposal(call: Call[ProposalSeen, None, ProposalPath, Member], postern: Postern) -> ConfigurationApplied:
    """Apply a proposal

    Once, and exactly as it was planned: send the `digest` of the proposal. If the plan is another one by now, nothing is done, and the
    response is 409. Each change is then made as by a request to its own endpoint. Only an owner can do this after recent reauthentication.
    """
    proposals, wanted = postern.platform.proposals, ProposalId(call.path.proposal_id)
    opened = await proposals.get(call.caller, wanted)
    if opened.document is None:
        raise Conflict("This proposal was applied already", words="proposal_applied")
    configuring = Configuring(DocumentCaller(postern, call.request, call.caller))
    planned = await configuring.plan(msgspec.json.decode(opened.document), without_secrets)
    if call.body.digest != _digest(planned):
        raise ProposalOvertaken
    await proposals.take(call.caller, wanted, call.body.digest, call.actor)
    return applied_record(planned, await configuring.apply(planned))


@endpoint.delete(_PROPOSAL, caller=_VIEW, limit=UNLIMITED, status=204, tags=_TAGS)
async def delete_proposal(call: Call[None, None, ProposalPath, Member], postern: Postern) -> NoBody:
    """Withdraw a proposal

    Its link leads nowhere from then on. What an owner has applied stays.
    """
    await postern.platform.proposals.delete(call.caller, ProposalId(call.path.proposal_id), call.actor)
    return NO_BODY


def without_secrets(_steps: tuple[str, ...], value: Any) -> Secret | None:
    """A proposal holds no secret: it would lie in the database, and in the program that proposes."""
    if value is msgspec.UNSET:
        raise LookupError
    if value is None:
        return None
    raise ValueError("a proposal cannot contain secrets: propose the rest, and ask a person to set this one")


async def _planned(call: Call[Any, Any, Any, Member], postern: Postern, document: Any) -> Planned:
    return await Configuring(DocumentCaller(postern, call.request, call.caller)).plan(document, without_secrets)


def _shown(planned: Planned) -> ConfigurationPlan:
    return plan_record(planned, says_what_ends=True)


def _digest(planned: Planned) -> str:
    return plan_digest(msgspec.to_builtins(_shown(planned)), planned.losses)


def _url(call: Call[Any, Any, Any, Member], postern: Postern, proposal: Proposal) -> str:
    return postern.foundation.links.proposal(call.caller.organization_slug, proposal.id)


_record = shown(Proposal, ProposalRecord, given=("url",), named={"digest": "plan"})
_with_plan = shown(Proposal, ProposalWithPlan, given=("url", "plan", "is_overtaken"), named={"digest": "plan"})
