"""`/saml/sp/{connection_id}`: our side of an organization's directory by SAML.

`/auth/{connection_id}/password`: the page for the password of a directory by LDAP. What people type on any other page reaches no
directory.

`/ui/connections/test`: a test of an organization's own provider. It signs nobody in, and ends on a page with every check.
"""

from collections.abc import Mapping
from typing import Final
from urllib.parse import urlencode
from uuid import UUID

import msgspec

from core.domain.errors import BadRequest, NotFound, Overloaded, RateLimited, Refusal
from core.domain.identifiers import UpstreamProviderId
from core.domain.identity.callers import Caller
from core.domain.identity.flows import FlowOver, form_token
from core.domain.identity.upstream.connection_tests import ConnectionTest, TestResult
from core.domain.identity.upstream.directories import AskedPassword, Unsolicited
from core.domain.identity.upstream.ldap.answers import LONGEST_SIGN_IN_NAME, LONGEST_TYPED_PASSWORD, LdapStep
from core.domain.identity.upstream.providers import ProviderOff
from core.domain.identity.upstream.saml.assertions import LONGEST_PACKED_RESPONSE
from core.domain.identity.upstream.sign_in import OAuthError
from core.domain.saml import MessageRefused
from core.domain.secrets import Secret, Token
from core.usecases.tenancy.connections.answers import DirectoryReply
from core.usecases.tenancy.connections.trials import TEST_PAGE
from entrypoints.bootstrap import Postern
from entrypoints.http.machinery.accepts import Raw
from entrypoints.http.machinery.answers import Answer, NoBody, redirect
from entrypoints.http.machinery.browser_cookies import flow_secret, setup_secret
from entrypoints.http.machinery.browsers import IN_FLOW, SIGN_IN, FlowForm, bound_to
from entrypoints.http.machinery.callers import ANYONE
from entrypoints.http.machinery.calls import Call
from entrypoints.http.machinery.errors import Refused
from entrypoints.http.machinery.fields import Line
from entrypoints.http.machinery.limits import PAGE_LOADS, PAGE_SIGN_INS, PAGE_STEPS
from entrypoints.http.pages.authorization.authorization_pages import LEAVING
from entrypoints.http.pages.kit import shipped_pages
from entrypoints.http.pages.kit.declaring import IN_POPUP, WITH_FORM, Advised, WayOn, in_words, page
from entrypoints.http.pages.kit.flows import AnyCall, Page, browser_secret
from entrypoints.http.pages.saml import REQUEST, RESPONSE, SAML_FORM, has, in_address, in_form
from entrypoints.http.pages.saml.logout_pages import LogoutMessageQuery
from entrypoints.http.routes.tenancy.connections import DirectoryPath

_SP: Final = "/saml/sp/{connection_id}"
_ANSWER_FORM: Final = Raw("application/x-www-form-urlencoded", 2 * LONGEST_PACKED_RESPONSE)
_REFUSES: Final = (BadRequest, NotFound, Overloaded)


class StartQuery(msgspec.Struct, frozen=True):
    service: Line = ""
    """The slug of the organization's service that the person signs in to."""


def _advice(refused: Refused) -> str | Advised:
    match refused:
        case Unsolicited():
            return Advised("directory.unsolicited_advice", WayOn(f"/saml/sp/{refused.provider}/start", "directory.begin"))
        case MessageRefused() | NotFound() | ProviderOff():
            return "authorize.begin_again"
        case _:
            return ""


@page.post(
    f"{_SP}/acs",
    caller=ANYONE,
    limit=PAGE_STEPS,
    policy=IN_POPUP,
    advice=_advice,
    refuses=_REFUSES,
    accepts=_ANSWER_FORM,
    foreign=True,
    also={303: NoBody},
    tags=("saml",),
)
async def receive_directory_answer(call: Call[bytes, None, DirectoryPath], postern: Postern) -> Page:
    """Receive a SAML response for a sign-in

    The assertion consumer service. The response is validated at once. Then the browser continues with the sign-in that began in this
    browser. Unsolicited responses are rejected.
    """
    envelope = await in_form(call.body, RESPONSE)
    call.request.finish()
    provider = UpstreamProviderId(call.path.connection_id)
    return redirect(await postern.tenancy.directory_answers.receive(provider, envelope.packed, envelope.relay_state or ""), 303)


@page.get(
    f"{_SP}/start",
    caller=ANYONE,
    limit=PAGE_LOADS,
    advice=_advice,
    refuses=_REFUSES,
    also={303: NoBody},
    tags=("saml",),
)
async def begin_directory_sign_in(call: Call[None, StartQuery, DirectoryPath], postern: Postern) -> Page:
    """Begin a sign-in through a SAML identity provider

    The URL for a bookmark, or for the start URL at the identity provider: a sign-in always begins here. A page with a button comes first.
    """
    provider = UpstreamProviderId(call.path.connection_id)
    organization = await postern.tenancy.connections.organization_of(provider)
    query = {"org": organization, **({"service": call.query.service} if call.query.service else {})}
    return redirect(f"/auth/{provider}?{urlencode(query)}", 303)


@page.get(
    f"{_SP}/slo",
    caller=ANYONE,
    limit=PAGE_LOADS,
    policy=LEAVING,
    advice=_advice,
    refuses=(*_REFUSES, MessageRefused),
    also={302: NoBody},
    tags=("saml",),
)
async def sign_out_by_directory(call: Call[None, LogoutMessageQuery, DirectoryPath], postern: Postern) -> Page:
    """Sign a person out at the request of a SAML identity provider

    Single logout with the redirect binding. A signed request revokes the sessions that this identity provider opened for the person.
    """
    query = call.request.query_string
    if has(query, RESPONSE):
        return _signed_out(call)
    provider = UpstreamProviderId(call.path.connection_id)
    return _replied(call, await postern.tenancy.directory_logouts.asked(provider, in_address(query, REQUEST), call.client))


@page.post(
    f"{_SP}/slo",
    caller=ANYONE,
    limit=PAGE_STEPS,
    policy=LEAVING,
    advice=_advice,
    refuses=(*_REFUSES, MessageRefused),
    accepts=SAML_FORM,
    foreign=True,
    also={302: NoBody},
    tags=("saml",),
)
async def sign_out_by_directory_form(call: Call[bytes, None, DirectoryPath], postern: Postern) -> Page:
    """Sign a person out at the request of a SAML identity provider by POST

    The same with the POST binding.
    """
    if has(call.body, RESPONSE):
        return _signed_out(call)
    provider = UpstreamProviderId(call.path.connection_id)
    return _replied(call, await postern.tenancy.directory_logouts.asked(provider, await in_form(call.body, REQUEST), call.client))


def _replied(call: AnyCall, reply: DirectoryReply | None) -> Page:
    if reply is None:
        return _signed_out(call)
    pages = shipped_pages()
    text = pages.text(call.language)
    title, label = text("saml.signing_out", service=reply.name), text("common.continue")
    if reply.fields:
        return Answer(pages.leaving(call.language, action=reply.url, fields=reply.fields, title=title, label=label), 200)
    if call.request.method != "POST":
        return redirect(reply.url, 302)
    # Browsers apply the `form-action` of the page behind a form to the redirects that follow.
    return Answer(pages.page("leave.html", call.language, title=title, label=label, address=reply.url), 200)


def _signed_out(call: AnyCall) -> Answer[bytes]:
    pages = shipped_pages()
    text = pages.text(call.language)
    explained = pages.paragraphs("signed_out.text", call.language)
    return Answer(pages.said(text("signed_out.title"), explained, call.language, good=True, onward=SIGN_IN), 200)


PASSWORDS_AT: Final = "/auth/{connection_id}/password"


class DirectoryPasswordPath(msgspec.Struct, frozen=True):
    connection_id: UUID
    """The organization's provider."""


class DirectoryPasswordLink(msgspec.Struct, frozen=True):
    state: Line = ""
    login_hint: Line = ""
    """The name that stands in the form at first."""


class DirectoryPasswordForm(FlowForm, frozen=True, kw_only=True):
    """`flow` is the state with which the browser has left."""

    directory_name: Line = ""
    directory_password: Secret = Secret("")


@page.get(PASSWORDS_AT, caller=IN_FLOW, limit=PAGE_LOADS, policy=IN_POPUP, refuses=(FlowOver, ProviderOff))
async def show_directory_password(call: Call[None, DirectoryPasswordLink, DirectoryPasswordPath, Caller | None], postern: Postern) -> Page:
    """Ask for the password of an organization's directory"""
    state, browser = Token(call.query.state), flow_secret(call.request, postern.foundation.public_url)
    asked = await postern.tenancy.directory_passwords.find(UpstreamProviderId(call.path.connection_id), state, browser)
    return Answer(_page(call, asked, state, browser, typed=call.query.login_hint[:LONGEST_SIGN_IN_NAME]), 200)


@page.post(
    PASSWORDS_AT,
    caller=IN_FLOW,
    limit=PAGE_LOADS,
    attempt=PAGE_SIGN_INS,
    policy=IN_POPUP,
    refuses=(FlowOver, ProviderOff, OAuthError, BadRequest),
)
async def enter_directory_password(call: Call[DirectoryPasswordForm, None, DirectoryPasswordPath, Caller | None], postern: Postern) -> Page:
    """Sign in with the password of an organization's directory"""
    form, provider = call.body, UpstreamProviderId(call.path.connection_id)
    state, browser = Token(form.flow), flow_secret(call.request, postern.foundation.public_url)
    passwords = postern.tenancy.directory_passwords
    try:
        address = await passwords.enter(provider, state, browser, form.directory_name, form.directory_password, client=call.client)
    except (BadRequest, RateLimited, OAuthError) as refusal:
        if isinstance(refusal, FlowOver | ProviderOff):
            raise
        asked = await passwords.find(provider, state, browser)
        said = in_words(refusal, shipped_pages().text(call.language))
        typed = form.directory_name[:LONGEST_SIGN_IN_NAME]
        return Answer(_page(call, asked, state, browser, typed=typed, said=said), _status(refusal))
    text = shipped_pages().text(call.language)
    # A page in place of a redirect, since browsers apply `form-action` to all redirects behind a form.
    return Answer(
        shipped_pages().page(
            "leave.html", call.language, title=text("directory_password.page"), label=text("common.continue"), address=address
        ),
        200,
    )


def _status(refusal: Refusal) -> int:
    return 503 if isinstance(refusal, OAuthError) else 429 if isinstance(refusal, RateLimited) else 400


def _page(call: AnyCall, asked: AskedPassword, state: Token, browser: Token | None, *, typed: str, said: str = "") -> bytes:
    flow, directory = state.reveal(), asked.directory
    assert browser is not None  # noqa: S101 - for the type checker: without a browser, nothing was found
    cancelled = urlencode({"state": flow, "error": "access_denied"})
    return shipped_pages().page(
        "directory/password.html",
        call.language,
        name=directory.name,
        is_test=asked.test,
        typed=typed,
        errors={"": said} if said else {},
        action=PASSWORDS_AT.format(connection_id=directory.id),
        cancel=f"/auth/{directory.id}/callback?{cancelled}",
        flow=flow,
        form_token=form_token(browser, bound_to(flow)),
        longest=LONGEST_TYPED_PASSWORD,
        longest_name=LONGEST_SIGN_IN_NAME,
    )


class TestLink(msgspec.Struct, frozen=True):
    state: Line = ""


@page.get(TEST_PAGE, caller=IN_FLOW, limit=PAGE_LOADS, policy=WITH_FORM, refuses=(FlowOver,))
async def show_connection_test(call: Call[None, TestLink, None, Caller | None], postern: Postern) -> Page:
    """Ask before a test begins, and show its result afterwards"""
    state = Token(call.query.state)
    test = await postern.tenancy.connection_tests.find(state)
    browser, headers = browser_secret(call, postern)
    result = postern.tenancy.connection_tests.result(test, browser)
    body = _question(call, test, state, browser) if result is None else _shown(call, test, result, await _back(call, postern, test))
    return Answer(body, 200, headers)


@page.post(TEST_PAGE, caller=IN_FLOW, limit=PAGE_STEPS, refuses=(FlowOver, OAuthError))
async def begin_connection_test(call: Call[FlowForm, None, None, Caller | None], postern: Postern) -> Page:
    """Lead to the provider, for the test"""
    browser, headers = browser_secret(call, postern)
    address = await postern.tenancy.connection_tests.leave(Token(call.body.flow), browser)
    text = shipped_pages().text(call.language)
    # A page in place of a redirect: browsers apply the `form-action` of the page behind a form to the redirects that follow.
    body = shipped_pages().page(
        "leave.html", call.language, title=text("connection_test.leaving"), label=text("common.continue"), address=address
    )
    return Answer(body, 200, headers)


def _question(call: AnyCall, test: ConnectionTest, state: Token, browser: Token) -> bytes:
    flow = state.reveal()
    return shipped_pages().page(
        "directory/test.html",
        call.language,
        name=test.name,
        result=None,
        action=TEST_PAGE,
        flow=flow,
        form_token=form_token(browser, bound_to(flow)),
    )


async def _back(call: AnyCall, postern: Postern, test: ConnectionTest) -> str:
    """Where the person tests the provider: behind a set-up link of this browser, or in the console."""
    browser = setup_secret(call.request, postern.foundation.public_url)
    link = await postern.tenancy.setup_links.of_connection(test.provider, browser)
    return f"/ui/o/{test.organization_slug}/directories/{test.provider}" if link is None else f"/ui/setup/of/{link}/connection"


# Of each line of a test of a directory by LDAP, the field of its settings.
_FIELDS: Final[Mapping[str, str]] = {
    LdapStep.NAME: "hosts",
    LdapStep.CONNECTION: "hosts",
    LdapStep.START_TLS: "start_tls",
    LdapStep.CERTIFICATE: "ca_certificates",
    LdapStep.BIND: "bind_dn",
    LdapStep.BASE: "base_dn",
    LdapStep.FILTER: "person_filter",
    LdapStep.IDENTITY: "identity_attribute",
    LdapStep.ADDRESSES: "address_attribute",
    LdapStep.LOCKOUT: "accepts_lockouts",
    LdapStep.SIGN_IN: "sign_in_attributes",
}


def _shown(call: AnyCall, test: ConnectionTest, result: TestResult, back: str) -> bytes:
    in_console = not back.startswith("/ui/setup/")
    # The page with the form of the settings. A set-up link has all of them on its page.
    form = f"{back}/ldap" if in_console else back
    return shipped_pages().page(
        "directory/test.html",
        call.language,
        name=test.name,
        result=result,
        back=back,
        fields={name: f"{form}#{field}" for name, field in _FIELDS.items()},
        new_domain=f"/ui/o/{test.organization_slug}/directories/domains/~new" if in_console else "",
    )
