"""`/oauth/authorize`: applications send people here to sign in, and people go back from here to the applications.

Forms by which other sites send people here, as the protocols require. Browsers send no cookies with the form of another site
(`SameSite=Lax`). So we only read such a form, and answer with a redirect to a GET with the same parameters.
"""

from collections.abc import Sequence
from typing import Final
from urllib.parse import parse_qsl, urlencode

import msgspec

from core.domain.branding import Branding
from core.domain.errors import OrganizationNotActive, Refusal
from core.domain.federation.authorization_refusals import RefusingEndpoint
from core.domain.federation.oauth.authorization_parameters import THROUGH, Parameters, client_of, locales
from core.domain.federation.oauth.authorization_steps import AuthorizationStep, insists_on_sign_in, wants_second_factor
from core.domain.federation.oauth.authorizations import Answered, LookedAfter, ResponseMode, UnknownRecipient, stored
from core.domain.federation.oauth.oidc import AUTHORIZATION_ENDPOINT
from core.domain.federation.oauth.resources import demanding
from core.domain.identity.callers import Caller
from core.domain.identity.flows import Flow, FlowOver, FlowPurpose, Prompt, Wanted
from core.domain.mail import Email
from core.domain.services.clients import describes_itself
from core.frozen import replace
from core.usecases.federation.authorizations import AGREED, AGREED_SIGNALS, FinishedAuthorization, Outcome, UnfinishedAuthorization
from entrypoints.bootstrap import Postern
from entrypoints.http.machinery.accepts import Raw
from entrypoints.http.machinery.answers import SELF, Answer, NoBody, PagePolicy, redirect
from entrypoints.http.machinery.browser_cookies import other_tokens
from entrypoints.http.machinery.browsers import BROWSER_OR_NOBODY, SIGN_IN, bound_key
from entrypoints.http.machinery.callers import ANYONE
from entrypoints.http.machinery.calls import Call
from entrypoints.http.machinery.errors import NotAsDeclared, Refused
from entrypoints.http.machinery.fields import Parameter
from entrypoints.http.machinery.limits import PAGE_LOADS, PAGE_STEPS
from entrypoints.http.pages.kit import shipped_pages
from entrypoints.http.pages.kit.declaring import TO_CONFIRM_ADDRESS, Advised, WayOn, page
from entrypoints.http.pages.kit.flows import (
    ACCEPT_TERMS,
    CHOOSE_ACCOUNT,
    CONFIRM_MEMBERSHIP,
    CONTINUATIONS,
    REGISTER,
    AnyCall,
    Page,
    ProvedLink,
    begin,
    browser_secret,
    even_twice,
    name_to_leave_for,
    place_in,
    to,
    to_proof,
    unregistered_name,
)
from entrypoints.http.refusals import answered_on_arrival, answered_on_the_way, awaiting_session, record_turned_away, refused_on_arrival

FOREIGN_FORM: Final = Raw("application/x-www-form-urlencoded", 8 << 10)
"""Half of the limit for a request's head, since the parameters come back in an address."""
_MOST_PARAMETERS: Final = 100


def pairs(encoded: bytes) -> list[tuple[str, str]]:
    """The parameters in their order, repeated ones included. Bytes that are not UTF-8 become U+FFFD, which no parameter may contain."""
    try:
        return parse_qsl(encoded.decode("latin-1"), keep_blank_values=True, errors="replace", max_num_fields=_MOST_PARAMETERS)
    except ValueError:
        raise NotAsDeclared("There are too many parameters") from None


GO_ON: Final = "/ui/authorize"
CONSENT: Final = "/ui/consent"
SECOND_FACTOR_REQUIRED: Final = "/ui/second-factor-required"
PROVIDERS: Final = "/auth/"

LEAVING: Final = PagePolicy(scripts=(SELF,), form_action=None, opener="unsafe-none")
"""A page that people leave for an application. Its form leads to the address that the application registered. An application that opened
the sign-in in a pop-up must be able to reach that pop-up.
"""


class AuthorizationQuery(msgspec.Struct, frozen=True):
    """The parameters, for the API description. The handler reads them by the rules of OAuth, which are stricter."""

    client_id: Parameter = ""
    """The client ID of the service."""
    redirect_uri: Parameter = ""
    """The redirect URI: one of the service's redirect URIs, compared byte for byte. For `mobile` and `desktop` services, a loopback URI may
    have another port.
    """
    response_type: Parameter = ""
    """Must be `code`."""
    scope: Parameter = ""
    """Some of `openid profile email organization roles groups offline_access`, separated by spaces. Other scopes are ignored. Without
    scopes, the tokens have none. `ssf.manage` and `ssf.read` are for shared signals: only a person who may manage the integrations of the
    service's organization can grant them, with consent each time; for anyone else they are ignored.
    """
    state: Parameter = ""
    """An opaque value that the response repeats."""
    nonce: Parameter = ""
    """A value that the ID token repeats."""
    code_challenge: Parameter = ""
    """The PKCE challenge. Optional for a service with a client secret or keys."""
    code_challenge_method: Parameter = ""
    """Must be `S256`."""
    response_mode: Parameter = ""
    """`query` (the default), `fragment`, which requires PKCE, or `form_post`."""
    prompt: Parameter = ""
    """`none`, or some of `login`, `consent`, `select_account` and `create`."""
    max_age: Parameter = ""
    """The maximum age of the person's authentication, in seconds."""
    login_hint: Parameter = ""
    """The email address of the person whom the application expects."""
    acr_values: Parameter = ""
    """`http://schemas.openid.net/pape/policies/2007/06/multi-factor` requests MFA."""
    ui_locales: Parameter = ""
    """The preferred languages of the pages, the most preferred first."""
    claims: Parameter = ""
    """Individual claims, as JSON (OpenID Connect Core section 5.5). Each claim requests the scope that includes it. An essential `acr` is
    required. `sub` restricts the sign-in to one person.
    """
    id_token_hint: Parameter = ""
    """An ID token of the person whom the application expects. It may be expired."""
    resource: Parameter = ""
    """The identifier of an API that the application requests tokens for (RFC 8707). Can be repeated. `scope` then includes scopes of these
    APIs.
    """
    request_uri: Parameter = ""
    """The `request_uri` of a pushed authorization request. With it, only `client_id` is read as well."""


_OF_REDIRECT_URI: Final = frozenset({"redirect_unregistered", "redirect_missing"})


def advice(refused: Refused) -> str | Advised:
    match refused:
        case OrganizationNotActive():
            return "authorize.closed"
        case UnknownRecipient(looked_after=LookedAfter(organization, service)):
            # That page says what was received and what is registered. Nothing is added by a press (0233).
            failed = WayOn(f"/ui/o/{organization}/applications/{service}/refusals", "authorize.failed_requests")
            return Advised("authorize.refused", failed, names_request=True)
        case UnknownRecipient():
            return Advised("authorize.refused", names_request=True)
        case Refusal(words="address_unproved"):
            return Advised(onward=TO_CONFIRM_ADDRESS)
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
    """Sign a person in to a service

    The authorization endpoint of OAuth 2.0 and OpenID Connect: send the person's browser here. The person may have to sign in, choose an
    account or consent first. Then the response is a redirect to the service with `code`, `state` and `iss`, or with `error`,
    `error_description`, `state` and `iss`. If the client or its redirect URI is unknown, the response is an error page instead of a
    redirect.
    """
    parameters = Parameters(pairs(call.request.query_string))
    # The page of a refusal uses these languages, too, so they are set before anything can be refused.
    call.request.asked_languages = locales(parameters.get("ui_locales"))
    try:
        others = await _other_accounts(call, postern, parameters.get("login_hint"))
        outcome = await postern.federation.authorizations.arrive(parameters, call.presented, others)
    except (UnknownRecipient, OrganizationNotActive) as refusal:
        refused_on_arrival(postern, parameters, refusal, awaited_in=awaiting_session(call.request, postern))
        if call.presented is not None and isinstance(refusal, UnknownRecipient) and refusal.words in _OF_REDIRECT_URI:
            refusal.looked_after = await postern.federation.authorization_refusals.looked_after(client_of(parameters), call.presented.user)
        raise
    if isinstance(outcome, FinishedAuthorization):
        application = outcome.application
        call.speak_for(application.branding)
        awaited_in = awaiting_session(call.request, postern)
        answered_on_arrival(postern, parameters, application, outcome.answered, awaited_in=awaited_in)
        name = unregistered_name(call) if describes_itself(application.registered.client_id) else application.name
        return _form(call, outcome.answered, name, application.branding) or redirect(outcome.answered.url)
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
    """Sign a person in to a service by a form

    The form has the same parameters as the query of a GET. Browsers send no cookies with a cross-site form, so the response redirects to
    this URL with the parameters in its query.
    """
    return redirect(f"{AUTHORIZATION_ENDPOINT}?{urlencode(pairs(call.body))}")


@page.get(GO_ON, caller=BROWSER_OR_NOBODY, limit=PAGE_LOADS, policy=LEAVING, advice=advice, refuses=(FlowOver, OrganizationNotActive))
async def go_on_to_application(call: Call[None, ProvedLink, None, Caller | None], postern: Postern) -> Page:
    """Go on to the application, or to the next step before it"""

    async def gone_on(flow: Flow) -> Page:
        unproved = bool(call.query.unproved)
        outcome = await postern.federation.authorizations.resume(flow, call.presented, call.client, cannot_prove=unproved)
        return await settled(call, postern, flow, outcome)

    return await even_twice(call, postern, call.query.flow, gone_on)


async def _other_accounts(call: AnyCall, postern: Postern, hint: str | None) -> Sequence[Caller]:
    """The accounts of this browser beside the one in use. Nobody looks for them if the request names the one in use by its address."""
    caller: Caller | None = call.request.caller
    tokens = other_tokens(call.request, postern.foundation.public_url)
    if not tokens or (caller is not None and hint is not None and caller.email.key == Email(hint.strip()).key):
        return ()
    _, found = await postern.tenancy.callers.resolve_browser_accounts(None, tokens, await bound_key(call.request, postern))
    return [one.caller for one in found if caller is None or one.caller.user != caller.user]


def form_of(page: str, flow: Flow) -> str:
    """The address of a page's form. It names the flow, like the address of the page: a person who is no longer signed in comes back to the
    page.
    """
    return place_in(flow, page)


async def settled(call: AnyCall, postern: Postern, flow: Flow, outcome: Outcome) -> Page:
    """Leads to the application, or to the page of the next step."""
    if isinstance(outcome, UnfinishedAuthorization):
        if outcome.demand.asks and not outcome.demand.is_asked_in(flow.wanted):
            return await _stepped_up(call, postern, flow, outcome)
        if outcome.step is AuthorizationStep.PROVE:
            return to_proof(GO_ON, flow)
        await _tell_turned_away(call, postern, outcome, flow)
        return to(_PLACES[outcome.step], flow)
    answered_on_the_way(postern, flow.request, outcome.application, outcome.answered)
    return left(call, flow, outcome.answered)


async def _tell_turned_away(call: AnyCall, postern: Postern, outcome: UnfinishedAuthorization, flow: Flow | None = None) -> None:
    if outcome.step is AuthorizationStep.TURN_AWAY:
        await record_turned_away(call, postern, outcome.application, outcome.signed_in, at=RefusingEndpoint.AUTHORIZE, flow=flow)


def left(call: AnyCall, flow: Flow, answered: Answered) -> Page:
    """The answer to the application, by its response mode. A redirect is possible only for a person who comes from a provider. All others
    come from a form of ours, and browsers apply the form's `form-action` to the whole chain of redirects behind it, so they get a page that
    leaves.
    """
    name = name_to_leave_for(call, flow)
    form = _form(call, answered, name, flow.branding)
    if form is not None:
        return form
    if call.request.path.startswith(PROVIDERS):
        return redirect(answered.url, 302)
    content = shipped_pages().page(
        "leave.html",
        call.language,
        brand=flow.branding,
        address=answered.url,
        **_words(call, answered, name, flow.branding),
    )
    return Answer(content, 200)


async def _stepped_up(call: AnyCall, postern: Postern, flow: Flow, outcome: UnfinishedAuthorization) -> Page:
    """Begins the same request again for what its scopes ask of the sign-in, in a new flow, because a flow takes one sign-in. The person is
    not asked again what they have allowed.
    """
    request = flow.request
    if outcome.agreed and outcome.signed_in is not None:
        request = {**request, AGREED: str(outcome.signed_in.user)}
        if outcome.signals is not None:
            request = {**request, AGREED_SIGNALS: outcome.signals.digest.hex()}
    asked = _wanted(outcome)
    wanted = replace(flow.wanted, prompt=Prompt.LOGIN, max_age=asked.max_age, second_factor=asked.second_factor)
    return await begin(call, postern, FlowPurpose.AUTHORIZE, request, wanted, service=flow.service)


async def _continued(call: AnyCall, postern: Postern, flow: Flow, caller: Caller) -> Page:
    """The person has signed in. With `form_post` the answer needs a page of its own, because the pages of the sign-in may not send a form
    to another site. The page that asks about memberships may.
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
    AuthorizationStep.ACCEPT_TERMS: ACCEPT_TERMS,
    AuthorizationStep.CONSENT: CONSENT,
    AuthorizationStep.TURN_AWAY: CONSENT,
}
_PROMPTS: Final = {
    AuthorizationStep.CREATE: Prompt.CREATE,
    AuthorizationStep.SIGN_IN: Prompt.LOGIN,
    AuthorizationStep.SECOND_FACTOR: Prompt.LOGIN,
}


async def _begun(call: AnyCall, postern: Postern, unfinished: UnfinishedAuthorization) -> Page:
    """Begins a flow that keeps the request while the person goes through the next steps."""
    request, application, step = unfinished.request, unfinished.application, unfinished.step
    await _tell_turned_away(call, postern, unfinished)
    wanted = _wanted(unfinished)
    if step in _PROMPTS:
        return await begin(
            call, postern, FlowPurpose.AUTHORIZE, stored(request), wanted, service=application.kept_service, expected=request.subject
        )
    browser, headers = browser_secret(call, postern)
    chosen = None if step is AuthorizationStep.CHOOSE_ACCOUNT or unfinished.signed_in is None else unfinished.signed_in.user
    service = application.kept_service
    flow = await postern.identity.flows.begin(browser, FlowPurpose.AUTHORIZE, stored(request), wanted, service=service, account=chosen)
    begun = to(_PLACES[step], flow)
    return Answer(begun.value, begun.status, (*begun.headers, *headers))


def _wanted(unfinished: UnfinishedAuthorization) -> Wanted:
    request, application, step = demanding(unfinished.request, unfinished.demand), unfinished.application, unfinished.step
    # A person who is already signed in must sign in again.
    again = unfinished.signed_in is not None or insists_on_sign_in(request)
    return Wanted(
        login_hint=request.login_hint or "",
        prompt=_PROMPTS.get(step) if again or step is not AuthorizationStep.SIGN_IN else None,
        max_age=request.max_age,
        second_factor=wants_second_factor(request),
        ui_locales=request.ui_locales,
        organization=application.organization_slug,
        service_name=application.name,
    )


def _form(call: AnyCall, answered: Answered, service_name: str, brand: Branding) -> Answer[bytes] | None:
    """The page whose form sends the answer to the application (OAuth 2.0 Form Post Response Mode). None when the answer goes in the
    address.
    """
    if answered.response_mode is not ResponseMode.FORM_POST:
        return None
    content = shipped_pages().leaving(
        call.language,
        brand=brand,
        action=answered.redirect_uri,
        fields=answered.fields,
        **_words(call, answered, service_name, brand),
    )
    return Answer(content, 200)


def _words(call: AnyCall, answered: Answered, service_name: str, brand: Branding) -> dict[str, str]:
    text = shipped_pages().text(call.language, brand)
    key = "leaving.title_to" if "code" in answered.fields else "going_back.title"
    return {"title": text(key, service=service_name), "label": text("common.continue")}
