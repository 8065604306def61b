"""Proposals: what a program would change, for an owner who applies exactly that by one press."""

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from core.domain.platform.configuration.planning import PlannedAction
from core.domain.platform.configuration.proposals import ProposalState
from entrypoints.http.pages.console.cells import Tone, code, listed, plain, state, when
from entrypoints.http.pages.console.organization import organization_tabs as tabs
from entrypoints.http.pages.console.resource_pages import pages
from entrypoints.http.pages.console.resources import Act, Ending, Resource
from entrypoints.http.pages.console.visit import PageVisit
from entrypoints.http.routes.configuration.proposals import apply_proposal, delete_proposal, get_proposal, list_proposals

_STATES: Final = {
    ProposalState.WAITING: ("console.proposals.waiting", Tone.WARN),
    ProposalState.APPLIED: ("console.proposals.applied", Tone.GOOD),
}
_LONGEST: Final = 300
_MOST_SHOWN: Final = 200
"""Of the changes of one plan. Somebody who applies more has to read the document itself."""


def _beginning(one: Any) -> str:
    return str(one.digest[:12])


def _can_be_applied(one: Any) -> bool:
    return one.state is ProposalState.WAITING and not one.is_overtaken


def _changes(one: Any) -> Sequence[str]:
    """What the page that asks names again: each object once."""
    changes = () if one.plan is None else one.plan.changes
    more = [f"… + {len(changes) - _MOST_SHOWN}"] if len(changes) > _MOST_SHOWN else []
    return [*(f"{_SIGNS[change.act]} {change.place}" for change in changes[:_MOST_SHOWN]), *more]


def _losses(one: Any) -> Sequence[str]:
    return [] if one.plan is None else [" ".join(filter(None, (loss.place, loss.what))) for loss in one.plan.losses]


_SIGNS: Final = {PlannedAction.MAKE: "+", PlannedAction.CHANGE: "~", PlannedAction.END: "-"}


async def _plan(_visit: PageVisit, one: Any) -> Mapping[str, Any]:
    changes = () if one.plan is None else one.plan.changes
    return {
        "is_overtaken": one.is_overtaken,
        "problems": () if one.plan is None else [(problem.place, problem.message) for problem in one.plan.problems],
        "changes": [
            (
                change.act,
                change.place,
                [
                    (field.name, "" if change.act is PlannedAction.MAKE else _said(field.before), _said(field.after))
                    for field in change.fields
                ],
            )
            for change in changes[:_MOST_SHOWN]
        ],
        "more": max(0, len(changes) - _MOST_SHOWN),
        "losses": () if one.plan is None else [(loss.place, loss.what, loss.people) for loss in one.plan.losses],
    }


def _said(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"


def _outcome(applied: Any) -> tuple[bool, str]:
    refused = "; ".join(f"{one.place}: {one.message}" for one in applied.refused)
    return not applied.refused, refused or ", ".join(one.place for one in applied.done[:_MOST_SHOWN])


PROPOSALS: Final = Resource(
    name="proposals",
    position=tabs.position(tabs.SETTINGS_ENTRY, tabs.DOCUMENTS_TAB),
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
        plain("proposed_by", "console.proposals.proposed_by"),
        code("digest", "console.proposals.plan"),
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
            facts=(
                plain("proposed_by", "console.proposals.proposed_by"),
                listed(_changes, "console.proposals.changes"),
                listed(_losses, "console.proposals.losses"),
                code("digest", "console.proposals.plan"),
            ),
            seen=lambda one: str(one.digest),
            said=_outcome,
        ),
    ),
    ending=Ending(delete_proposal),
    crumbs=lambda visit: ((visit.text("console.documents.title"), visit.here(tabs.DOCUMENTS)),),
    template="organization/proposals/proposal.html",
    more=_plan,
)

PAGES: Final = pages(PROPOSALS)
