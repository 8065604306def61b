"""`/saml/…/sso`, and the pages between a SAML request and its assertion."""

from collections.abc import Sequence
from functools import partial
from typing import Annotated, Final, Literal
from urllib.parse import urlencode
from uuid import UUID

import msgspec

from core.domain.errors import NotFound, OrganizationNotActive, Overloaded
from core.domain.federation.authorization_refusals import RefusingEndpoint
from core.domain.federation.oauth.authorization_steps import AuthorizationStep, wants_second_factor
from core.domain.federation.oauth.resources import LONGEST_SCOPES, words
from core.domain.federation.saml.sign_in import as_authorization
from core.domain.identifiers import FlowId, SessionId
from core.domain.identity.callers import Caller
from core.domain.identity.flows import Flow, FlowOver, FlowPurpose, Prompt, Wanted
from core.domain.identity.sign_in import ServiceName
from core.domain.saml import MessageRefused
from core.domain.secrets import Token
from core.usecases.federation.saml.answers import Delivered, Met
from core.usecases.federation.saml.sign_in import FINISH, Outcome, UnfinishedSamlSignIn
from entrypoints.bootstrap import Postern
from entrypoints.event_loop_rounds import fair_turn
from entrypoints.http.machinery.answers import Answer, Headers, NoBody, redirect
from entrypoints.http.machinery.browser_cookies import flow_secret, other_tokens, session_token
from entrypoints.http.machinery.browsers import (
    BROWSER_FOUND_BY_HANDLER,
    BROWSER_OR_NOBODY,
    BROWSER_WITH_OTHERS,
    SIGN_IN,
    BoundForm,
    bound_key,
    look_around,
)
from entrypoints.http.machinery.callers import ANYONE
from entrypoints.http.machinery.calls import Call, Request
from entrypoints.http.machinery.decoding import ReadByPage
from entrypoints.http.machinery.errors import Refused
from entrypoints.http.machinery.fields import Line, Parameter, ServicePath
from entrypoints.http.machinery.limits import PAGE_LOADS, PAGE_STEPS
from entrypoints.http.pages.authorization.authorization_pages import LEAVING, form_of
from entrypoints.http.pages.authorization.interim_pages import interim_page, leading_to, until_second_factor
from entrypoints.http.pages.kit import shipped_pages
from entrypoints.http.pages.kit.declaring import IN_POPUP_WITH_PASSKEYS, page
from entrypoints.http.pages.kit.flows import (
    ACCEPT_TERMS,
    CHOOSE_ACCOUNT,
    CONFIRM_MEMBERSHIP,
    CONTINUATIONS,
    PASSWORD,
    AnyCall,
    Page,
    ProvedLink,
    browser_secret,
    even_twice,
    flow_of,
    place_in,
    to,
    to_proof,
    with_another_account,
    with_headers,
)
from entrypoints.http.pages.kit.flows import SECOND_FACTOR as CODE_PAGE
from entrypoints.http.pages.saml import REQUEST, SAML_FORM, FewAtOnce, in_address, in_form
from entrypoints.http.pages.sign_in.sign_in_pages import address_page
from entrypoints.http.refusals import record_turned_away

_SSO: Final = "/saml/{org_slug}/{service_slug}/sso"
_AUTHENTICATE: Final = "/saml/{org_slug}/{service_slug}/authenticate"
_LATER: Final = f"{FINISH}/later"
_ELSEWHERE: Final = f"{FINISH}/elsewhere"
_REFUSES: Final = (MessageRefused, NotFound, OrganizationNotActive, Overloaded)
_SIGN_INS: Final = frozenset({AuthorizationStep.SIGN_IN, AuthorizationStep.SECOND_FACTOR, AuthorizationStep.CREATE})
# For these steps, the page that asks people to sign in also checks first whether the browser is already signed in.
_BY_SIGN_IN: Final = _SIGN_INS | {AuthorizationStep.DONE}
# A limit on sign-ins. Each takes a millisecond of our own work, and waits for the database or a thread most of the time.
EXCHANGES: Final = FewAtOnce(8)
_OWN_SITES: Final = frozenset({None, b"same-origin", b"none"})


class SamlQuery(ReadByPage, frozen=True):
    """The parameters. The handler reads them by the rules of SAML."""

    SAMLRequest: Parameter = ""
    """The request, compressed by DEFLATE, in base64."""
    RelayState: Parameter = ""
    """An opaque value that the response repeats."""
    SigAlg: Parameter = ""
    """The algorithm of the query's signature: `http://www.w3.org/2001/04/xmldsig-more#rsa-sha256`."""
    Signature: Parameter = ""
    """The signature, in base64."""


class StateLink(msgspec.Struct, frozen=True):
    state: Line = ""
    """The pending sign-in, from the URL that `sso` redirects to."""


class SamlLaterForm(BoundForm, frozen=True, kw_only=True):
    flow: Line = ""


class ElsewhereForm(BoundForm, frozen=True, kw_only=True):
    flow: Line = ""
    answer: Literal["another", "deny"] = "deny"


class SamlConsentForm(BoundForm, frozen=True, kw_only=True):
    flow: Line = ""
    session: UUID = UUID(int=0)
    """The session whose account the page showed: nobody else can allow what Ada was shown."""
    scopes: Annotated[str, msgspec.Meta(max_length=LONGEST_SCOPES)] = ""
    """What the page said that the service provider may learn. The organization may have added attributes since."""
    answer: Literal["allow", "deny", "another"] = "deny"


def advice(refused: Refused) -> str:
    match refused:
        case OrganizationNotActive():
            return "authorize.closed"
        case MessageRefused() | NotFound():
            return "authorize.begin_again"
        case _:
            return ""


@page.get(
    _SSO,
    caller=BROWSER_FOUND_BY_HANDLER,
    limit=PAGE_LOADS,
    policy=LEAVING,
    advice=advice,
    refuses=_REFUSES,
    also={302: NoBody},
    tags=("saml",),
)
async def begin_saml_sign_in(call: Call[None, SamlQuery, ServicePath, Token | None], postern: Postern) -> Page:
    """Sign a person in by SAML

    Single sign-on with the redirect binding. A person who is not signed in goes to `authenticate` first. A signed-in person who has
    consented, or is a confirmed member, gets a page whose form sends the SAML response to the service provider. Any other person gets a
    consent page. Failures that concern the service provider go back as a SAML status, such as when the request forbids asking the person.
    If it is uncertain that the request comes from the service provider, the response is a page with status 400.
    """
    async with EXCHANGES:
        met = await _met(call, postern, call.path, call.presented)
        envelope = in_address(call.request.query_string, REQUEST)
        outcome = await postern.federation.saml_sign_in.arrive(met, envelope, call.client, others=_others(call))
    return await _arrived(call, postern, outcome, own=True)


@page.post(
    _SSO,
    caller=ANYONE,
    limit=PAGE_STEPS,
    policy=LEAVING,
    advice=advice,
    refuses=_REFUSES,
    accepts=SAML_FORM,
    foreign=True,
    also={302: NoBody},
    tags=("saml",),
)
async def begin_saml_sign_in_by_form(call: Call[bytes, None, ServicePath], postern: Postern) -> Page:
    """Sign a person in by SAML with a form

    The same with the POST binding. Browsers send no cookies with a cross-site form, so the person continues with a GET.
    """
    envelope = await in_form(call.body, REQUEST)
    own = has_cookies(call.request, postern)
    async with EXCHANGES:
        met = await _met(call, postern, call.path, session_token(call.request, postern.foundation.public_url))
        outcome = await postern.federation.saml_sign_in.arrive(met, envelope, call.client, waits=not own, others=_others(call))
    return await _arrived(call, postern, outcome, own=own)


@page.get(
    _AUTHENTICATE,
    caller=BROWSER_WITH_OTHERS,
    limit=PAGE_LOADS,
    policy=IN_POPUP_WITH_PASSKEYS,
    refuses=(FlowOver,),
    also={303: NoBody},
    tags=("saml",),
)
async def complete_saml_sign_in(call: Call[None, StateLink, ServicePath, Caller | None], postern: Postern) -> Page:
    """Sign in for a SAML request

    `sso` sends people here who are not signed in. The page asks for the email address, the next one for the password or another method,
    then for MFA if required. Then the person continues to the service provider.
    """
    try:
        flow = await flow_of(call, postern, call.query.state)
    except FlowOver:
        return await _claimed(call, postern)
    if flow.purpose is not FlowPurpose.SAML or (flow.request["organization"], flow.request["service"]) != (
        call.path.org_slug,
        call.path.service_slug,
    ):
        raise FlowOver
    caller = call.presented
    is_ready = caller is not None and flow.wanted.is_met(caller.proved, flow.created_at, postern.foundation.clock.now())
    # After the form of another site, only this request says who is signed in here.
    asks = bool(call.request.others) and flow.belongs_to is None and not flow.email
    if flow.signed_in_at is not None or flow.request["passive"] or (is_ready and not asks):
        return to(FINISH, flow)
    if asks:
        return to(CHOOSE_ACCOUNT, flow)
    if flow.awaits_second_factor:
        return to(CODE_PAGE, flow)
    if caller is not None and flow.email == caller.email.address:
        # The browser knows who it is, so one step is enough, as it is for an application.
        return to(PASSWORD, flow)
    return Answer(address_page(call, postern, flow, flow.email), 200)


@page.get(FINISH, caller=BROWSER_WITH_OTHERS, limit=PAGE_LOADS, policy=LEAVING, advice=advice, refuses=(FlowOver, *_REFUSES))
async def finish_saml_sign_in(call: Call[None, ProvedLink, None, Caller | None], postern: Postern) -> Page:
    """Go on to the service provider, or to the next page of the sign-in"""
    flow = await flow_of(call, postern, call.query.flow)
    async with EXCHANGES:
        cannot_prove, others = bool(call.query.unproved), _others(call)
        outcome = await postern.federation.saml_sign_in.resume(flow, call.presented, call.client, cannot_prove=cannot_prove, others=others)
    return await _finished(call, postern, flow, outcome)


@page.post(FINISH, caller=BROWSER_OR_NOBODY, limit=PAGE_STEPS, policy=LEAVING, advice=advice, refuses=(FlowOver, *_REFUSES))
async def answer_saml_consent(call: Call[SamlConsentForm, None, None, Caller | None], postern: Postern) -> Page:
    """Allow or deny a service provider to learn who you are"""
    form, saml = call.body, postern.federation.saml_sign_in

    async def answered(flow: Flow) -> Page:
        match form.answer:
            case "allow":
                async with EXCHANGES:
                    outcome = await saml.allow(flow, call.presented, call.client, SessionId(form.session), words(form.scopes))
                return await _finished(call, postern, flow, outcome)
            case "deny":
                return delivered(call, await saml.deny(flow))
            case "another":
                return await with_another_account(call, postern, flow)

    return await even_twice(call, postern, form.flow, answered)


@page.post(_LATER, caller=BROWSER_OR_NOBODY, limit=PAGE_STEPS, policy=LEAVING, advice=advice, refuses=(FlowOver, *_REFUSES))
async def set_up_later_for_saml(call: Call[SamlLaterForm, None, None, Caller | None], postern: Postern) -> Page:
    """Go on without a second factor, as long as there is time to set it up"""
    flow = await flow_of(call, postern, call.body.flow)
    async with EXCHANGES:
        outcome = await postern.federation.saml_sign_in.resume(flow, call.presented, call.client, set_up_later=True)
    return await _finished(call, postern, flow, outcome)


@page.post(_ELSEWHERE, caller=BROWSER_OR_NOBODY, limit=PAGE_STEPS, policy=LEAVING, advice=advice, refuses=(FlowOver, *_REFUSES))
async def leave_saml_sign_in(call: Call[ElsewhereForm, None, None, Caller | None], postern: Postern) -> Page:
    """Go back to the service provider, or on with another account"""
    flow = await flow_of(call, postern, call.body.flow)
    if call.body.answer == "deny":
        return delivered(call, await postern.federation.saml_sign_in.deny(flow))
    return await with_another_account(call, postern, flow)


async def own_caller(request: Request, postern: Postern) -> Caller | None:
    """The person who is signed in in this browser. The form needs no session cookie, but browsers send one if the form came from our own
    site.
    """
    token = session_token(request, postern.foundation.public_url)
    request.caller = None if token is None else await postern.tenancy.callers.resolve_browser(token, await bound_key(request, postern))
    return request.caller


def has_cookies(request: Request, postern: Postern) -> bool:
    """Whether a browser would have sent our cookies if it had any. Browsers send none with the form of another site."""
    base_url = postern.foundation.public_url
    if flow_secret(request, base_url) is not None or session_token(request, base_url) is not None:
        return True
    return request.header(b"sec-fetch-site") in _OWN_SITES


def delivered(call: AnyCall, outcome: Delivered) -> Answer[bytes]:
    """The page whose form sends the answer to the service provider: by itself, or by its button."""
    call.speak_for(outcome.application.branding)
    text = shipped_pages().text(call.language, outcome.application.branding)
    key = "leaving.title_to" if outcome.succeeded else "going_back.title"
    content = shipped_pages().leaving(
        call.language,
        brand=outcome.application.branding,
        action=outcome.action,
        fields=outcome.fields,
        title=text(key, service=outcome.application.name),
        label=text("common.continue"),
    )
    return Answer(content, 200)


async def to_consent(call: AnyCall, postern: Postern, unfinished: UnfinishedSamlSignIn) -> Page:
    """For a sign-in that begins at Postern, with a person who has to allow it first."""
    browser, headers = browser_secret(call, postern)
    email = "" if call.request.caller is None else call.request.caller.email.address
    flow = await postern.federation.saml_sign_in.begin(unfinished, _wanted(unfinished), browser=browser, email=email)
    return with_headers(headers, to(FINISH, flow))


async def _met(call: AnyCall, postern: Postern, path: ServicePath, browser: Token | None) -> Met:
    """The service, and the person in the browser. From here on this person is the caller of the HTTP request."""
    bound = None if browser is None else await bound_key(call.request, postern)
    met = await postern.federation.saml_sign_in.meet(ServiceName(path.org_slug, path.service_slug), browser, bound)
    if other_tokens(call.request, postern.foundation.public_url):
        await look_around(call.request, postern)
    call.request.caller = met.caller
    await fair_turn()
    return met


def _others(call: AnyCall) -> Sequence[Caller]:
    return [one.caller for one in call.request.others or ()]


def _place(outcome: UnfinishedSamlSignIn) -> str:
    return CHOOSE_ACCOUNT if outcome.step is AuthorizationStep.CHOOSE_ACCOUNT else FINISH


async def _arrived(call: AnyCall, postern: Postern, outcome: Outcome, *, own: bool) -> Page:
    if isinstance(outcome, Delivered):
        return delivered(call, outcome)
    browser: Token | None = None
    headers: Headers = ()
    if own:
        browser, headers = browser_secret(call, postern)
    caller: Caller | None = call.request.caller
    hint = outcome.asked.subject or ""
    # A name ID that is no e-mail address may belong to another person than the present one, so the field stays empty.
    email = hint if "@" in hint else "" if caller is None or hint else caller.email.address
    flow = await postern.federation.saml_sign_in.begin(outcome, _wanted(outcome), browser=browser, email=email)
    path = _AUTHENTICATE.format(org_slug=outcome.application.organization_slug, service_slug=outcome.application.slug)
    where = f"{path}?{urlencode({'state': str(flow.id)})}" if outcome.step in _BY_SIGN_IN else place_in(flow, _place(outcome))
    answer = redirect(where, 302)
    return Answer(answer.value, answer.status, (*answer.headers, *headers))


def _wanted(unfinished: UnfinishedSamlSignIn) -> Wanted:
    """What the SAML request demands of the flow. A person who is signed in and must sign in all the same proves themselves again."""
    asked, application = unfinished.asked, unfinished.application
    again = asked.force or (unfinished.signed_in is not None and unfinished.step in _SIGN_INS)
    hint = asked.subject or ""
    return Wanted(
        login_hint=hint if "@" in hint else "",
        prompt=Prompt.LOGIN if again else None,
        second_factor=wants_second_factor(as_authorization(asked, application)),
        organization=application.organization_slug,
        service_name=application.name,
        service_slug=application.slug,
    )


async def _claimed(call: Call[None, StateLink, ServicePath, Caller | None], postern: Postern) -> Page:
    """A sign-in that began with the form of another site, now with this browser's cookies."""
    browser, headers = browser_secret(call, postern)
    try:
        own = await postern.federation.saml_sign_in.claim(FlowId(UUID(call.query.state)), browser)
    except ValueError:
        raise FlowOver from None
    # The redirect repeats the request with the cookie that this answer may set.
    path = _AUTHENTICATE.format(org_slug=call.path.org_slug, service_slug=call.path.service_slug)
    answer = redirect(f"{path}?{urlencode({'state': str(own)})}")
    return Answer(answer.value, answer.status, (*answer.headers, *headers))


_ASKING: Final = {
    AuthorizationStep.CHOOSE_ACCOUNT: CHOOSE_ACCOUNT,
    AuthorizationStep.CONFIRM_MEMBERSHIP: CONFIRM_MEMBERSHIP,
    AuthorizationStep.ACCEPT_TERMS: ACCEPT_TERMS,
}


async def _finished(call: AnyCall, postern: Postern, flow: Flow, outcome: Outcome) -> Page:
    if isinstance(outcome, Delivered):
        return delivered(call, outcome)
    show = partial(interim_page, call=call, postern=postern, flow=flow, asked=outcome, rule=BROWSER_OR_NOBODY)
    match outcome.step:
        case AuthorizationStep.CONSENT:
            assert outcome.signed_in is not None  # noqa: S101 - for the type checker: only people who are signed in are asked for consent
            hidden = {"session": str(outcome.signed_in.session), "scopes": " ".join(outcome.tells)}
            more = {"hidden": hidden, "scopes": outcome.tells, "resources": (), "days": (), **leading_to(outcome.asked.acs_url)}
            return Answer(show("authorization/consent.html", action=form_of(FINISH, flow), **more), 200)
        case AuthorizationStep.TURN_AWAY:
            await record_turned_away(call, postern, outcome.application, outcome.signed_in, at=RefusingEndpoint.SAML, flow=flow)
            return Answer(show("authorization/turned_away.html", action=_ELSEWHERE), 403)
        case step if step is AuthorizationStep.PROVE or step in _ASKING:
            return to_proof(FINISH, flow) if step is AuthorizationStep.PROVE else to(_ASKING[step], flow)
        case AuthorizationStep.SET_UP_SECOND_FACTOR:
            time = until_second_factor(postern, flow, outcome, FINISH)
            return Answer(show("sign_in/second_factor_required.html", action=_LATER, elsewhere=_ELSEWHERE, **time), 200)
        case _ if flow.signed_in_at is not None:
            # The person has signed out again, or the sign-in no longer counts.
            raise FlowOver
        case _:
            return to(SIGN_IN, flow)


async def _continued(call: AnyCall, postern: Postern, flow: Flow, caller: Caller) -> Page:
    """The person has signed in. The answer needs a page of its own, because the pages of the sign-in may not send a form to another site.
    The page that asks about memberships may.
    """
    if not flow.asked_memberships:
        return to(FINISH, flow)
    async with EXCHANGES:
        outcome = await postern.federation.saml_sign_in.resume(flow, caller, call.client)
    return await _finished(call, postern, flow, outcome)


CONTINUATIONS[FlowPurpose.SAML] = _continued
