"""`/saml/…/slo`: sign-out at a service provider's request, and telling the other service providers."""

from collections.abc import Sequence
from typing import Final
from urllib.parse import urlencode
from uuid import UUID

import msgspec
from markupsafe import Markup

from core.domain.errors import NotFound, OrganizationNotActive, Overloaded
from core.domain.identifiers import FlowId
from core.domain.identity.browser_sessions import BrowserAccount, origins
from core.domain.identity.callers import Caller
from core.domain.identity.flows import FlowOver
from core.domain.identity.sign_in import ServiceName
from core.domain.saml import MessageRefused
from core.domain.secrets import Token
from core.frozen import replace
from core.usecases.federation.saml.logouts import Bounced, FinishedLogout, FramedLogout, Next, OnwardInBrowser, ServiceMessage
from entrypoints.bootstrap import Postern
from entrypoints.http.machinery.answers import Answer, Headers, NoBody, redirect
from entrypoints.http.machinery.browser_cookies import forget_bound, forget_session, keep_others, other_tokens, session_token
from entrypoints.http.machinery.browsers import ACCOUNTS, BROWSER_OR_NOBODY, SIGN_IN, bound_key
from entrypoints.http.machinery.callers import ANYONE
from entrypoints.http.machinery.calls import Call
from entrypoints.http.machinery.fields import Parameter, ServicePath
from entrypoints.http.machinery.limits import PAGE_LOADS, PAGE_STEPS
from entrypoints.http.pages.authorization.authorization_pages import LEAVING
from entrypoints.http.pages.kit import shipped_pages
from entrypoints.http.pages.kit.declaring import page
from entrypoints.http.pages.kit.flows import AnyCall, FlowLink, Page, browser_secret, in_this_browser, speak_as_asked
from entrypoints.http.pages.saml import REQUEST, RESPONSE, SAML_FORM, address, has, in_address, in_form
from entrypoints.http.pages.saml.sign_in_pages import advice, has_cookies, own_caller

_SLO: Final = "/saml/{org_slug}/{service_slug}/slo"
_SIGN_OUT_ONWARD: Final = "/ui/saml/sign-out"
SIGNED_OUT: Final = "/ui/signed-out"
# Nobody waits longer for an application that does not answer.
SECONDS_FOR_FRAMES: Final = 2
_REFUSES: Final = (MessageRefused, FlowOver, NotFound, OrganizationNotActive, Overloaded)


class LogoutMessageQuery(msgspec.Struct, frozen=True):
    """The parameters, for the API description. The handler reads them by the rules of SAML, which are stricter."""

    SAMLRequest: Parameter = ""
    """A logout request, compressed by DEFLATE, in base64."""
    SAMLResponse: Parameter = ""
    """The response to a request of Postern, compressed by DEFLATE, in base64."""
    RelayState: Parameter = ""
    """An opaque value that the response repeats."""
    SigAlg: Parameter = ""
    """The algorithm of the query's signature: `http://www.w3.org/2001/04/xmldsig-more#rsa-sha256`."""
    Signature: Parameter = ""
    """The signature, in base64."""


@page.get(
    _SLO,
    caller=BROWSER_OR_NOBODY,
    limit=PAGE_LOADS,
    policy=LEAVING,
    advice=advice,
    refuses=_REFUSES,
    also={302: NoBody, 303: NoBody},
    tags=("saml",),
)
async def sign_out_by_saml(call: Call[None, LogoutMessageQuery, ServicePath, Caller | None], postern: Postern) -> Page:
    """Sign a person out by SAML

    Single logout with the redirect binding, for requests and for responses to Postern's requests. A signed request revokes the sessions of
    the person that it names. A request without a signature, or signed by an unknown certificate, revokes only the sessions of this browser.
    Then Postern notifies the other service providers of the session in turn, and sends a signed response to the one that asked.
    """
    place = ServiceName(call.path.org_slug, call.path.service_slug)
    query = call.request.query_string
    browser, headers = browser_secret(call, postern)
    if has(query, RESPONSE):
        return led_on(call, postern, await postern.federation.saml_logouts.answered(place, in_address(query, RESPONSE), browser))
    envelope = in_address(query, REQUEST)
    return led_on(
        call, postern, await postern.federation.saml_logouts.asked(place, envelope, call.presented, call.client, browser=browser), headers
    )


@page.post(
    _SLO,
    caller=ANYONE,
    limit=PAGE_STEPS,
    policy=LEAVING,
    advice=advice,
    refuses=_REFUSES,
    accepts=SAML_FORM,
    foreign=True,
    also={302: NoBody, 303: NoBody},
    tags=("saml",),
)
async def sign_out_by_saml_form(call: Call[bytes, None, ServicePath], postern: Postern) -> Page:
    """Sign a person out by SAML with a form

    The same with the POST binding. If the outcome depends on the person in this browser, the response is a redirect to a GET, because
    browsers send no cookies with a cross-site form.
    """
    place = ServiceName(call.path.org_slug, call.path.service_slug)
    browser: Token | None = None
    headers: Headers = ()
    if has_cookies(call.request, postern):
        browser, headers = browser_secret(call, postern)
    if has(call.body, RESPONSE):
        return led_on(call, postern, await postern.federation.saml_logouts.answered(place, await in_form(call.body, RESPONSE), browser))
    envelope = await in_form(call.body, REQUEST)
    caller = await own_caller(call.request, postern)
    outcome = await postern.federation.saml_logouts.asked(place, envelope, caller, call.client, browser=browser)
    if isinstance(outcome, Bounced):
        path = _SLO.format(org_slug=place.organization, service_slug=place.service)
        return redirect(await address(path, REQUEST, envelope))
    return led_on(call, postern, outcome, headers)


async def sign_out_here(
    call: AnyCall, postern: Postern, way_back: str | None = None, leaving: Sequence[BrowserAccount] = ()
) -> tuple[str | None, Headers]:
    """Ends the session of the account that is in use in this browser, or the sessions of the accounts that are `leaving`. Returns the
    address of the page that tells the applications which hear of it in the browser, None if there are none, and the headers of the answer.
    That page finally leads to `way_back`.
    """
    caller: Caller | None = call.request.caller
    if leaving:
        return await _sign_accounts_out(call, postern, way_back, leaving)
    logouts = postern.federation.saml_logouts
    browser, kept = browser_secret(call, postern)
    flow = None if caller is None else await logouts.sign_out(caller, call.client, browser, way_back, call.request.asked_languages)
    if flow is None and not kept:
        # After a double click, the second request finds no session to end. The browser shows its answer, so it must lead to the same flow.
        flow = await logouts.begun(browser)
    base_url = postern.foundation.public_url
    # A request of another site's page brings no cookie. Its browser keeps its session cookie.
    headers = () if session_token(call.request, base_url) is None else (*forget_session(base_url), *forget_bound(call.request, base_url))
    return (None, headers) if flow is None else (f"{_SIGN_OUT_ONWARD}?flow={flow.id}", (*headers, *kept))


async def _sign_accounts_out(
    call: AnyCall, postern: Postern, way_back: str | None, leaving: Sequence[BrowserAccount]
) -> tuple[str | None, Headers]:
    """Each account has a sign-out of its own, whose page leads to the next one's."""
    base_url, request = postern.foundation.public_url, call.request
    browser, headers = browser_secret(call, postern)
    onward = None
    for account in reversed(leaving):
        flow = await postern.federation.saml_logouts.sign_out(account.caller, call.client, browser, way_back, request.asked_languages)
        if flow is not None:
            way_back = onward = f"{_SIGN_OUT_ONWARD}?flow={flow.id}"
    left = {account.token.reveal() for account in leaving}
    present, others = session_token(request, base_url), other_tokens(request, base_url)
    if present is not None and present.reveal() in left:
        headers = (*headers, *forget_session(base_url))
    headers = (*headers, *forget_bound(request, base_url))
    if any(token.reveal() in left for token in others):
        headers = (*headers, *keep_others([token for token in others if token.reveal() not in left], base_url))
    return onward, headers


@page.get(_SIGN_OUT_ONWARD, caller=BROWSER_OR_NOBODY, limit=PAGE_LOADS, policy=LEAVING, advice=advice, refuses=_REFUSES)
async def tell_service_providers(call: Call[None, FlowLink, None, Caller | None], postern: Postern) -> Page:
    """Tell the applications and service providers of a session that it has ended"""
    try:
        flow = await in_this_browser(call, postern, call.query.flow)
    except FlowOver:
        return await _claimed(call, postern)
    speak_as_asked(call, flow)
    return led_on(call, postern, await postern.federation.saml_logouts.go_on(flow))


async def _claimed(call: Call[None, FlowLink, None, Caller | None], postern: Postern) -> Page:
    """A sign-out that began with the form of another site, now with this browser's cookies."""
    browser, headers = browser_secret(call, postern)
    session = session_token(call.request, postern.foundation.public_url)
    try:
        flow = FlowId(UUID(call.query.flow))
    except ValueError:
        raise FlowOver from None
    bound = await bound_key(call.request, postern)
    return led_on(call, postern, await postern.federation.saml_logouts.claim(flow, browser, session, bound), headers)


def led_on(call: AnyCall, postern: Postern, outcome: Next, headers: Headers = ()) -> Page:
    """Leads to the next service provider, or to the page that confirms the sign-out."""
    answer = _message_page(call, postern, outcome)
    return replace(answer, headers=(*answer.headers, *headers))


def _message_page(call: AnyCall, postern: Postern, outcome: Next) -> Answer[bytes] | Answer[NoBody]:
    pages = shipped_pages()
    text = pages.text(call.language)
    if isinstance(outcome, OnwardInBrowser):
        return redirect(f"{_SIGN_OUT_ONWARD}?flow={outcome.flow}")
    if isinstance(outcome, ServiceMessage):
        title, label = text("saml.signing_out", service=outcome.service_name), text("common.continue")
        if outcome.fields:
            return Answer(pages.leaving(call.language, action=outcome.url, fields=outcome.fields, title=title, label=label), 200)
        return _at(call, outcome.url, 302, title)
    if isinstance(outcome, FramedLogout):
        return _framed(call, outcome)
    if isinstance(outcome, FinishedLogout) and outcome.way_back is not None:
        return _at(call, outcome.way_back, 303, text("signed_out.title"))
    return _ended(call, postern, partly=not isinstance(outcome, Bounced) and outcome.partial)


def _ended(call: AnyCall, postern: Postern, *, partly: bool) -> Answer[bytes] | Answer[NoBody]:
    if call.request.method == "POST":
        # The form of another site brings no cookies, so only the next request tells whether other accounts stay.
        return redirect(signed_out_place(call, partly=partly))
    return Answer(signed_out_page(call, postern, partly=partly), 200)


def signed_out_page(call: AnyCall, postern: Postern, *, partly: bool = False) -> bytes:
    """Says that the person is signed out, and whether other accounts of this browser stay."""
    pages = shipped_pages()
    text = pages.text(call.language)
    explained = pages.paragraphs("saml.signed_out_partly" if partly else "signed_out.text", call.language)
    if other_tokens(call.request, postern.foundation.public_url):
        # Whoever leaves a shared computer must not believe that nobody is signed in there any more.
        explained, onward = Markup("{} {}").format(explained, text("accounts.others_stay")), ACCOUNTS
        return pages.said(text("signed_out.title"), explained, call.language, good=True, onward=onward, label=text("accounts.see"))
    return pages.said(text("signed_out.title"), explained, call.language, good=True, onward=SIGN_IN)


def _framed(call: AnyCall, outcome: FramedLogout) -> Answer[bytes]:
    """The page that loads pages of applications, each in a frame, and leads on by itself."""
    end = outcome.end
    onward = end.way_back or signed_out_place(call, partly=end.partial)
    if outcome.goes_on is not None:
        onward = f"{_SIGN_OUT_ONWARD}?flow={outcome.goes_on}"
    content = shipped_pages().page(
        "saml/signing_out.html", call.language, frames=outcome.frames, seconds=SECONDS_FOR_FRAMES, address=onward
    )
    return Answer(content, 200, policy=replace(LEAVING, frames=origins(outcome.frames)))


def signed_out_place(call: AnyCall, *, partly: bool = False) -> str:
    """The address of the page that says that the person is signed out, in the languages that the application asked for."""
    locales = " ".join(call.request.asked_languages)
    said = {**({"ui_locales": locales} if locales else {}), **({"partly": "yes"} if partly else {})}
    return f"{SIGNED_OUT}?{urlencode(said)}" if said else SIGNED_OUT


def _at(call: AnyCall, address: str, status: int, title: str) -> Answer[bytes] | Answer[NoBody]:
    """A page instead of a redirect: browsers apply the `form-action` of our page to the whole chain of redirects behind its form."""
    if call.request.path != _SIGN_OUT_ONWARD and call.request.method != "POST":
        return redirect(address, status)
    pages = shipped_pages()
    label = pages.text(call.language)("common.continue")
    return Answer(pages.page("leave.html", call.language, title=title, label=label, address=address), 200)
