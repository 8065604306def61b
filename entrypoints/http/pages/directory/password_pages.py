"""`/auth/{connection_id}/password`: the page for the password of a directory by LDAP. What people type on any other page reaches no
directory.
"""

from typing import Final
from urllib.parse import urlencode
from uuid import UUID

import msgspec

from core.domain.errors import BadRequest, RateLimited, Refusal
from core.domain.identifiers import UpstreamProviderId
from core.domain.identity.callers import Caller
from core.domain.identity.flows import FlowOver, form_token
from core.domain.identity.upstream.directories import AskedPassword
from core.domain.identity.upstream.ldap.answers import LONGEST_SIGN_IN_NAME, LONGEST_TYPED_PASSWORD
from core.domain.identity.upstream.providers import ProviderOff
from core.domain.identity.upstream.sign_in import OAuthError
from core.domain.secrets import Secret, Token
from entrypoints.bootstrap import Postern
from entrypoints.http.machinery.answers import Answer
from entrypoints.http.machinery.browser_cookies import flow_secret
from entrypoints.http.machinery.browsers import IN_FLOW, FlowForm, bound_to
from entrypoints.http.machinery.calls import Call
from entrypoints.http.machinery.limits import PAGE_LOADS, PAGE_SIGN_INS
from entrypoints.http.pages import shipped_pages
from entrypoints.http.pages.declaring import IN_POPUP, page
from entrypoints.http.pages.flows import AnyCall, Page
from entrypoints.http.pages.refusals import in_words

AT: Final = "/auth/{connection_id}/password"


class DirectoryPasswordPath(msgspec.Struct, frozen=True):
    connection_id: UUID
    """The organization's provider."""


class DirectoryPasswordLink(msgspec.Struct, frozen=True):
    state: str = ""
    login_hint: str = ""
    """The name that stands in the form at first."""


class DirectoryPasswordForm(FlowForm, frozen=True, kw_only=True):
    """`flow` is the state with which the browser has left."""

    directory_name: str = ""
    directory_password: Secret = Secret("")


@page.get(AT, caller=IN_FLOW, limit=PAGE_LOADS, policy=IN_POPUP, refuses=(FlowOver, ProviderOff))
async def show_directory_password(call: Call[None, DirectoryPasswordLink, DirectoryPasswordPath, Caller | None], postern: Postern) -> Page:
    """Ask for the password of an organization's directory"""
    state, browser = Token(call.query.state), flow_secret(call.request, postern.foundation.public_url)
    asked = await postern.tenancy.directory_passwords.find(UpstreamProviderId(call.path.connection_id), state, browser)
    return Answer(_page(call, asked, state, browser, typed=call.query.login_hint[:LONGEST_SIGN_IN_NAME]), 200)


@page.post(
    AT, caller=IN_FLOW, limit=PAGE_LOADS, attempt=PAGE_SIGN_INS, policy=IN_POPUP, refuses=(FlowOver, ProviderOff, OAuthError, BadRequest)
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
        action=AT.format(connection_id=directory.id),
        cancel=f"/auth/{directory.id}/callback?{cancelled}",
        flow=flow,
        form_token=form_token(browser, bound_to(flow)),
        longest=LONGEST_TYPED_PASSWORD,
        longest_name=LONGEST_SIGN_IN_NAME,
    )
