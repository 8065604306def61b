"""`/auth/{provider}`: to an upstream provider, and back. A sign-in begins on our own pages (`flow`), on an application's page (`org` and
`service`), at the code of a device (`user_code`), or at an organization's own address (`org` alone). The flow knows how to continue after
the sign-in; these pages do not.
"""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Annotated, Final

import msgspec
import trio

from core.domain.errors import BadRequest, NotFound, OrganizationNotActive, RateLimited, Refusal, Unauthorized
from core.domain.federation.oauth.authorization_parameters import THROUGH, DirectRequest, kept
from core.domain.federation.oauth.authorizations import with_query
from core.domain.identity.browser_sessions import SignedInBrowser
from core.domain.identity.callers import Caller
from core.domain.identity.flows import Flow, FlowOver, FlowPurpose, Wanted
from core.domain.identity.realms import ClientRequired, ProviderRequired
from core.domain.identity.upstream.further_sign_ins import AddressNeeded
from core.domain.identity.upstream.identities import CANCELLED
from core.domain.identity.upstream.providers import ProviderOff, UnknownProvider, is_one_of_three, provider_key
from core.domain.identity.upstream.sign_in import OAuthError, ProviderAway, TakenState, UpstreamRefused
from core.domain.secrets import Secret, Token
from core.usecases.identity.upstream.journeys import Vouched
from entrypoints.bootstrap import Postern
from entrypoints.http.machinery.answers import Answer, NoBody, redirect
from entrypoints.http.machinery.browser_cookies import flow_secret
from entrypoints.http.machinery.browsers import IN_FLOW, SIGN_IN, OtherAccount
from entrypoints.http.machinery.callers import ANYONE
from entrypoints.http.machinery.calls import Call
from entrypoints.http.machinery.fields import Line, Parameter, example
from entrypoints.http.machinery.limits import AUTH, PAGE_LOADS, PAGE_STEPS, USER_CODES
from entrypoints.http.pages.account import CONNECTIONS
from entrypoints.http.pages.authorization.authorization_pages import FOREIGN_FORM, PROVIDERS, advice, pairs
from entrypoints.http.pages.device import device_flow
from entrypoints.http.pages.kit.declaring import IN_POPUP, page
from entrypoints.http.pages.kit.flows import (
    NEWCOMER,
    SECOND_FACTOR,
    Page,
    browser_secret,
    flow_of,
    own_place,
    place_in,
    signed_in,
    speak_as_asked,
    to,
    visit,
    with_headers,
)
from entrypoints.http.pages.newcomers import tested
from entrypoints.http.pages.sign_in.providers import address_again, ask_to_leave, back_to_asker
from entrypoints.http.pages.sign_in.sign_in_pages import once_over, sign_in_again, when_over

START: Final = f"{PROVIDERS}{{provider}}"
_CANCELLED: Final = frozenset({"access_denied", "consent_required", "interaction_required", "login_required"})
ASKED: Final = "yes"
_FAILED: Final = "provider_failed"
# In seconds, at most.
_LAST_WORD_TAKES: Final = 1.0
_ProviderInPath = Annotated[Line, example("codehost")]


class ProviderPath(msgspec.Struct, frozen=True):
    provider: _ProviderInPath
    """`codehost`, `websuite`, `officesuite`, the slug of a custom provider of the installation, or the ID of an organization's own identity
    provider.
    """


class Beginning(msgspec.Struct, frozen=True):
    """The destination of the sign-in; without parameters, the person's own account."""

    org: Parameter = ""
    """The slug of the organization. With `flow`: the organization that sends people of its domain to the provider."""
    service: Parameter = ""
    """The slug of the organization's service."""
    redirect_uri: Parameter = ""
    """Where the person goes afterwards: one of the service's redirect URIs, the first by default."""
    state: Parameter = ""
    """An opaque value that the response repeats."""
    code_challenge: Parameter = ""
    """The PKCE challenge. Optional for a service with a client secret. Another `web` or `api` service that omits it gets the tokens in the
    fragment.
    """
    code_challenge_method: Parameter = ""
    """`S256`, which is also the default with a challenge."""
    user_code: Parameter = ""
    """The user code that a device shows."""
    saml_state: Parameter = ""
    """The state of a pending SAML sign-in."""
    login_hint: Parameter = ""
    """The email address of the person whom the application expects."""
    flow: Parameter = ""
    """The flow of a sign-in on Postern's pages."""
    to: Parameter = ""
    """The Postern page to go to afterwards."""
    consent: Parameter = ""
    """`yes` asks the person again to grant the service access at the provider, if the service requests any."""


class Returned(msgspec.Struct, frozen=True):
    """The parameters that the provider sends back."""

    code: Parameter = ""
    """The authorization code, which is valid once."""
    state: Parameter = ""
    """The state of the request to the provider."""
    iss: Parameter | None = None
    """The issuer of the response (RFC 9207). Required from a provider that announces this parameter."""
    error: Parameter = ""
    """The provider's error code. Further text of the provider is never shown."""


@page.get(
    START,
    caller=IN_FLOW,
    # The limit of the API, and not that of pages: it covers all of `/auth/*`, and each call writes a row. The way back needs no limit,
    # since nobody can guess a state.
    limit=AUTH,
    policy=IN_POPUP,
    advice=advice,
    refuses=(BadRequest, NotFound, OrganizationNotActive, RateLimited, OAuthError),
    also={302: NoBody, 303: NoBody},
    tags=("oauth",),
)
async def begin_provider_sign_in(call: Call[None, Beginning, ProviderPath, Caller | None], postern: Postern) -> Page:
    """Sign a person in through a provider

    The response is a redirect to the provider. When the person returns, the service gets `code`, `state` and `iss` at its redirect URI, or
    the tokens in the fragment. If the person has MFA enabled, Postern asks for it first. Postern never redirects to an unregistered
    redirect URI. For an organization's own identity provider, a page with a button comes first.
    """
    link = call.query
    provider = provider_key(call.path.provider)
    browser, headers = browser_secret(call, postern)
    flow, begins = await _flow(call, postern, provider, browser)
    over = await when_over(call, postern, flow)
    if over is not None:
        return over
    try:
        if _is_bare(link, provider):
            if begins:
                await postern.identity.flows.keep(flow, browser)
            name = await postern.identity.journeys.name_in(flow, provider, realm=link.org)
            return with_headers(headers, Answer(ask_to_leave(call, flow, provider, name, org=link.org, login_hint=link.login_hint), 200))
        address = await postern.identity.journeys.leave(
            provider,
            browser,
            flow,
            begins=begins,
            login_hint=link.login_hint,
            choose=THROUGH in flow.request,
            consent=link.consent == ASKED,
            realm=link.org,
        )
    except UnknownProvider as refusal:
        # A draft answers as a name that no provider has.
        raise NotFound(refusal.message, words=refusal.words) from None
    except (ProviderOff, OAuthError) as refusal:
        return with_headers(headers, sign_in_again(call, postern, flow, refusal))
    return with_headers(headers, redirect(address, 302))


@page.get(
    f"{START}/callback",
    caller=IN_FLOW,
    limit=PAGE_LOADS,
    policy=IN_POPUP,
    refuses=(BadRequest, OAuthError, OtherAccount, Unauthorized, ProviderRequired),
    also={302: NoBody, 303: NoBody},
    tags=("oauth",),
)
async def complete_provider_sign_in(call: Call[None, Returned, ProviderPath, Caller | None], postern: Postern) -> Page:
    """Return from a provider

    Valid once, in the browser that started, within 15 minutes.
    """
    provider, state = call.path.provider, Token(call.query.state)
    browser = flow_secret(call.request, postern.foundation.public_url)
    try:
        taken = await postern.identity.journeys.take(provider, state, browser)
    except FlowOver:
        return await _again(call, postern, provider, state, browser)
    # A browser that is sent back twice drops this request. The provider redeems its code only once, so this request must finish all the
    # same.
    call.request.finish()
    if taken.user is not None:
        return await _of_person(call, postern, taken, state)
    flow = taken.flow
    if flow is None:
        raise FlowOver
    speak_as_asked(call, flow)
    try:
        entered = await _entered(call, postern, taken, flow, state)
    except FlowOver:
        return await once_over(call, postern, flow)
    except (UpstreamRefused, ProviderOff, UnknownProvider, OAuthError, Unauthorized, ProviderRequired) as refusal:
        if isinstance(refusal, UpstreamRefused) and refusal.reason == CANCELLED and THROUGH in flow.request:
            return await _denied(postern, flow, state)
        # A second request of the same way back cannot see this refusal. It goes on to the sign-in page, which has all ways to sign in.
        await postern.identity.repeated_returns.tell(state, place_in(flow, SIGN_IN))
        return sign_in_again(call, postern, flow, refusal, _status(refusal))
    except BaseException:
        # A busy database, for example, or a request whose time is up. The state is used up, so a person who tries again, as the page says,
        # needs this record to get on.
        with _last_word():
            await postern.identity.repeated_returns.tell_of_failure(provider, state, browser, place_in(flow, SIGN_IN))
        raise
    return await _onward(call, postern, flow, entered)


@page.post(
    f"{START}/callback",
    caller=ANYONE,
    limit=PAGE_STEPS,
    policy=IN_POPUP,
    refuses=(BadRequest,),
    accepts=FOREIGN_FORM,
    foreign=True,
    also={303: NoBody},
    tags=("oauth",),
)
async def receive_provider_answer(call: Call[bytes, None, ProviderPath], postern: Postern) -> Page:
    """Receive a provider's response by a form

    Some custom providers of the installation respond by `response_mode=form_post`. Postern stores the response, and the browser continues
    with the sign-in that began in it.
    """
    form = dict(pairs(call.body))
    call.request.finish()
    address = await postern.identity.posted_answers.receive(
        call.path.provider,
        state=form.get("state", ""),
        code=form.get("code", ""),
        stated=form.get("user", ""),
        error=form.get("error", ""),
        issuer=form.get("iss"),
    )
    return redirect(address, 303)


def _status(refusal: Refusal) -> int:
    """A failure of the provider is no mistake of the person's, so the status tells whoever watches: 503 if the provider is away, and 502 if
    its answer cannot be used.
    """
    return 503 if isinstance(refusal, ProviderAway) else 502 if isinstance(refusal, OAuthError) else 400


@contextmanager
def _last_word() -> Iterator[None]:
    """Lets the record be written even if the request is cancelled, but within a second. A refusal here must not hide the first failure."""
    with suppress(Refusal), trio.CancelScope(shield=True, relative_deadline=_LAST_WORD_TAKES):
        yield


async def _denied(postern: Postern, flow: Flow, state: Token) -> Page:
    try:
        answered = await postern.federation.authorizations.deny(flow)
    except Refusal:
        await postern.identity.repeated_returns.tell(state)
        raise
    await postern.identity.repeated_returns.tell(state, answered.url)
    return redirect(answered.url, 302)


async def _again(
    call: Call[None, Returned, ProviderPath, Caller | None], postern: Postern, provider: str, state: Token, browser: Token | None
) -> Page:
    """Answers a second request of the same way back, in the browser that has already come back, and a browser that tests a provider."""
    tested = await postern.tenancy.connection_tests.come_back(provider, state, browser, Token(call.query.code), call.query.error)
    if tested is not None:
        return redirect(tested, 303)
    used = await postern.identity.repeated_returns.wait(provider, state, browser)
    flow = used.flow
    if flow is None or used.led_to:
        return redirect(used.led_to, 302)
    speak_as_asked(call, flow)
    try:
        entered = await postern.identity.browser_sessions.sign_in_once_more(await visit(call, postern, flow), Secret(state.reveal()))
    except FlowOver:
        return await once_over(call, postern, flow)
    return await _onward(call, postern, flow, entered)


async def _entered(
    call: Call[None, Returned, ProviderPath, Caller | None], postern: Postern, taken: TakenState, flow: Flow, state: Token
) -> SignedInBrowser | str | None:
    """The signed-in browser. None when a second factor is still needed. An address when the person must go to the provider again."""
    proofs = postern.identity.upstream_proofs
    vouched = await _vouched(call, postern, taken, state)
    try:
        arrival = await proofs.make(taken, vouched, call.client)
        if not await proofs.needs_consent(taken, vouched, arrival):
            return await postern.identity.browser_sessions.sign_in_with_proof(
                await visit(call, postern, flow), Secret(state.reveal()), arrival
            )
        address = address_again(taken.provider, flow, consent=ASKED)
    except ClientRequired as refusal:
        address = address_again(taken.provider, flow, org=refusal.realm.organization_slug)
    except AddressNeeded:
        address = place_in(flow, NEWCOMER)
    await postern.identity.repeated_returns.tell(state, address)
    return address


async def _onward(
    call: Call[None, Returned, ProviderPath, Caller | None], postern: Postern, flow: Flow, entered: SignedInBrowser | str | None
) -> Page:
    if isinstance(entered, str):
        return redirect(entered, 302)
    return to(SECOND_FACTOR, flow) if entered is None else await signed_in(call, postern, flow, entered)


async def _flow(
    call: Call[None, Beginning, ProviderPath, Caller | None], postern: Postern, provider: str, browser: Token
) -> tuple[Flow, bool]:
    """The flow that continues after the sign-in, and whether it is new, so that nothing has stored it yet."""
    link = call.query
    if link.flow:
        return await flow_of(call, postern, link.flow), False
    if link.user_code:
        async with call.request.attempt(USER_CODES) as succeed:
            flow = await device_flow(call, postern, link.user_code, browser)
            succeed()
        return flow, False
    if link.saml_state:
        waiting = await flow_of(call, postern, link.saml_state)
        if waiting.purpose is not FlowPurpose.SAML:
            raise FlowOver
        return waiting, False
    if not link.service:
        wanted = Wanted(organization=link.org, login_hint=link.login_hint)
        return postern.identity.flows.made(FlowPurpose.ACCOUNT, {"to": own_place(link.to)}, wanted), True
    if not link.org:
        raise BadRequest("service: needs org, the organization of the service", words="not_as_declared")
    asked = DirectRequest(
        redirect_uri=link.redirect_uri,
        state=link.state,
        code_challenge=link.code_challenge,
        code_challenge_method=link.code_challenge_method,
    )
    request, application = await postern.federation.authorizations.direct(link.org, link.service, asked)
    wanted = Wanted(
        login_hint=link.login_hint,
        organization=application.organization_slug,
        service_name=application.name,
        service_slug=application.slug,
    )
    return postern.identity.flows.made(FlowPurpose.AUTHORIZE, kept(request, provider), wanted, service=application.service), True


def _is_bare(link: Beginning, provider: str) -> bool:
    """Whether a link alone could sign somebody in. The three providers of the installation ask people to choose an account. An
    organization's own provider asks whatever it likes, so its operator could sign others in to an account of the operator's. A `flow` in
    the address is safe, since it began in this browser.
    """
    return not is_one_of_three(provider) and not link.flow and not link.saml_state


async def _vouched(call: Call[None, Returned, ProviderPath, Caller | None], postern: Postern, taken: TakenState, state: Token) -> Vouched:
    back = call.query
    if back.error:
        if back.error in _CANCELLED:
            raise UpstreamRefused(CANCELLED)
        raise OAuthError(detail="the provider answered with an error")
    return await postern.identity.journeys.vouched(taken, state, Token(back.code), back.iss)


async def _of_person(call: Call[None, Returned, ProviderPath, Caller | None], postern: Postern, taken: TakenState, state: Token) -> Page:
    if taken.tests:
        return await tested(call, postern, taken, state, lambda: _vouched(call, postern, taken, state))
    return await _connected(call, postern, taken, state)


async def _connected(
    call: Call[None, Returned, ProviderPath, Caller | None], postern: Postern, taken: TakenState, state: Token
) -> Answer[NoBody]:
    """The redirect to the place where the person asked to connect an identity."""
    caller = call.presented
    if caller is not None and caller.user != taken.user:
        # The person has changed the account meanwhile, and would read on the pages of the other one what happened to the first.
        await postern.identity.repeated_returns.tell(state, CONNECTIONS)
        raise OtherAccount(CONNECTIONS)
    told = {"status": "success", "provider": taken.provider, "action": "link"}
    back = back_to_asker(postern, taken.way.redirect_uri, on_pages=taken.on_pages)
    try:
        await postern.identity.identities.connect(taken, await _vouched(call, postern, taken, state), call.client)
    except (UpstreamRefused, ProviderOff, OAuthError, Unauthorized, UnknownProvider) as refusal:
        told = {**told, "status": "error", "error": _reason(refusal)}
    except BaseException:
        # The state is used up, as in `complete_provider_sign_in`.
        with _last_word():
            await postern.identity.repeated_returns.tell(state, with_query(back, {**told, "status": "error", "error": _FAILED}))
        raise
    address = with_query(back, told)
    await postern.identity.repeated_returns.tell(state, address)
    return redirect(address, 302)


def _reason(refusal: Refusal) -> str:
    """The reason in one word of ours, for programs."""
    match refusal:
        case UpstreamRefused():
            return refusal.reason
        case ProviderOff() | UnknownProvider():
            return "provider_off"
        case OAuthError():
            return _FAILED
        case _:
            return "session_ended"
