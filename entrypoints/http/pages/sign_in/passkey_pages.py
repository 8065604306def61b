"""`/ui/sign-in/passkey`: sign-in with a passkey, alone or after the password. The forms are on the pages of the sign-in, where a script
shows them. The script first asks for a challenge with the same form, so that showing a page writes nothing to the database.
"""

from collections.abc import Sequence
from typing import Final, TypeVar

import msgspec

from core.domain.errors import BadRequest, RateLimited, Refusal, Unauthorized
from core.domain.identity.callers import Caller
from core.domain.identity.flows import FlowOver, FlowPurpose, Wanted
from core.domain.identity.passkeys import Ceremony, PasskeyRefused
from core.domain.identity.realms import ProviderRequired
from core.usecases.identity.sign_in.admission import SignInEnded
from entrypoints.bootstrap import Postern
from entrypoints.http.machinery.answers import Answer
from entrypoints.http.machinery.browsers import IN_FLOW, SIGN_IN, FlowForm
from entrypoints.http.machinery.calls import Call
from entrypoints.http.machinery.fields import Line, Lines
from entrypoints.http.machinery.limits import PAGE_LOADS, PAGE_SIGN_INS, PAGE_STEPS, UNLIMITED
from entrypoints.http.pages.kit import shipped_pages
from entrypoints.http.pages.kit.declaring import IN_POPUP, IN_POPUP_WITH_PASSKEYS, in_words, page
from entrypoints.http.pages.kit.flows import (
    LOST_FACTOR,
    PASSKEY,
    SECOND_FACTOR,
    FlowLink,
    Page,
    browser_secret,
    flow_of,
    own_place,
    signed_in,
    to,
    visit,
)
from entrypoints.http.pages.sign_in.sign_in_pages import address_page, at_provider, code_page, once_over, password_page, when_over
from entrypoints.http.passkeys import AssertionCredential, PasskeySignal, request_options, unknown_signal

_JSON: Final = ((b"content-type", b"application/json"),)
_BY_PASSKEY: Final = f"{SECOND_FACTOR}/passkey"
Credential = TypeVar("Credential")


class PlaceForm(FlowForm, frozen=True, kw_only=True):
    to: Line = ""
    """The page of ours to come back to, if there is no flow yet."""
    credential: Lines = ""
    """The browser's credential, as JSON."""


class PasskeyForm(FlowForm, frozen=True, kw_only=True):
    credential: Lines = ""


@page.post(f"{PASSKEY}/options", caller=IN_FLOW, limit=PAGE_STEPS, policy=IN_POPUP, refuses=(BadRequest,))
async def sign_in_options(call: Call[PlaceForm, None, None, Caller | None], postern: Postern) -> Answer[bytes]:
    """Give the script a challenge for a sign-in"""
    browser, _ = browser_secret(call, postern)
    options = await postern.identity.passkey_proofs.options(Ceremony.SIGN_IN, browser.digest())
    return as_json(request_options(options))


@page.post(PASSKEY, caller=IN_FLOW, limit=UNLIMITED, attempt=PAGE_SIGN_INS, policy=IN_POPUP_WITH_PASSKEYS, refuses=(RateLimited,))
async def sign_in_with_own_passkey(call: Call[PlaceForm, None, None, Caller | None], postern: Postern) -> Page:
    """Sign in with a passkey"""
    form = call.body
    if form.flow:
        flow = await flow_of(call, postern, form.flow)
    else:
        browser, _ = browser_secret(call, postern)
        flow = await postern.identity.flows.begin(browser, FlowPurpose.ACCOUNT, {"to": own_place(form.to)}, Wanted())
    try:
        given = read(form.credential, AssertionCredential).assertion()
        entered = await postern.identity.browser_sessions.sign_in_with_passkey(await visit(call, postern, flow), given)
    except FlowOver:
        return await once_over(call, postern, flow)
    except ProviderRequired as refusal:
        return await at_provider(call, postern, flow, refusal)
    except (Unauthorized, BadRequest) as refusal:
        told = {"": in_words(refusal, shipped_pages().text(call.language))}
        return Answer(address_page(call, postern, flow, flow.email, told, signals=_signals(postern, form.credential, refusal)), 400)
    return await signed_in(call, postern, flow, entered)


@page.post(f"{_BY_PASSKEY}/options", caller=IN_FLOW, limit=PAGE_STEPS, policy=IN_POPUP, refuses=(BadRequest,))
async def second_factor_options(call: Call[PasskeyForm, None, None, Caller | None], postern: Postern) -> Answer[bytes]:
    """Give the script a challenge for the second factor"""
    flow = await flow_of(call, postern, call.body.flow)
    if not flow.awaits_second_factor:
        raise FlowOver
    browser, _ = browser_secret(call, postern)
    options = await postern.identity.passkey_proofs.options(Ceremony.SECOND_FACTOR, browser.digest(), flow.user)
    return as_json(request_options(options))


@page.post(_BY_PASSKEY, caller=IN_FLOW, limit=UNLIMITED, attempt=PAGE_SIGN_INS, policy=IN_POPUP_WITH_PASSKEYS, refuses=(RateLimited,))
async def send_passkey(call: Call[PasskeyForm, None, None, Caller | None], postern: Postern) -> Page:
    """Use a passkey after the password"""
    form = call.body
    flow = await flow_of(call, postern, form.flow)
    text = shipped_pages().text(call.language)
    try:
        given = read(form.credential, AssertionCredential).assertion()
        entered = await postern.identity.browser_sessions.sign_in_with_second_factor(await visit(call, postern, flow), given)
    except SignInEnded as refusal:
        return Answer(password_page(call, postern, flow, flow.email, {"": in_words(refusal, text)}), 400)
    except FlowOver:
        return await once_over(call, postern, flow)
    except (Unauthorized, BadRequest) as refusal:
        return Answer(code_page(call, postern, flow, {"": in_words(refusal, text)}), 400)
    return await signed_in(call, postern, flow, entered)


@page.get(LOST_FACTOR, caller=IN_FLOW, limit=PAGE_LOADS, policy=IN_POPUP)
async def show_lost_factor(call: Call[None, FlowLink, None, Caller | None], postern: Postern) -> Page:
    """Explain the help for a lost second factor"""
    flow = await flow_of(call, postern, call.query.flow)
    over = await when_over(call, postern, flow)
    if over is not None:
        return over
    back = to(SECOND_FACTOR if flow.awaits_second_factor else SIGN_IN, flow)
    place = next(value for name, value in back.headers if name == b"location").decode()
    return Answer(shipped_pages().page("sign_in/lost_factor.html", call.language, brand=flow.branding, back=place), 200)


def _signals(postern: Postern, credential: str, refusal: Refusal) -> Sequence[PasskeySignal]:
    """The browser learns that it need not offer a passkey any more whose key nobody here knows."""
    if not isinstance(refusal, PasskeyRefused) or not refusal.shows_no_key:
        return ()
    return (unknown_signal(postern.identity.passkeys.require_relying_party(), read(credential, AssertionCredential).id.rstrip("=")),)


def as_json(options: msgspec.Struct) -> Answer[bytes]:
    return Answer(msgspec.json.encode(options), 200, _JSON)


def read(text: str, kind: type[Credential]) -> Credential:
    """The credential that the script has put into the form. Raises `BadRequest`."""
    try:
        return msgspec.json.decode(text.encode("utf-8", "surrogatepass"), type=kind)
    except msgspec.MsgspecError as error:
        raise BadRequest("credential: not what a browser makes", words="passkey_refused", detail=str(error)) from None
