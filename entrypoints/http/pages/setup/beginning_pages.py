"""`/ui/setup/{token}`: the page with the button. A mail scanner that opens the link does nothing; the first browser that presses the button
owns the link, and goes on at an address without the token.
"""

from urllib.parse import quote

import msgspec

from core.domain.errors import BadRequest, RateLimited
from core.domain.identity.flows import form_token
from core.domain.secrets import Token
from core.domain.tenancy.setup import LONGEST_USER, KnownSetupLink, SetupLinkRefused, SetupLinkUnknown, require_browser
from entrypoints.bootstrap import Postern
from entrypoints.http.machinery.answers import NO_BODY, Answer, Headers, redirect
from entrypoints.http.machinery.browser_cookies import keep_setup_secret, setup_secret
from entrypoints.http.machinery.browsers import BoundForm
from entrypoints.http.machinery.calls import Call
from entrypoints.http.machinery.limits import PAGE_LOADS, PAGE_STEPS
from entrypoints.http.pages import shipped_pages
from entrypoints.http.pages.declaring import WITH_FORM, page
from entrypoints.http.pages.refusals import in_words
from entrypoints.http.pages.setup import PLACE, Page, advice
from entrypoints.http.pages.setup.visitors import SETUP_BROWSER

_HERE = "/ui/setup/{token}"


class SetupToken(msgspec.Struct, frozen=True):
    token: Token


class BeginForm(BoundForm, frozen=True, kw_only=True):
    name: str = ""


@page.get(_HERE, caller=SETUP_BROWSER, limit=PAGE_LOADS, policy=WITH_FORM, advice=advice, refuses=(SetupLinkRefused, SetupLinkUnknown))
async def show_setup(call: Call[None, None, SetupToken, KnownSetupLink], postern: Postern) -> Page:
    """Show what a set-up link is for, with the button that begins

    This looks up the link and leaves it usable, however often a program opens it.
    """
    known = await postern.tenancy.setup_links.look(call.path.token)
    call.speak_for(known.branding)
    browser = setup_secret(call.request, postern.foundation.public_url)
    if browser is not None and known.browser_digest == browser.digest():
        return redirect(PLACE.format(link_id=known.link.id))
    if known.browser_digest is not None or known.link.finished_at is not None:
        require_browser(known, None)
    return _page(call, postern, known)


@page.post(
    _HERE,
    caller=SETUP_BROWSER,
    limit=PAGE_STEPS,
    policy=WITH_FORM,
    advice=advice,
    refuses=(BadRequest, RateLimited, SetupLinkRefused, SetupLinkUnknown),
)
async def begin_setup(call: Call[BeginForm, None, SetupToken, KnownSetupLink], postern: Postern) -> Page:
    """Bind a set-up link to this browser"""
    browser = setup_secret(call.request, postern.foundation.public_url)
    if browser is None:
        # The form was not bound to a cookie, so it has not come this far.
        raise SetupLinkUnknown
    try:
        link = await postern.tenancy.setup_links.begin(call.path.token, browser, call.body.name, call.actor)
    except BadRequest as refusal:
        known = await postern.tenancy.setup_links.look(call.path.token)
        call.speak_for(known.branding)
        said = in_words(refusal, shipped_pages().text(call.language))
        return _page(call, postern, known, call.body.name, said)
    onward = redirect(PLACE.format(link_id=link.id)).headers
    return Answer(NO_BODY, 303, (*onward, *keep_setup_secret(browser, postern.foundation.public_url)))


def _page(
    call: Call[BeginForm, None, SetupToken, KnownSetupLink] | Call[None, None, SetupToken, KnownSetupLink],
    postern: Postern,
    known: KnownSetupLink,
    name: str = "",
    error: str = "",
) -> Page:
    browser = setup_secret(call.request, postern.foundation.public_url)
    headers: Headers = ()
    if browser is None:
        browser = postern.foundation.secrets.token()
        headers = keep_setup_secret(browser, postern.foundation.public_url)
    content = shipped_pages().page(
        "setup/begin.html",
        call.language,
        brand=known.branding,
        link=known.link,
        action=f"/ui/setup/{quote(call.path.token.reveal())}",
        form_token=form_token(browser, "setup"),
        errors={"name": error} if error else {},
        name=name,
        longest=LONGEST_USER,
    )
    return Answer(content, 400 if error else 200, headers)
