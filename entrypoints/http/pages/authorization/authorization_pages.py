"""`/oauth/authorize`: where applications send people to sign in to them, and where these get back to the applications from."""

from typing import Final
from urllib.parse import urlencode

import msgspec

from core.domain.branding import Branding
from core.domain.errors import OrganizationNotActive
from core.domain.federation.oauth.authorization_parameters import Parameters, locales
from core.domain.federation.oauth.authorization_steps import AuthorizationStep, insists_on_sign_in, wants_second_factor
from core.domain.federation.oauth.authorizations import UnknownRecipient, stored
from core.domain.federation.oauth.direct_requests import THROUGH
from core.domain.federation.oauth.metadata import AUTHORIZATION_ENDPOINT
from core.domain.federation.oauth.redirects import Answered, ResponseMode
from core.domain.identity.callers import Caller
from core.domain.identity.flows import Flow, FlowOver, FlowPurpose, Prompt, Wanted
from core.usecases.federation.authorizations import FinishedAuthorization, Outcome, UnfinishedAuthorization
from entrypoints.bootstrap import Postern
from entrypoints.http.machinery.answers import Answer, NoBody, redirect
from entrypoints.http.machinery.browsers import BROWSER_OR_NOBODY, SIGN_IN
from entrypoints.http.machinery.callers import ANYONE
from entrypoints.http.machinery.calls import Call
from entrypoints.http.machinery.error_shapes import Refused
from entrypoints.http.machinery.headers import SELF, PagePolicy
from entrypoints.http.machinery.limits import PAGE_LOADS, PAGE_STEPS
from entrypoints.http.pages import shipped_pages
from entrypoints.http.pages.authorization.foreign_forms import FOREIGN_FORM, pairs
from entrypoints.http.pages.declaring import Advised, page
from entrypoints.http.pages.flows import (
    CONFIRM_MEMBERSHIP,
    CONTINUATIONS,
    REGISTER,
    AnyCall,
    FlowLink,
    Page,
    begin,
    browser_secret,
    even_twice,
    place_in,
    to,
)
from entrypoints.http.refused_authorizations import answered_on_arrival, answered_on_the_way, refused_on_arrival

GO_ON: Final = "/ui/authorize"
CONSENT: Final = "/ui/consent"
CHOOSE_ACCOUNT: Final = "/ui/choose-account"
SECOND_FACTOR_REQUIRED: Final = "/ui/second-factor-required"
PROVIDERS: Final = "/auth/"

LEAVING: Final = PagePolicy(scripts=(SELF,), form_action=None, opener="unsafe-none")
"""A page that people leave for an application. Its form leads to where that has registered, and a sign-in that the application opened in a
pop-up must stay within its reach.
"""


class AuthorizationQuery(msgspec.Struct, frozen=True):
    """For the description: what is sent is read by the rules of OAuth, which are stricter."""

    client_id: str = ""
    """The client id of the service."""
    redirect_uri: str = ""
    """Where the person and the answer go: one of the service's redirect URIs, byte for byte. For `mobile` and `desktop` the port of an
    address on the device itself may be another one.
    """
    response_type: str = ""
    """Must be `code`."""
    scope: str = ""
    """Some of `openid profile email organization groups offline_access`, separated by spaces. Others are ignored."""
    state: str = ""
    """It comes back with the answer."""
    nonce: str = ""
    """It comes back in the ID token."""
    code_challenge: str = ""
    """PKCE. Only a service with a client secret or keys may do without."""
    code_challenge_method: str = ""
    """Must be `S256`."""
    response_mode: str = ""
    """`query`, which is the default, or `form_post`."""
    prompt: str = ""
    """`none`, or some of `login`, `consent`, `select_account` and `create`."""
    max_age: str = ""
    """How many seconds ago the person may have signed in."""
    login_hint: str = ""
    """The address of the person that is expected."""
    acr_values: str = ""
    """`http://schemas.openid.net/pape/policies/2007/06/multi-factor` asks for a second factor."""
    ui_locales: str = ""
    """The languages that the pages should speak, best first."""
    claims: str = ""
    """Single claims, as JSON (OpenID Connect Core section 5.5). Each asks for the scope that tells it. An essential `acr` is insisted on,
    and `sub` names the one person who will do.
    """
    id_token_hint: str = ""
    """An ID token of the person that is expected; it may have expired."""
    request_uri: str = ""
    """The name of a pushed request. With it, only `client_id` counts besides."""


def advice(refused: Refused) -> str | Advised:
    match refused:
        case OrganizationNotActive():
            return "authorize.closed"
        case UnknownRecipient():
            return Advised("authorize.refused", names_request=True)
        case _:
            return ""


@page.get(
    AUTHORIZATION_ENDPOINT,
    caller=BROWSER_OR_NOBODY,
    limit=PAGE_LOADS,
    policy=LEAVING,
    advice=advice,
    refuses=(UnknownRecipient, OrganizationNotActive),
    also={303: NoBody},
    tags=("oauth",),
)
async def authorize(call: Call[None, AuthorizationQuery, None, Caller | None], postern: Postern) -> Page:
    """Send a person here to sign in to a service

    The authorization endpoint of OAuth 2.0 and OpenID Connect. The answer is a redirect to the service with `code`, `state` and `iss`, or
    with `error`, `error_description`, `state` and `iss`; the person may be asked to sign in, to choose an account or to allow the access
    first. While it is not certain who gets the answer, because the client or its redirect URI is unknown, there is a page and no redirect.
    """
    parameters = Parameters(pairs(call.request.query_string))
    # Also the page that says no.
    call.request.asked_languages = locales(parameters.get("ui_locales"))
    try:
        outcome = await postern.federation.authorizations.arrive(parameters, call.presented)
    except (UnknownRecipient, OrganizationNotActive) as refusal:
        refused_on_arrival(postern, parameters, refusal)
        raise
    if isinstance(outcome, FinishedAuthorization):
        answered_on_arrival(postern, parameters, outcome.answered)
        application = outcome.application
        return _form(call, outcome.answered, application.name, application.branding) or redirect(outcome.answered.url)
    return await _begun(call, postern, outcome)


@page.post(
    AUTHORIZATION_ENDPOINT,
    caller=ANYONE,
    limit=PAGE_STEPS,
    policy=LEAVING,
    accepts=FOREIGN_FORM,
    foreign=True,
    status=303,
    tags=("oauth",),
)
def authorize_by_form(call: Call[bytes], _postern: Postern) -> Answer[NoBody]:
    """Send a person here by a form

    The same parameters as in the query. Browsers send no cookies with the form of another site, so the answer is a redirect to the same
    address with the parameters in its query.
    """
    return redirect(f"{AUTHORIZATION_ENDPOINT}?{urlencode(pairs(call.body))}")


@page.get(GO_ON, caller=BROWSER_OR_NOBODY, limit=PAGE_LOADS, policy=LEAVING, advice=advice, refuses=(FlowOver, OrganizationNotActive))
async def go_on_to_application(call: Call[None, FlowLink, None, Caller | None], postern: Postern) -> Page:
    """Go on to the application, or to what is left to do for it"""

    async def gone_on(flow: Flow) -> Page:
        return await settled(call, postern, flow, await postern.federation.authorizations.resume(flow, call.presented, call.client))

    return await even_twice(call, postern, call.query.flow, gone_on)


def form_of(page: str, flow: Flow) -> str:
    """The address of a page's form. It names the flow, as the page's own does: whoever is no longer signed in comes back to the page."""
    return place_in(flow, page)


async def settled(call: AnyCall, postern: Postern, flow: Flow, outcome: Outcome) -> Page:
    """To the application, or to the page of what is left to do."""
    if isinstance(outcome, UnfinishedAuthorization):
        return to(_PLACES[outcome.step], flow)
    answered_on_the_way(postern, flow.request, outcome.answered)
    return left(call, flow, outcome.answered)


def left(call: AnyCall, flow: Flow, answered: Answered) -> Page:
    """The answer leaves by the way that the application asked for. It is a redirect only for somebody who comes from a provider: all others
    come from a form of ours, and browsers apply its `form-action` to the whole chain of redirects behind it.
    """
    form = _form(call, answered, flow.wanted.service_name, flow.branding)
    if form is not None:
        return form
    if call.request.path.startswith(PROVIDERS):
        return redirect(answered.url, 302)
    content = shipped_pages().page(
        "leave.html",
        call.language,
        brand=flow.branding,
        address=answered.url,
        **_words(call, answered, flow.wanted.service_name),
    )
    return Answer(content, 200)


async def _continued(call: AnyCall, postern: Postern, flow: Flow, caller: Caller) -> Page:
    """The person has signed in. A form that leaves needs a page of ours, because the pages of the sign-in may not send one away; the page
    that asks about memberships may.
    """
    if flow.request["response_mode"] == ResponseMode.FORM_POST and not flow.asked_memberships:
        return to(GO_ON, flow)
    authorizations = postern.federation.authorizations
    if THROUGH in flow.request:
        return await settled(call, postern, flow, await authorizations.finish_directly(flow, caller, call.client))
    return await settled(call, postern, flow, await authorizations.resume(flow, caller, call.client))


CONTINUATIONS[FlowPurpose.AUTHORIZE] = _continued

_PLACES: Final = {
    AuthorizationStep.CREATE: REGISTER,
    AuthorizationStep.SIGN_IN: SIGN_IN,
    AuthorizationStep.SECOND_FACTOR: SIGN_IN,
    AuthorizationStep.CHOOSE_ACCOUNT: CHOOSE_ACCOUNT,
    AuthorizationStep.CONFIRM_MEMBERSHIP: CONFIRM_MEMBERSHIP,
    AuthorizationStep.SET_UP_SECOND_FACTOR: SECOND_FACTOR_REQUIRED,
    AuthorizationStep.CONSENT: CONSENT,
    AuthorizationStep.TURN_AWAY: CONSENT,
}
_PROMPTS: Final = {
    AuthorizationStep.CREATE: Prompt.CREATE,
    AuthorizationStep.SIGN_IN: Prompt.LOGIN,
    AuthorizationStep.SECOND_FACTOR: Prompt.LOGIN,
}


async def _begun(call: AnyCall, postern: Postern, unfinished: UnfinishedAuthorization) -> Page:
    """A flow that keeps the request while the person does what is left to do."""
    request, application, step = unfinished.request, unfinished.application, unfinished.step
    # Somebody who is signed in already has to sign in all the same.
    again = unfinished.signed_in is not None or insists_on_sign_in(request)
    wanted = Wanted(
        login_hint=request.login_hint or "",
        prompt=_PROMPTS.get(step) if again or step is not AuthorizationStep.SIGN_IN else None,
        max_age=request.max_age,
        second_factor=wants_second_factor(request),
        ui_locales=request.ui_locales,
        organization=application.organization_slug,
        service_name=application.name,
    )
    if step in _PROMPTS:
        return await begin(
            call, postern, FlowPurpose.AUTHORIZE, stored(request), wanted, service=application.service, expected=request.subject
        )
    browser, headers = browser_secret(call, postern)
    flow = await postern.identity.flows.begin(browser, FlowPurpose.AUTHORIZE, stored(request), wanted, service=application.service)
    begun = to(_PLACES[step], flow)
    return Answer(begun.value, begun.status, (*begun.headers, *headers))


def _form(call: AnyCall, answered: Answered, service_name: str, brand: Branding) -> Answer[bytes] | None:
    """The page whose form brings the answer to the application (OAuth 2.0 Form Post Response Mode). None: it goes in the address."""
    if answered.response_mode is not ResponseMode.FORM_POST:
        return None
    content = shipped_pages().leaving(
        call.language,
        brand=brand,
        action=answered.redirect_uri,
        fields=answered.fields,
        **_words(call, answered, service_name),
    )
    return Answer(content, 200)


def _words(call: AnyCall, answered: Answered, service_name: str) -> dict[str, str]:
    text = shipped_pages().text(call.language)
    key = "leaving.title_to" if "code" in answered.fields else "going_back.title"
    return {"title": text(key, service=service_name), "label": text("common.continue")}
