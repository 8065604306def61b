"""`/ui/terms`: the terms that a person has accepted, and those that wait."""

from core.domain.errors import Conflict, NotFound
from entrypoints.bootstrap import Postern
from entrypoints.http.machinery.answers import Answer, redirect
from entrypoints.http.machinery.browsers import BROWSER, HOME, TERMS, BoundForm
from entrypoints.http.machinery.calls import Call
from entrypoints.http.machinery.limits import PAGE_LOADS
from entrypoints.http.pages.account import AnyCall, Done, Page, back_to, show
from entrypoints.http.pages.account.terms import shown_terms
from entrypoints.http.pages.declaring import WITH_FORM, page
from entrypoints.http.pages.flows import own_place


class TermsLink(Done, frozen=True):
    to: str = ""
    """The page of ours that was closed until the person accepts."""
    organization: str = ""
    """The organization that the page belongs to. The person may have no tie to it yet."""


class OwnTermsForm(BoundForm, frozen=True, kw_only=True):
    terms: str = ""
    """The versions that the page has shown."""
    to: str = ""
    organization: str = ""


@page.get(TERMS, caller=BROWSER, limit=PAGE_LOADS, policy=WITH_FORM)
async def show_own_terms(call: Call[None, TermsLink], postern: Postern) -> bytes:
    """See the terms that you have accepted, and those that wait"""
    return await _page(call, postern, call.query, done="terms.done" if call.query.done == "accepted" else "")


@page.post(TERMS, caller=BROWSER, limit=PAGE_LOADS, policy=WITH_FORM, refuses=(NotFound,))
async def accept_own_terms(call: Call[OwnTermsForm], postern: Postern) -> Page:
    """Accept terms, and go back to the page that was closed"""
    try:
        await postern.identity.terms.accept_shown(call.caller, shown_terms(call.body.terms), call.actor)
    except Conflict as refusal:
        return Answer(await _page(call, postern, call.body, refusal=refusal), 409)
    place = own_place(call.body.to)
    return back_to(TERMS, "accepted") if place == HOME else redirect(place)


async def _page(
    call: AnyCall, postern: Postern, shown_for: TermsLink | OwnTermsForm, *, done: str = "", refusal: Conflict | None = None
) -> bytes:
    own = await postern.identity.terms.own(call.caller.user, shown_for.organization)
    leads = {"to": own_place(shown_for.to)} if shown_for.to else {}
    return show(
        call,
        postern,
        "terms/own_terms.html",
        TERMS,
        own=own,
        hidden={**leads, "organization": shown_for.organization} if shown_for.organization else leads,
        done=done,
        errors={} if refusal is None else {"": refusal},
    )
