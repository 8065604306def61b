"""`/ui/provider-address`: whom only a further provider of the installation knows says the address of the new account, and shows by a mailed
code that it is theirs. The pages are the same for an address that has an account, until the code is right.
"""

from collections.abc import Mapping
from typing import Final

from core.domain.errors import BadRequest, RateLimited, Unauthorized
from core.domain.identity.account_mails import LONGEST_TYPED_CODE, read_code
from core.domain.identity.callers import Caller
from core.domain.identity.flows import Flow, FlowOver
from core.domain.identity.realms import ProviderRequired
from core.domain.identity.registering import RegistrationClosed
from core.domain.identity.upstream.providers import ProviderOff, UnknownProvider
from core.domain.identity.upstream.sign_in import UpstreamRefused
from entrypoints.bootstrap import Postern
from entrypoints.http.machinery.answers import Answer
from entrypoints.http.machinery.browsers import IN_FLOW, SIGN_IN, FlowForm, token_for
from entrypoints.http.machinery.calls import Call
from entrypoints.http.machinery.errors import headers_of
from entrypoints.http.machinery.fields import email_field
from entrypoints.http.machinery.limits import PAGE_LOADS, PAGE_SIGN_INS, REGISTER, UNLIMITED
from entrypoints.http.pages import shipped_pages
from entrypoints.http.pages.declaring import IN_POPUP, page
from entrypoints.http.pages.flows import (
    NEWCOMER,
    NO_ERRORS,
    SECOND_FACTOR,
    AnyCall,
    FlowLink,
    Page,
    flow_of,
    signed_in,
    to,
    visit,
)
from entrypoints.http.pages.refusals import in_words
from entrypoints.http.pages.sign_in.sign_in_pages import once_over, sign_in_again, when_over

NEWCOMER_CODE: Final = f"{NEWCOMER}/code"


class NewcomerForm(FlowForm, frozen=True, kw_only=True):
    email: str = ""


class NewcomerCodeForm(FlowForm, frozen=True, kw_only=True):
    code: str = ""


@page.get(NEWCOMER, caller=IN_FLOW, limit=PAGE_LOADS, policy=IN_POPUP, refuses=(FlowOver, ProviderOff, UnknownProvider))
async def show_newcomer(call: Call[None, FlowLink, None, Caller | None], postern: Postern) -> Page:
    """Ask for the address of the account that a provider's word makes"""
    flow = await flow_of(call, postern, call.query.flow)
    over = await when_over(call, postern, flow)
    return over or Answer(await _address_page(call, postern, flow), 200)


@page.post(NEWCOMER, caller=IN_FLOW, limit=REGISTER, policy=IN_POPUP, refuses=(FlowOver, ProviderOff, UnknownProvider, RateLimited))
async def send_newcomer(call: Call[NewcomerForm, None, None, Caller | None], postern: Postern) -> Page:
    """Mail a code to the address, whether or not an account has it"""
    flow, text = await flow_of(call, postern, call.body.flow), shipped_pages().text(call.language)
    over = await when_over(call, postern, flow)
    if over is not None:
        return over
    typed = call.body.email.strip()
    try:
        email = email_field(typed, postern.foundation.email_syntax)
    except BadRequest:
        return Answer(await _address_page(call, postern, flow, typed, {"email": text("sign_in.no_address")}), 400)
    try:
        await postern.identity.newcomers.send_code(flow, email, call.client)
    except (FlowOver, ProviderOff, UnknownProvider):
        raise
    except (BadRequest, RegistrationClosed) as refusal:
        return Answer(await _address_page(call, postern, flow, typed, {"email": in_words(refusal, text)}), 400)
    except RateLimited as refusal:
        page_ = await _address_page(call, postern, flow, typed, {"": in_words(refusal, text)})
        return Answer(page_, 429, headers_of(refusal))
    return to(NEWCOMER_CODE, flow)


@page.get(NEWCOMER_CODE, caller=IN_FLOW, limit=PAGE_LOADS, policy=IN_POPUP, refuses=(FlowOver, ProviderOff, UnknownProvider))
async def show_newcomer_code(call: Call[None, FlowLink, None, Caller | None], postern: Postern) -> Page:
    """Ask for the code that was mailed to the address"""
    flow = await flow_of(call, postern, call.query.flow)
    over = await when_over(call, postern, flow)
    return over or Answer(await _code_page(call, postern, flow), 200)


@page.post(
    NEWCOMER_CODE,
    caller=IN_FLOW,
    limit=UNLIMITED,
    attempt=PAGE_SIGN_INS,
    policy=IN_POPUP,
    refuses=(FlowOver, ProviderOff, UnknownProvider, RateLimited, ProviderRequired),
)
async def send_newcomer_code(call: Call[NewcomerCodeForm, None, None, Caller | None], postern: Postern) -> Page:
    """Make the account with the code from the mail, and sign in"""
    flow = await flow_of(call, postern, call.body.flow)
    try:
        code = read_code(call.body.code)
        arrival = await postern.identity.newcomers.make(flow, code, call.client)
        entered = await postern.identity.browser_sessions.sign_in_with_proof(visit(call, postern, flow), code, arrival)
    except FlowOver:
        return await once_over(call, postern, await flow_of(call, postern, call.body.flow))
    except (UpstreamRefused, ProviderOff, UnknownProvider, ProviderRequired, Unauthorized) as refusal:
        return sign_in_again(call, postern, flow, refusal)
    except BadRequest as refusal:
        said = in_words(refusal, shipped_pages().text(call.language))
        return Answer(await _code_page(call, postern, flow, {"code": said}), 400)
    return to(SECOND_FACTOR, flow) if entered is None else await signed_in(call, postern, flow, entered)


async def _address_page(
    call: AnyCall, postern: Postern, flow: Flow, typed: str | None = None, errors: Mapping[str, str] = NO_ERRORS
) -> bytes:
    newcomer = await postern.identity.newcomers.get(flow)
    return shipped_pages().page(
        "newcomers/newcomer.html",
        call.language,
        brand=flow.branding,
        action=NEWCOMER,
        provider=newcomer.provider,
        email=newcomer.sent_to or newcomer.stated if typed is None else typed,
        is_stated=newcomer.stated != "",
        flow=str(flow.id),
        form_token=token_for(IN_FLOW, call.request, postern, str(flow.id)),
        errors=errors,
        sign_in=f"{SIGN_IN}?flow={flow.id}",
    )


async def _code_page(call: AnyCall, postern: Postern, flow: Flow, errors: Mapping[str, str] = NO_ERRORS) -> bytes:
    newcomer = await postern.identity.newcomers.get(flow)
    return shipped_pages().page(
        "newcomers/newcomer_code.html",
        call.language,
        brand=flow.branding,
        action=NEWCOMER_CODE,
        email=newcomer.sent_to,
        longest=LONGEST_TYPED_CODE,
        flow=str(flow.id),
        form_token=token_for(IN_FLOW, call.request, postern, str(flow.id)),
        errors=errors,
        again=f"{NEWCOMER}?flow={flow.id}",
    )
