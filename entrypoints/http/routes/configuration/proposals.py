"""Proposals: a client without the right to apply, such as `postern mcp`, plans a configuration file, and an owner applies exactly that
plan.
"""

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
    """The document to propose."""

    document: Annotated[dict[Word, Any], example(_TREE)]
    """The document: `postern: 1`, and `organizations` with only this organization. It cannot contain secrets."""


class ProposalSeen(msgspec.Struct, frozen=True, kw_only=True):
    """The plan that the owner has seen."""

    digest: Annotated[_PlanDigest, bounded({"minLength": 64, "maxLength": 64})]
    """The digest of the plan, as in the proposal."""


class ProposalRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A proposal, without its document."""

    id: Id
    url: Annotated[str, example("https://id.example.com/ui/o/acme/settings/proposals/0199c3f2-4f0e-7a51-9a3d-0d6c1f2b3a4c")]
    """The URL of the page on which an owner can apply the proposal. Only owners can open the page."""
    state: ProposalState
    """Whether the proposal awaits an owner, or an owner has applied it."""
    document: Annotated[str, example("5f70bf18a086007016e948b04aed3b82103a36bea41755b6cddfaf10ace3c6ef")]
    """The digest of the document."""
    digest: _PlanDigest
    """The digest of the plan. Send it to apply the proposal."""
    proposed_by: Annotated[str, example("Assistant")]
    """The email address of the person, or the name of the management API key, that created the proposal."""
    expires_at: datetime
    """When the proposal expires: 1 day after its creation."""
    created_at: CreatedAt
    enacted_at: datetime | None
    """When an owner applied the proposal; null if none did."""


class ProposalWithPlan(ProposalRecord, frozen=True, kw_only=True):
    """A proposal, and its current plan."""

    plan: ConfigurationPlan | None
    """The current plan; null once the proposal is applied."""
    is_overtaken: Annotated[bool, example(False)]
    """Whether the current plan differs from the proposed one. If so, the proposal cannot be applied."""


class ProposalList(msgspec.Struct, frozen=True):
    """The proposals of the last day."""

    proposals: Sequence[ProposalRecord]
    """The proposals, the newest first."""
    total: Total


@endpoint.post(_PROPOSALS, caller=_MAKE, keys=True, limit=DOCUMENTS, status=201, refuses=(BadRequest, Conflict), accepts=_BODY, tags=_TAGS)
async def create_proposal(call: Call[NewProposal, None, OrganizationPath, Member], postern: Postern) -> ProposalWithPlan:
    """Create a proposal

    Propose a document to the owners. Nothing changes. The document is planned like at the endpoint for plans, and kept for 1 day. Send the
    `url` in the response to an owner. On that page the owner sees the plan, and applies exactly this plan after recent reauthentication. If
    any part of the plan has changed by then, nothing is applied. A document with problems, without changes, or with more than 200 changes
    is rejected. An organization can have at most 20 pending proposals.
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
    """List the proposals of an organization

    Return the proposals of the last day, the newest first, including applied ones. A proposal is valid while the management API key or the
    person that created it can still create proposals. It is removed if the key is revoked or expires, or if the person leaves, is
    deactivated or loses permissions.
    """
    found = await postern.platform.proposals.list(call.caller)
    return ProposalList([_record(one, url=_url(call, postern, one)) for one in found], len(found))


@endpoint.get(_PROPOSAL, caller=_VIEW, keys=True, limit=DOCUMENTS, tags=_TAGS)
async def get_proposal(call: Call[None, None, ProposalPath, Member], postern: Postern) -> ProposalWithPlan:
    """Get a proposal

    Return the proposal with its current plan, made again for you. With `is_overtaken`, this plan differs from the proposed one.
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

    A proposal can be applied once, and exactly as planned. Send the `digest` of the proposal; if the plan has changed since, nothing is
    applied, and the response is 409. Each change applies like a request to the object's own endpoint. Only an owner can do this, after
    recent reauthentication.
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

    Its link no longer works. Changes that an owner has applied are kept.
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
