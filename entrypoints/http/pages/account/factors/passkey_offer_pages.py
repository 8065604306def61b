"""`/ui/passkey-offer`: the last page of a sign-in by a password offers a passkey, to people whose browser can make one. Whatever the answer
is, the sign-in goes on.
"""

from typing import Annotated, Final

import msgspec

from core.domain.errors import BadRequest, Conflict, RateLimited, Refusal
from core.domain.identity.flows import Flow, FlowOver
from core.domain.identity.proofs import StepUp
from core.frozen import replace
from entrypoints.bootstrap import Postern
from entrypoints.http.machinery.answers import Answer, redirect
from entrypoints.http.machinery.browsers import BROWSER, BoundForm, token_for
from entrypoints.http.machinery.calls import Call
from entrypoints.http.machinery.limits import CREDENTIALS, PAGE_LOADS, PAGE_STEPS
from entrypoints.http.pages import shipped_pages
from entrypoints.http.pages.account import ADD_PASSKEY
from entrypoints.http.pages.account.factors.passkey_pages import NEW_PASSKEY_OPTIONS
from entrypoints.http.pages.authorization.authorization_pages import advice
from entrypoints.http.pages.declaring import IN_POPUP_WITH_PASSKEYS, page
from entrypoints.http.pages.flows import NO_ERRORS, PASSKEY_OFFER, AnyCall, FlowLink, Page, even_twice, flow_of, go_on, left
from entrypoints.http.pages.refusals import in_words
from entrypoints.http.pages.sign_in.passkey_pages import read
from entrypoints.http.passkeys import RegistrationCredential

_MADE: Final = f"{PASSKEY_OFFER}/passkey"
_NEVER: Final = "never"
_REFUSES: Final = (FlowOver,)


class OfferForm(BoundForm, frozen=True, kw_only=True):
    flow: str = ""
    answer: Annotated[str, msgspec.Meta(pattern="^(later|never)?$")] = ""


class OfferedPasskeyForm(BoundForm, frozen=True, kw_only=True):
    flow: str = ""
    credential: str = ""
    """The browser's new credential, as JSON."""


@page.get(PASSKEY_OFFER, caller=BROWSER, limit=PAGE_LOADS, policy=IN_POPUP_WITH_PASSKEYS, advice=advice, refuses=_REFUSES)
async def show_passkey_offer(call: Call[None, FlowLink], postern: Postern) -> Page:
    """Offer a passkey to a person who has signed in by a password"""
    flow = await flow_of(call, postern, call.query.flow)
    if not await postern.identity.passkey_offers.make(flow, call.caller):
        # A form has led here, so another site is left for by a page.
        return left(call, flow, await go_on(call, postern, _over(flow), call.caller), behind_form=True)
    return Answer(_page(call, postern, flow), 200)


@page.post(PASSKEY_OFFER, caller=BROWSER, limit=PAGE_STEPS, policy=IN_POPUP_WITH_PASSKEYS, advice=advice, refuses=_REFUSES)
async def decline_passkey_offer(call: Call[OfferForm], postern: Postern) -> Page:
    """Go on without a passkey, for now or for good"""
    form = call.body

    async def answered(flow: Flow) -> Page:
        await postern.identity.passkey_offers.answer(flow, call.caller, never_again=form.answer == _NEVER)
        return await go_on(call, postern, _over(flow), call.caller)

    return await even_twice(call, postern, form.flow, answered)


@page.get(_MADE, caller=BROWSER, limit=PAGE_LOADS, policy=IN_POPUP_WITH_PASSKEYS, step_up=StepUp.ACCOUNT)
def go_to_new_passkey(_call: Call, _postern: Postern) -> Page:
    """Lead a person who had to prove themselves once more to the page that adds a passkey"""
    return redirect(ADD_PASSKEY)


@page.post(
    _MADE,
    caller=BROWSER,
    limit=CREDENTIALS,
    policy=IN_POPUP_WITH_PASSKEYS,
    step_up=StepUp.ACCOUNT,
    advice=advice,
    refuses=(*_REFUSES, RateLimited),
)
async def add_offered_passkey(call: Call[OfferedPasskeyForm], postern: Postern) -> Page:
    """Add the passkey that was offered, and go on"""
    form, passkeys = call.body, postern.identity.passkeys

    async def made(flow: Flow) -> Page:
        try:
            given = read(form.credential, RegistrationCredential).registration()
        except BadRequest as refusal:
            return Answer(_page(call, postern, flow, refusal), 400)
        try:
            await passkeys.add(call.caller, given, "", call.actor)
        except (BadRequest, Conflict) as refusal:
            if not await passkeys.was_just_added(call.caller.user, given):
                return Answer(_page(call, postern, flow, refusal), 400)
        await postern.identity.passkey_offers.answer(flow, call.caller)
        return await go_on(call, postern, _over(flow), call.caller)

    return await even_twice(call, postern, form.flow, made)


def _over(flow: Flow) -> Flow:
    """Memberships were asked for before this page."""
    return replace(flow, offers_passkey=False, asked_memberships=True)


def _page(call: AnyCall, postern: Postern, flow: Flow, refusal: Refusal | None = None) -> bytes:
    words = shipped_pages().text(call.language)
    return shipped_pages().page(
        "account/factors/passkey_offer.html",
        call.language,
        brand=flow.branding,
        action=PASSKEY_OFFER,
        made=_MADE,
        options=NEW_PASSKEY_OPTIONS,
        flow=str(flow.id),
        form_token=token_for(BROWSER, call.request, postern),
        errors=NO_ERRORS if refusal is None else {"": in_words(refusal, words)},
    )
