"""Terms on the pages: asked after a sign-in, and in the person's account.

`/ui/accept-terms`: a page after the sign-in, and before whatever the sign-in leads to, that asks a person to accept terms.

`/ui/terms`: the terms that a person has accepted, and those that wait.
"""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final
from uuid import UUID

from core.domain.errors import Conflict, NotFound
from core.domain.identifiers import TermsId
from core.domain.identity.flows import Flow, FlowOver
from core.domain.identity.terms import PendingTerms, another_version
from core.frozen import replace
from entrypoints.bootstrap import Postern
from entrypoints.http.machinery.answers import Answer, redirect
from entrypoints.http.machinery.browsers import BROWSER, HOME, TERMS, BoundForm, token_for
from entrypoints.http.machinery.calls import Call
from entrypoints.http.machinery.fields import Line
from entrypoints.http.machinery.limits import PAGE_LOADS, PAGE_STEPS
from entrypoints.http.pages.account import Done, back_to, show
from entrypoints.http.pages.authorization.authorization_pages import LEAVING, advice, form_of
from entrypoints.http.pages.kit import shipped_pages
from entrypoints.http.pages.kit.declaring import WITH_FORM, in_words, page
from entrypoints.http.pages.kit.flows import ACCEPT_TERMS, AnyCall, FlowLink, Page, even_twice, flow_of, go_on, own_place


def shown_in(pending: Sequence[PendingTerms]) -> str:
    """What a page shows, for its form: whoever sends it accepts exactly these versions."""
    return " ".join(str(one.id) for one in pending)


def shown_terms(text: str) -> Sequence[TermsId]:
    """The versions in the form. Raises `Conflict` for a form that shows none."""
    try:
        shown = [TermsId(UUID(one)) for one in text.split()[:_MOST]]
    except ValueError:
        shown = []
    if not shown:
        raise another_version()
    return shown


# More than anybody is asked for on one page.
_MOST = 1000


_LATER: Final = "later"
_NO_ERRORS: Final[Mapping[str, str]] = MappingProxyType({})


class AcceptForm(BoundForm, frozen=True, kw_only=True):
    flow: Line
    terms: Line = ""
    """The versions that the page has shown."""
    answer: Line = ""


@page.get(ACCEPT_TERMS, caller=BROWSER, limit=PAGE_LOADS, policy=LEAVING, advice=advice, refuses=(FlowOver,))
async def show_terms_to_accept(call: Call[None, FlowLink], postern: Postern) -> Page:
    """Ask a person to accept terms"""
    flow = await flow_of(call, postern, call.query.flow)
    pending = await postern.identity.terms.pending(call.caller.user, flow.organization)
    if not pending:
        return await _onward(call, postern, flow)
    return Answer(_page(call, postern, flow, pending), 200)


@page.post(ACCEPT_TERMS, caller=BROWSER, limit=PAGE_STEPS, policy=LEAVING, advice=advice, refuses=(FlowOver, NotFound))
async def answer_terms(call: Call[AcceptForm], postern: Postern) -> Page:
    """Accept terms, or go on without as long as there is time

    A form that is sent twice finds nothing left to accept, and goes on.
    """
    form, terms = call.body, postern.identity.terms

    async def answered(flow: Flow) -> Page:
        errors: Mapping[str, str] = _NO_ERRORS
        if form.answer != _LATER:
            try:
                await terms.accept_shown(call.caller, shown_terms(form.terms), call.actor, flow.organization)
            except Conflict as refusal:
                errors = {"": in_words(refusal, shipped_pages().text(call.language))}
        pending = await terms.pending(call.caller.user, flow.organization)
        if errors or _stopped(flow, pending):
            return Answer(_page(call, postern, flow, pending, errors), 409 if errors else 403)
        return await _onward(call, postern, flow)

    return await even_twice(call, postern, form.flow, answered)


def _stopped(flow: Flow, pending: Sequence[PendingTerms]) -> bool:
    return any(one.stops(flow.organization) for one in pending)


async def _onward(call: AnyCall, postern: Postern, flow: Flow) -> Page:
    if flow.owes_terms and not flow.repeats:
        await postern.identity.terms.pass_on(flow)
    return await go_on(call, postern, replace(flow, owes_terms=False), call.caller)


def _page(call: AnyCall, postern: Postern, flow: Flow, pending: Sequence[PendingTerms], errors: Mapping[str, str] = _NO_ERRORS) -> bytes:
    return shipped_pages().page(
        "account/terms/accept_terms.html",
        call.language,
        brand=flow.branding,
        action=form_of(ACCEPT_TERMS, flow),
        flow=str(flow.id),
        form_token=token_for(BROWSER, call.request, postern),
        pending=pending,
        shown=shown_in(pending),
        stopped=_stopped(flow, pending),
        email=call.caller.email.address,
        person_name=call.caller.profile.shown_name or "",
        errors=errors,
    )


class TermsLink(Done, frozen=True):
    to: Line = ""
    """The page of ours that was closed until the person accepts."""
    organization: Line = ""
    """The organization that the page belongs to. The person may have no tie to it yet."""


class OwnTermsForm(BoundForm, frozen=True, kw_only=True):
    terms: Line = ""
    """The versions that the page has shown."""
    to: Line = ""
    organization: Line = ""


@page.get(TERMS, caller=BROWSER, limit=PAGE_LOADS, policy=WITH_FORM)
async def show_own_terms(call: Call[None, TermsLink], postern: Postern) -> bytes:
    """See the terms that you have accepted, and those that wait"""
    return await _page_own_terms_page(call, postern, call.query, done="terms.done" if call.query.done == "accepted" else "")


@page.post(TERMS, caller=BROWSER, limit=PAGE_LOADS, policy=WITH_FORM, refuses=(NotFound,))
async def accept_own_terms(call: Call[OwnTermsForm], postern: Postern) -> Page:
    """Accept terms, and go back to the page that was closed"""
    try:
        await postern.identity.terms.accept_shown(call.caller, shown_terms(call.body.terms), call.actor)
    except Conflict as refusal:
        return Answer(await _page_own_terms_page(call, postern, call.body, refusal=refusal), 409)
    place = own_place(call.body.to)
    return back_to(TERMS, "accepted") if place == HOME else redirect(place)


async def _page_own_terms_page(
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
