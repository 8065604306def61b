"""Proposals: what a program would change, for an owner who applies exactly that by one press."""

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from core.domain.platform.configuration.planning import MOST_CHANGES, PlannedAction, ProposalState
from entrypoints.http.console.kit.cells import Tone, code, plain, state, when
from entrypoints.http.console.kit.resource_pages import pages
from entrypoints.http.console.kit.resources import Act, Ending, Resource
from entrypoints.http.console.kit.visit import PageVisit
from entrypoints.http.console.organization import organization_tabs as tabs
from entrypoints.http.routes.configuration.proposals import apply_proposal, delete_proposal, get_proposal, list_proposals
from entrypoints.invisible_characters import seen
from ports.texts import Text

_STATES: Final = {
    ProposalState.WAITING: ("console.proposals.waiting", Tone.WARN),
    ProposalState.APPLIED: ("console.proposals.applied", Tone.GOOD),
}
_FROM: Final = (plain("proposed_by", "console.proposals.proposed_by"), code("digest", "console.proposals.plan"))


def _beginning(one: Any) -> str:
    return str(one.digest[:12])


def _can_be_applied(one: Any) -> bool:
    """The press is for what the page shows, and for nothing else."""
    is_whole = one.plan is not None and not one.plan.problems and len(one.plan.changes) <= MOST_CHANGES
    return is_whole and one.state is ProposalState.WAITING and not one.is_overtaken


async def _plan(_visit: PageVisit, one: Any) -> Mapping[str, Any]:
    if one.plan is None:
        return {"is_overtaken": one.is_overtaken, "problems": (), "changes": (), "more": 0, "losses": ()}
    return {
        "is_overtaken": one.is_overtaken,
        "problems": [(problem.place, problem.message) for problem in one.plan.problems],
        "changes": [
            (change.act, change.place, [(field.name, *_before_and_after(change.act, field)) for field in change.fields])
            for change in one.plan.changes[:MOST_CHANGES]
        ],
        # Only of a plan that has grown since, which nobody can apply.
        "more": max(0, len(one.plan.changes) - MOST_CHANGES),
        "losses": [(loss.place, loss.what, loss.people) for loss in one.plan.losses],
    }


def _before_and_after(act: PlannedAction, field: Any) -> tuple[Sequence[str], Sequence[str]]:
    return (
        () if act is PlannedAction.MAKE else _said(field.before),
        () if act is PlannedAction.END else _said(field.after),
    )


def _said(value: Any) -> Sequence[str]:
    """The value whole, as JSON: a list as its items. What nobody sees is written out, by its number."""
    return [seen(json.dumps(one, ensure_ascii=False)) for one in (value if isinstance(value, list | tuple) and value else [value])]


def _outcome(applied: Any, _: Text) -> tuple[bool, str]:
    refused = "; ".join(f"{one.place}: {one.message}" for one in applied.refused)
    return not applied.refused, refused or ", ".join(one.place for one in applied.done)


PROPOSALS: Final = Resource(
    name="proposals",
    position=tabs.position(tabs.SETTINGS_ENTRY, tabs.PROPOSALS_TAB),
    at=tabs.PROPOSALS,
    listed=list_proposals,
    rows="proposals",
    columns=(
        code(_beginning, "console.proposals.plan"),
        plain("proposed_by", "console.proposals.proposed_by"),
        state("state", _STATES),
        when("created_at"),
        when("expires_at"),
        when("enacted_at", "console.proposals.applied_at"),
    ),
    parameter="proposal_id",
    called=_beginning,
    titled=lambda visit, one: visit.text("console.proposals.named", called=_beginning(one)),
    record=get_proposal,
    state=(lambda one: one.state, _STATES.__getitem__),
    facts=(
        *_FROM,
        when("created_at"),
        when("expires_at"),
        when("enacted_at", "console.proposals.applied_at"),
    ),
    acts=(
        Act(
            "apply",
            apply_proposal,
            asks=True,
            kind="",
            shows=_can_be_applied,
            facts=_FROM,
            seen=lambda one: str(one.digest),
            said=_outcome,
            template="organization/proposals/apply.html",
            more=_plan,
        ),
    ),
    ending=Ending(delete_proposal),
    template="organization/proposals/proposal.html",
    more=_plan,
)

PAGES: Final = pages(PROPOSALS)
