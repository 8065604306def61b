"""`/ui/connect/{provider}/{request}`: an application, or an organization's frontend, asks a person to connect an account at a provider.

The asking session must not connect an account in the person's place. So the answer must come from the browser in which the person is signed
in, after a fresh proof, and only that browser can come back from the provider.
"""

from typing import Annotated, Any, Final

import msgspec

from core.domain.federation.oauth.authorizations import destination, with_query
from core.domain.identity.flows import FlowOver
from core.domain.identity.proofs import StepUp
from core.domain.identity.upstream.identities import CANCELLED, LinkRequest
from core.domain.identity.upstream.providers import ProviderOff, UnknownProvider
from core.domain.identity.upstream.sign_in import OAuthError
from entrypoints.bootstrap import Postern
from entrypoints.http.machinery.answers import Answer
from entrypoints.http.machinery.browsers import ANOTHER, BROWSER, BoundForm, sign_in_again, token_for
from entrypoints.http.machinery.calls import Call
from entrypoints.http.machinery.fields import example
from entrypoints.http.machinery.limits import PAGE_LOADS, PAGE_STEPS
from entrypoints.http.pages import account_of, shipped_pages
from entrypoints.http.pages.declaring import WITH_FORM, page
from entrypoints.http.pages.flows import browser_secret
from entrypoints.http.pages.refusals import in_words
from entrypoints.http.pages.sign_in.providers import back_to_asker

_PLACE: Final = "/ui/connect"
_PAGE: Final = f"{_PLACE}/{{provider}}/{{request}}"
_REFUSES: Final = (FlowOver, UnknownProvider, ProviderOff)


class LinkRequestPath(msgspec.Struct, frozen=True):
    provider: Annotated[str, example("codehost")]
    request: str


def address(postern: Postern, provider: str, request: str) -> str:
    """The address of the page on which the person answers."""
    return f"{postern.foundation.public_url}{_PLACE}/{provider}/{request}"


@page.get(_PAGE, caller=BROWSER, limit=PAGE_LOADS, policy=WITH_FORM, step_up=StepUp.ACCOUNT, refuses=_REFUSES)
async def show_link_request(call: Call[None, None, LinkRequestPath], postern: Postern) -> Answer[bytes]:
    """Ask whether to connect an account at a provider, for an application that wants it"""
    asked = await _asked(call, postern)
    return _another_account(call) if asked is None else Answer(_page(call, postern, asked), 200)


@page.post(_PAGE, caller=BROWSER, limit=PAGE_STEPS, policy=WITH_FORM, step_up=StepUp.ACCOUNT, refuses=_REFUSES)
async def allow_link_request(call: Call[BoundForm, None, LinkRequestPath], postern: Postern) -> Answer[bytes]:
    """Leave for a provider, to connect the account there"""
    browser, headers = browser_secret(call, postern)
    try:
        place = await postern.identity.link_requests.leave(call.path.provider, call.path.request, call.caller, browser)
    except OAuthError as refusal:
        asked = await _asked(call, postern)
        return _another_account(call) if asked is None else Answer(_page(call, postern, asked, refusal), 400)
    if place is None:
        return _another_account(call)
    text = shipped_pages().text(call.language)
    content = shipped_pages().page("leave.html", call.language, title=text("leaving.title"), label=text("common.continue"), address=place)
    return Answer(content, 200, headers)


async def _asked(call: Call[Any, None, LinkRequestPath], postern: Postern) -> LinkRequest | None:
    return await postern.identity.link_requests.find(call.path.provider, call.path.request, call.caller)


def _page(call: Call[Any, None, LinkRequestPath], postern: Postern, asked: LinkRequest, refusal: OAuthError | None = None) -> bytes:
    text = shipped_pages().text(call.language)
    place = back_to_asker(postern, asked.asker.redirect_uri)
    told = {"status": "error", "provider": asked.provider, "action": "link", "error": CANCELLED}
    return shipped_pages().page(
        "authorization/link_request.html",
        call.language,
        action=call.request.path,
        form_token=token_for(BROWSER, call.request, postern),
        provider=asked.name,
        application=asked.asker.application,
        organization=asked.asker.organization,
        **account_of(call.caller),
        destination=destination(place),
        cancelled=with_query(place, told),
        errors={} if refusal is None else {"": in_words(refusal, text)},
    )


def _another_account(call: Call[Any, None, LinkRequestPath]) -> Answer[bytes]:
    """The page for a person who is not the one that the request names."""
    text = shipped_pages().text(call.language)
    email, name = call.caller.email.address, call.caller.profile.shown_name
    content = shipped_pages().page(
        "outcome.html",
        call.language,
        good=False,
        title=text("link_request.another_title"),
        explained=text("link_request.another_text", email=f"{text.isolated(name)} ({email})" if name else email),
        onward=sign_in_again(call.request.path, ANOTHER),
    )
    return Answer(content, 403)
