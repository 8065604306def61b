"""`/ui/connections/test`: a test of an organization's own provider. It signs nobody in, and ends on a page with every check."""

import msgspec

from core.domain.identity.callers import Caller
from core.domain.identity.flows import FlowOver, form_token
from core.domain.identity.upstream.connection_tests import ConnectionTest, TestResult
from core.domain.identity.upstream.sign_in import OAuthError
from core.domain.secrets import Token
from core.usecases.tenancy.connections.trials import TEST_PAGE
from entrypoints.bootstrap import Postern
from entrypoints.http.machinery.answers import Answer
from entrypoints.http.machinery.browser_cookies import setup_secret
from entrypoints.http.machinery.browsers import IN_FLOW, FlowForm, bound_to
from entrypoints.http.machinery.calls import Call
from entrypoints.http.machinery.limits import PAGE_LOADS, PAGE_STEPS
from entrypoints.http.pages import shipped_pages
from entrypoints.http.pages.declaring import WITH_FORM, page
from entrypoints.http.pages.flows import AnyCall, Page, browser_secret


class TestLink(msgspec.Struct, frozen=True):
    state: str = ""


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


def _shown(call: AnyCall, test: ConnectionTest, result: TestResult, back: str) -> bytes:
    return shipped_pages().page("directory/test.html", call.language, name=test.name, result=result, back=back)
