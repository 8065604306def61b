"""`/oauth/logout`: sign-out at an application's request (OpenID Connect RP-Initiated Logout 1.0)."""

from typing import Final, Literal
from urllib.parse import urlencode

import msgspec

from core.domain.branding import POSTERN
from core.domain.federation.logouts import OidcLogoutRequest, WayBackUnknown, logout_request
from core.domain.federation.oauth.authorization_steps import RequestingApplication
from core.domain.federation.oauth.oidc import END_SESSION_ENDPOINT
from core.domain.identity.callers import Caller
from core.usecases.federation.logouts import Farewell
from entrypoints.bootstrap import Postern
from entrypoints.http.machinery.answers import Answer, Headers, NoBody, redirect
from entrypoints.http.machinery.browsers import BROWSER_OR_NOBODY, BROWSER_WITH_OTHERS, HOME, SIGNING_OUT, BoundForm, token_for
from entrypoints.http.machinery.callers import ANYONE
from entrypoints.http.machinery.calls import Call
from entrypoints.http.machinery.errors import Refused
from entrypoints.http.machinery.fields import Parameter
from entrypoints.http.machinery.limits import PAGE_LOADS, PAGE_STEPS
from entrypoints.http.pages.authorization.authorization_pages import FOREIGN_FORM, pairs
from entrypoints.http.pages.kit import account_of, shipped_pages
from entrypoints.http.pages.kit.declaring import TO_ACCOUNT, WITH_FORM, Advised, page
from entrypoints.http.pages.kit.flows import AnyCall, Page
from entrypoints.http.pages.saml.logout_pages import sign_out_here, signed_out_place

_CONFIRM: Final = f"{END_SESSION_ENDPOINT}/confirm"


class LogoutQuery(msgspec.Struct, frozen=True):
    """The parameters, for the API description. Unreadable parameters count as left out."""

    id_token_hint: Parameter = ""
    """An ID token that the service received for the person; it may be expired. With it, the person is not asked to confirm."""
    client_id: Parameter = ""
    """The client ID of the service."""
    post_logout_redirect_uri: Parameter = ""
    """Where the person goes afterwards: one of the service's `post_logout_redirect_uris`, or, if it has none, one of its redirect URIs. The
    URI must match byte for byte, and is used only if the request identifies the service.
    """
    state: Parameter = ""
    """An opaque value that the redirect repeats."""
    ui_locales: Parameter = ""
    """The preferred languages of the pages, the most preferred first."""


class SignOutForm(BoundForm, frozen=True, kw_only=True):
    answer: Literal["yes", "no"] = "no"
    client_id: Parameter = ""
    post_logout_redirect_uri: Parameter = ""
    state: Parameter = ""
    ui_locales: Parameter = ""


def _advice(refused: Refused) -> str | Advised:
    return Advised("logout.unregistered", TO_ACCOUNT) if isinstance(refused, WayBackUnknown) else ""


@page.get(
    END_SESSION_ENDPOINT,
    caller=BROWSER_WITH_OTHERS,
    limit=PAGE_LOADS,
    policy=WITH_FORM,
    advice=_advice,
    refuses=(WayBackUnknown,),
    also={303: NoBody},
    tags=("oauth",),
)
async def end_session(call: Call[None, LogoutQuery, None, Caller | None], postern: Postern) -> Page:
    """Sign a person out

    The end session endpoint: send the person's browser here. It revokes the session in the browser, and all sessions that services opened
    from it, except those with `offline_access`. Without a matching `id_token_hint`, the person confirms first. The person's SAML service
    providers are notified, and so are applications with a `frontchannel_logout_uri`, in frames of a page that waits for two seconds at
    most. Then the person goes to `post_logout_redirect_uri`, with `state`, or stays on a confirmation page. If several accounts are signed
    in in the browser, only the account of the hint, or else the current one, is signed out.
    """
    asked = logout_request(pairs(call.request.query_string))
    farewell = await _farewell(call, postern, asked)
    other = next((one for one in call.request.others or () if one.caller.user == farewell.person), None)
    if other is None and call.presented is not None and farewell.must_ask:
        return Answer(_question(call, postern, call.presented, farewell, asked), 200)
    leaving = () if other is None else (other,)
    onward, headers = await sign_out_here(call, postern, farewell.way_back, leaving)
    return Answer(*_plain(redirect(onward or farewell.way_back or signed_out_place(call)), headers))


@page.post(END_SESSION_ENDPOINT, caller=ANYONE, limit=PAGE_STEPS, accepts=FOREIGN_FORM, foreign=True, status=303, tags=("oauth",))
def end_session_by_form(call: Call[bytes], _postern: Postern) -> Answer[NoBody]:
    """Sign a person out by a form

    The form has the same parameters as the query of a GET. Browsers send no cookies with a cross-site form, so the response redirects to
    this URL with the parameters in its query.
    """
    return redirect(f"{END_SESSION_ENDPOINT}?{urlencode(pairs(call.body))}")


@page.post(_CONFIRM, caller=SIGNING_OUT, limit=PAGE_STEPS, policy=WITH_FORM, advice=_advice, refuses=(WayBackUnknown,))
async def confirm_logout(call: Call[SignOutForm, None, None, Caller | None], postern: Postern) -> Page:
    """Sign out, or stay"""
    form = call.body
    if form.answer == "no":
        return redirect(HOME)
    kept = ("client_id", "post_logout_redirect_uri", "state", "ui_locales")
    asked = logout_request([(name, getattr(form, name)) for name in kept])
    farewell = await _farewell(call, postern, asked)
    onward, headers = await sign_out_here(call, postern, farewell.way_back)
    if onward is not None or farewell.way_back is None:
        return Answer(*_plain(redirect(onward or signed_out_place(call)), headers))
    # A page instead of a redirect: browsers apply the `form-action` of our page to redirects.
    return Answer(_leaving(call, farewell.application, farewell.way_back), 200, headers)


async def _farewell(call: AnyCall, postern: Postern, asked: OidcLogoutRequest) -> Farewell:
    call.request.asked_languages = asked.ui_locales
    farewell = await postern.federation.logouts.look(asked, call.presented)
    if farewell.application is not None:
        call.speak_for(farewell.application.branding)
    return farewell


def _plain(answer: Answer[NoBody], headers: Headers) -> tuple[NoBody, int, Headers]:
    return answer.value, answer.status, (*answer.headers, *headers)


def _question(call: AnyCall, postern: Postern, caller: Caller, farewell: Farewell, asked: OidcLogoutRequest) -> bytes:
    application = farewell.application
    kept: dict[str, str | None] = {"ui_locales": " ".join(asked.ui_locales)}
    if application is not None:
        kept |= {"post_logout_redirect_uri": asked.post_logout_redirect_uri, "state": asked.state}
        kept["client_id"] = application.registered.client_id
    brand = {} if application is None else {"brand": application.branding}
    return shipped_pages().page(
        "sign_in/sign_out.html",
        call.language,
        action=_CONFIRM,
        form_token=token_for(BROWSER_OR_NOBODY, call.request, postern),
        hidden={name: value for name, value in kept.items() if value},
        service="" if application is None else application.name,
        **account_of(caller),
        **brand,
    )


def _leaving(call: AnyCall, application: RequestingApplication | None, address: str) -> bytes:
    pages = shipped_pages()
    brand = POSTERN if application is None else application.branding
    text = pages.text(call.language, brand)
    return pages.page(
        "leave.html", call.language, brand=brand, title=text("signed_out.title"), label=text("common.continue"), address=address
    )
