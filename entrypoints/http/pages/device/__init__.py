"""`/ui/device`: a person enters the code that a device shows, signs in, sees the access that the device asks for, and decides.

A link only fills in the field, even a link with the code. Only the form of the second page lets a device in, and only for a person who is
signed in. A stranger who sends people a code gains nothing unless they read that page and approve all the same.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, Literal
from uuid import UUID

import msgspec

from core.domain.errors import (
    Forbidden,
    NotFound,
    OrganizationNotActive,
    RateLimited,
    ReauthenticationRequired,
    SecondFactorRequired,
    TermsRequired,
)
from core.domain.federation.oauth.device_flow import (
    ACTIVATION_PAGE,
    LONGEST_USER_CODE,
    DeviceCodeExpired,
    UserCodeUnknown,
    as_shown,
    masked,
    unmasked,
)
from core.domain.federation.oauth.resources import NO_DEMAND, SignInDemand
from core.domain.identifiers import DeviceCodeId
from core.domain.identity.callers import Caller
from core.domain.identity.devices import Client
from core.domain.identity.flows import Flow, FlowOver, FlowPurpose, Prompt, Wanted, form_token
from core.domain.identity.proofs import Proved
from core.domain.identity.risk import Approach
from core.domain.rate_limits import client_key
from core.domain.secrets import Token
from core.frozen import replace
from entrypoints.bootstrap import Postern
from entrypoints.http.machinery.answers import Answer, redirect
from entrypoints.http.machinery.browsers import BROWSER, IN_FLOW, FlowForm, bound_to, terms_page, token_for
from entrypoints.http.machinery.calls import Call
from entrypoints.http.machinery.errors import Refused
from entrypoints.http.machinery.fields import Line
from entrypoints.http.machinery.limits import PAGE_LOADS, PAGE_STEPS, USER_CODES
from entrypoints.http.pages.account import set_up_first
from entrypoints.http.pages.authorization.authorization_pages import form_of
from entrypoints.http.pages.kit import account_of, shipped_pages
from entrypoints.http.pages.kit.declaring import WITH_FORM, Advised, WayOn, in_words, page, refused_page
from entrypoints.http.pages.kit.flows import (
    CONTINUATIONS,
    AnyCall,
    FlowLink,
    Page,
    ask_memberships,
    begin,
    browser_secret,
    flow_of,
    to,
    with_another_account,
)

_DECISION: Final = f"{ACTIVATION_PAGE}/decision"
_APPROVED: Final = f"{ACTIVATION_PAGE}/approved"
_DENIED: Final = f"{ACTIVATION_PAGE}/denied"
_REFUSED: Final = (FlowOver, NotFound, DeviceCodeExpired, OrganizationNotActive)
_NO_ERRORS: Final[Mapping[str, str]] = MappingProxyType({})


class DeviceLink(msgspec.Struct, frozen=True):
    user_code: Line = ""


class UserCodeForm(FlowForm, frozen=True, kw_only=True):
    user_code: Line = ""


class DecisionForm(FlowForm, frozen=True, kw_only=True):
    answer: Literal["approve", "deny", "another"]


def _advice(refused: Refused) -> str | Advised:
    if isinstance(refused, UserCodeUnknown | DeviceCodeExpired):
        return Advised("enter_code.advice", WayOn(ACTIVATION_PAGE, "enter_code.page"))
    return ""


@page.get(ACTIVATION_PAGE, caller=IN_FLOW, limit=PAGE_LOADS, policy=WITH_FORM)
async def show_device(call: Call[None, DeviceLink, None, Caller | None], postern: Postern) -> Page:
    """Ask for the code that a device shows"""
    browser, headers = browser_secret(call, postern)
    return Answer(_code_page(call, browser, call.query.user_code), 200, headers)


@page.post(
    ACTIVATION_PAGE,
    caller=IN_FLOW,
    limit=PAGE_STEPS,
    attempt=USER_CODES,
    policy=WITH_FORM,
    refuses=(RateLimited, OrganizationNotActive),
)
async def send_user_code(call: Call[UserCodeForm, None, None, Caller | None], postern: Postern) -> Page:
    """Go on with the code that a device shows"""
    caller, typed = call.presented, call.body.user_code
    browser, _ = browser_secret(call, postern)
    try:
        found, user_code = await postern.federation.device_flow.find_entered(typed, None if caller is None else caller.user)
    except (UserCodeUnknown, DeviceCodeExpired) as refusal:
        said = in_words(refusal, shipped_pages().text(call.language))
        return Answer(_code_page(call, browser, typed, {"user_code": said}), 400)
    request = {"device_code": str(found.id), "user_code": masked(user_code, browser, found.id)}
    wanted = Wanted(organization=found.context.organization_slug, service_name=found.service_name)
    return await begin(call, postern, FlowPurpose.DEVICE, request, wanted, service=found.context.service)


async def device_flow(call: AnyCall, postern: Postern, typed: str, browser: Token) -> Flow:
    """The flow of a person who signs in for a device through a provider, without our page that asks for the code. The person still decides
    on our next page. Raises the refusals of `find_entered`.
    """
    caller: Caller | None = call.request.caller
    found, user_code = await postern.federation.device_flow.find_entered(typed, None if caller is None else caller.user)
    request = {"device_code": str(found.id), "user_code": masked(user_code, browser, found.id)}
    wanted = Wanted(organization=found.context.organization_slug, service_name=found.service_name)
    return await postern.identity.flows.begin(browser, FlowPurpose.DEVICE, request, wanted, service=found.context.service)


@page.get(_DECISION, caller=BROWSER, limit=PAGE_LOADS, policy=WITH_FORM, advice=_advice, refuses=_REFUSED)
async def show_decision(call: Call[None, FlowLink], postern: Postern) -> Page:
    """Show the access that a device asks for, and the place of the device"""
    flow, code = await _decided_in(call, postern, call.query.flow)
    entered = await postern.federation.device_flow.find(code)
    call.speak_for(entered.branding)
    if not entered.outlasts(call.caller.proved, postern.foundation.clock.now()):
        return await _after_a_sign_in(call, postern, flow)
    if not entered.demand.is_asked_in(flow.wanted) and not entered.demand.is_met(*_proofs(call.caller), postern.foundation.clock.now()):
        return await _after_a_sign_in(call, postern, flow, entered.demand)
    asker = entered.asker
    approach = await postern.identity.devices.observe(Client(asker.address, asker.user_agent or ""))
    user_code = unmasked(str(flow.request["user_code"]), browser_secret(call, postern)[0], code)
    content = shipped_pages().page(
        "device/device_decision.html",
        call.language,
        brand=entered.branding,
        action=form_of(_DECISION, flow),
        flow=str(flow.id),
        form_token=token_for(BROWSER, call.request, postern),
        user_code=as_shown(user_code),
        service=entered.service_name,
        logo=entered.logo,
        organization=entered.organization_name,
        device=approach.agent.name,
        place=_place(call, approach),
        is_here=asker.address is not None and client_key(asker.address) == client_key(call.client.address or ""),
        asked_at=entered.created_at,
        now=postern.foundation.clock.now(),
        **account_of(call.caller),
        scopes=entered.scopes,
        resources=entered.resources,
    )
    return Answer(content, 200)


@page.post(_DECISION, caller=BROWSER, limit=PAGE_STEPS, advice=_advice, refuses=(*_REFUSED, Forbidden))
async def send_decision(call: Call[DecisionForm], postern: Postern) -> Page:
    """Let a device in, turn it away, or decide with another account"""
    flow, code = await _decided_in(call, postern, call.body.flow)
    if call.body.answer == "another":
        # The page of this flow stays the present account's.
        return await with_another_account(call, postern, flow)
    if call.body.answer == "approve":
        try:
            await postern.federation.device_flow.approve(code, call.caller, call.client)
        except ReauthenticationRequired:
            return await _after_a_sign_in(call, postern, flow)
        except TermsRequired:
            return redirect(terms_page(form_of(_DECISION, flow), flow.wanted.organization))
        except SecondFactorRequired as refusal:
            # Once the second factor is set up, the person comes back here, as long as the code is valid.
            advised = Advised("two_step.required_advice", WayOn(set_up_first(form_of(_DECISION, flow))))
            return Answer(refused_page(refusal, advised, call.language), 403)
        return to(_APPROVED, flow)
    await postern.federation.device_flow.deny(code, call.caller, call.client)
    return to(_DENIED, flow)


@page.get(_APPROVED, caller=IN_FLOW, limit=PAGE_LOADS)
async def device_approved(call: Call[None, FlowLink, None, Caller | None], postern: Postern) -> bytes:
    """Say that the device is let in"""
    return await _outcome(call, postern, "device_approved", good=True)


@page.get(_DENIED, caller=IN_FLOW, limit=PAGE_LOADS)
async def device_denied(call: Call[None, FlowLink, None, Caller | None], postern: Postern) -> bytes:
    """Say that the device was turned away"""
    return await _outcome(call, postern, "device_denied", good=False)


def _code_page(call: AnyCall, browser: Token, user_code: str, errors: Mapping[str, str] = _NO_ERRORS) -> bytes:
    return shipped_pages().page(
        "device/enter_code.html",
        call.language,
        action=ACTIVATION_PAGE,
        form_token=form_token(browser, bound_to("")),
        user_code=user_code[:LONGEST_USER_CODE],
        longest=LONGEST_USER_CODE,
        errors=errors,
    )


async def _after_a_sign_in(call: AnyCall, postern: Postern, flow: Flow, demand: SignInDemand = NO_DEMAND) -> Page:
    """Begins again for the same device, in a new flow that starts with a sign-in."""
    wanted = replace(
        flow.wanted,
        prompt=Prompt.LOGIN,
        second_factor=flow.wanted.second_factor or demand.second_factor,
        max_age=flow.wanted.max_age if demand.max_age is None else demand.max_age,
    )
    return await begin(call, postern, FlowPurpose.DEVICE, flow.request, wanted, service=flow.service)


async def _decided_in(call: AnyCall, postern: Postern, flow: str) -> tuple[Flow, DeviceCodeId]:
    """The flow, and the id of its device code."""
    found = await flow_of(call, postern, flow)
    if found.purpose is not FlowPurpose.DEVICE:
        raise FlowOver
    return found, DeviceCodeId(UUID(str(found.request["device_code"])))


def _proofs(caller: Caller) -> tuple[tuple[str, ...], Proved]:
    return caller.authentication_methods, caller.proved


def _place(call: AnyCall, approach: Approach) -> str:
    """The device's IP address, and its place if we know it."""
    address, location = approach.client.address, approach.location
    if address is None:
        return shipped_pages().text(call.language)("device_decision.unknown_place")
    known = "" if location is None else shipped_pages().text(call.language).listed(filter(None, (location.city, location.country)))
    return f"{address} ({known})" if known else address


async def _outcome(call: Call[None, FlowLink, None, Caller | None], postern: Postern, name: str, *, good: bool) -> bytes:
    flow, _ = await _decided_in(call, postern, call.query.flow)
    return shipped_pages().outcome(name, call.language, good=good, brand=flow.branding, service=flow.wanted.service_name)


async def _to_decision(_call: AnyCall, postern: Postern, flow: Flow, caller: Caller) -> Page:
    return await ask_memberships(postern, flow, caller, flow.wanted.organization) or to(_DECISION, flow)


CONTINUATIONS[FlowPurpose.DEVICE] = _to_decision
