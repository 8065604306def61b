"""`/ui/setup/of/{link_id}`: what the link is for, how far each part is, and the steps that all parts share."""

from collections.abc import Sequence
from typing import Final

import msgspec

from core.domain.errors import BadRequest, Conflict
from core.domain.tenancy.setup import KnownSetupLink, SetupDraft, SetupDraftState, SetupPurpose
from entrypoints.bootstrap import Postern
from entrypoints.http.machinery.answers import redirect
from entrypoints.http.machinery.browsers import BoundForm
from entrypoints.http.machinery.calls import Call
from entrypoints.http.machinery.limits import CREDENTIALS, PAGE_LOADS, PAGE_STEPS
from entrypoints.http.pages import shipped_pages
from entrypoints.http.pages.declaring import WITH_FORM, page
from entrypoints.http.pages.refusals import in_words
from entrypoints.http.pages.setup import PLACE, REFUSED, REFUSED_FORM, Page, SetupPartPath, SetupPath, advice, draft_of, place, show
from entrypoints.http.pages.setup.visitors import SETUP_VISITOR

_ONE: Final = f"{PLACE}/drafts/{{draft_id}}"
NOT_BEGUN: Final = "none"


class SetupOutcome(msgspec.Struct, frozen=True):
    done: str = ""


@page.get(PLACE, caller=SETUP_VISITOR, limit=PAGE_LOADS, policy=WITH_FORM, advice=advice, refuses=REFUSED)
async def show_setup_overview(call: Call[None, None, SetupPath, KnownSetupLink], postern: Postern) -> Page:
    """Show what a set-up link is for, and how far it is"""
    known = call.caller
    drafts = await postern.tenancy.setup_drafts.list(known.link.id)
    parts = [(purpose.value, state_of(purpose, drafts), place(known, f"/{purpose.value}")) for purpose in known.link.purposes]
    return show(call, postern, "overview.html", parts=parts)


@page.post(f"{_ONE}/finish", caller=SETUP_VISITOR, limit=CREDENTIALS, policy=WITH_FORM, advice=advice, refuses=REFUSED_FORM)
async def finish_setup_draft(call: Call[BoundForm, None, SetupPartPath, KnownSetupLink], postern: Postern) -> Page:
    """Hand over what was set up, or make it active"""
    known = call.caller
    draft = draft_of(await postern.tenancy.setup_drafts.list(known.link.id), call.path.draft_id)
    try:
        await postern.tenancy.setup_drafts.hand_over(known, draft.id, call.actor)
    except (BadRequest, Conflict) as refusal:
        said = in_words(refusal, shipped_pages().text(call.language))
        return show(call, postern, "stopped.html", status=409, said=said, words=refusal.words, back=_page_of(known, draft))
    return redirect(_page_of(known, draft))


@page.post(f"{_ONE}/remove", caller=SETUP_VISITOR, limit=PAGE_STEPS, policy=WITH_FORM, advice=advice, refuses=REFUSED_FORM)
async def remove_setup_draft(call: Call[BoundForm, None, SetupPartPath, KnownSetupLink], postern: Postern) -> Page:
    """Drop what was set up, to begin anew"""
    known = call.caller
    draft = draft_of(await postern.tenancy.setup_drafts.list(known.link.id), call.path.draft_id)
    await postern.tenancy.setup_drafts.remove(known, draft.id, call.actor)
    return redirect(place(known, f"/{draft.purpose.value}"))


def state_of(purpose: SetupPurpose, drafts: Sequence[SetupDraft]) -> str:
    """The state of a part, in the words of the texts: that of its draft which is least far."""
    states = [draft.state for draft in drafts if draft.purpose is purpose]
    return next((state.value for state in SetupDraftState if state in states), NOT_BEGUN)


def _page_of(known: KnownSetupLink, draft: SetupDraft) -> str:
    more = f"/{draft.id}" if draft.purpose is SetupPurpose.DOMAIN else ""
    return place(known, f"/{draft.purpose.value}{more}")
