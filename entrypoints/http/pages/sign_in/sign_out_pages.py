"""`/ui/sign-out`: ending a browser session, and all sessions that applications opened from it."""

from typing import Literal

import msgspec

from core.domain.federation.oauth.authorization_parameters import locales
from core.domain.identity.callers import Caller
from entrypoints.bootstrap import Postern
from entrypoints.http.machinery.answers import Answer, NoBody, redirect
from entrypoints.http.machinery.browser_cookies import acting_token, forget_acting, forget_session, keep_others
from entrypoints.http.machinery.browsers import SIGNING_ALL_OUT, SIGNING_OUT, BoundForm
from entrypoints.http.machinery.callers import ANYONE
from entrypoints.http.machinery.calls import Call
from entrypoints.http.machinery.fields import Line
from entrypoints.http.machinery.limits import UNLIMITED
from entrypoints.http.pages.kit.declaring import page
from entrypoints.http.pages.kit.flows import accounts_here
from entrypoints.http.pages.saml.logout_pages import SIGNED_OUT, sign_out_here, signed_out_page


class SignedOutLink(msgspec.Struct, frozen=True):
    ui_locales: Line = ""
    """The languages that the application asked for."""
    partly: Literal["", "yes"] = ""
    """Whether a service provider could not be told."""


@page.post("/ui/sign-out", caller=SIGNING_OUT, limit=UNLIMITED)
async def sign_out_of_browser(call: Call[BoundForm, None, None, Caller | None], postern: Postern) -> Answer[NoBody]:
    """Sign out, here and in all applications that you signed in to from here"""
    # A form's redirect may not lead to another site: a page of ours tells the service providers.
    onward, headers = await sign_out_here(call, postern)
    answer = redirect(onward or SIGNED_OUT)
    # The end of the session has ended the session in somebody's name, which was opened from it.
    base_url = postern.foundation.public_url
    acting = () if acting_token(call.request, base_url) is None else forget_acting(base_url)
    return Answer(answer.value, answer.status, (*answer.headers, *headers, *acting))


@page.post("/ui/sign-out/all", caller=SIGNING_ALL_OUT, limit=UNLIMITED)
async def sign_all_out_of_browser(call: Call[BoundForm, None, None, Caller | None], postern: Postern) -> Answer[NoBody]:
    """Sign out of all accounts of this browser, and of all applications that you signed in to from here"""
    onward, headers = await sign_out_here(call, postern, leaving=accounts_here(call, postern))
    base_url = postern.foundation.public_url
    forgotten = (*forget_session(base_url), *keep_others((), base_url))
    acting = () if acting_token(call.request, base_url) is None else forget_acting(base_url)
    answer = redirect(onward or SIGNED_OUT)
    return Answer(answer.value, answer.status, (*answer.headers, *headers, *forgotten, *acting))


@page.get(SIGNED_OUT, caller=ANYONE, limit=UNLIMITED)
def signed_out(call: Call[None, SignedOutLink], postern: Postern) -> bytes:
    """Say that the person is signed out"""
    call.request.asked_languages = locales(call.query.ui_locales)
    return signed_out_page(call, postern, partly=bool(call.query.partly))
