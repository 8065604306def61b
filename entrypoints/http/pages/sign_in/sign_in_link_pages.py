"""`/ui/sign-in/link`: the page behind a sign-in link. Opening the link shows a button, and only the button uses the link up. In the browser
that asked for the link, the button also continues the person's task there.

`/ui/check-mail/code`: the code beside a mailed link, typed in the browser that asked for the mail. The code does what the link does: it
signs in, confirms an address, or leads to the page that sets a new password. It is worth nothing in any other browser.
"""

from collections.abc import Mapping
from typing import Annotated
from urllib.parse import urlencode

import msgspec

from core.domain.errors import BadRequest, RateLimited
from core.domain.federation.oauth.oidc import AUTHORIZATION_ENDPOINT
from core.domain.formats import Json
from core.domain.identity.account_mails import LinkRefused, MailedTokenPurpose, read_code
from core.domain.identity.callers import Caller
from core.domain.identity.flows import Flow, FlowOver, FlowPurpose, Wanted, form_token
from core.domain.identity.realms import ProviderRequired
from core.domain.mail import Email
from core.domain.secrets import Secret, Token
from entrypoints.bootstrap import Postern
from entrypoints.http.machinery.answers import Answer, redirect
from entrypoints.http.machinery.browsers import IN_FLOW, FlowForm, bound_to
from entrypoints.http.machinery.calls import Call
from entrypoints.http.machinery.errors import Refused
from entrypoints.http.machinery.fields import Line
from entrypoints.http.machinery.limits import PAGE_LOADS, PAGE_SIGN_INS, UNLIMITED
from entrypoints.http.pages.kit import shipped_pages
from entrypoints.http.pages.kit.declaring import IN_POPUP, TO_SIGN_IN, Advised, in_words, page
from entrypoints.http.pages.kit.flows import (
    LINK,
    SECOND_FACTOR,
    TO_APPLICATION,
    AnyCall,
    Page,
    browser_secret,
    first_to_end,
    flow_of,
    own_place,
    signed_in,
    to,
    visit,
)
from entrypoints.http.pages.mailed import RESET
from entrypoints.http.pages.mailed.address_proof_pages import ADDRESS_SETTLED, VERIFY
from entrypoints.http.pages.sign_in.registration_pages import MAILED_CODE, AskedKind, check_mail_page
from entrypoints.http.pages.sign_in.sign_in_pages import at_provider, once_over

_LongText = Annotated[str, msgspec.Meta(max_length=2000)]


class LinkOpened(msgspec.Struct, frozen=True):
    token: Token = Token("")
    flow: Line = ""
    """The flow in which the person asked for the link."""
    to: _LongText = ""
    """The page of ours that the link ends on, if it is no flow's."""
    client_id: Line = ""
    """The application that the link leads to, if the flow is not this browser's; its redirect URI and state follow."""
    redirect_uri: _LongText = ""
    state: _LongText = ""


class LinkForm(FlowForm, frozen=True, kw_only=True):
    token: Token = Token("")


def _advice(refused: Refused) -> str | Advised:
    return Advised("sign_in_link.another", TO_SIGN_IN) if isinstance(refused, LinkRefused) else ""


@page.get(LINK, caller=IN_FLOW, limit=PAGE_LOADS, policy=IN_POPUP, advice=_advice, refuses=(BadRequest,))
async def show_sign_in_link(call: Call[None, LinkOpened, None, Caller | None], postern: Postern) -> Page:
    """Show the account that a sign-in link signs in to

    This looks up the link and leaves it usable, however often a program opens it.
    """
    link = call.query
    email = (await postern.identity.sign_in_links.look(link.token)).email
    browser, headers = browser_secret(call, postern)
    asked_in = await _asked_in(call, postern, link.flow)
    if asked_in is not None and asked_in.signed_in_at is None:
        flow = asked_in
    else:
        # The person has signed in to this flow in another way in the meantime. A new flow leads to the same page.
        is_own = asked_in is not None and asked_in.purpose is FlowPurpose.ACCOUNT
        request = asked_in.request if asked_in is not None and is_own else _onward(link)
        flow = await postern.identity.flows.begin(browser, FlowPurpose.ACCOUNT, request, Wanted(), email=email.address)
    body = shipped_pages().page(
        "sign_in/sign_in_link.html",
        call.language,
        brand=flow.branding,
        action=LINK,
        flow=str(flow.id),
        form_token=form_token(browser, bound_to(str(flow.id))),
        token=link.token.reveal(),
        email=email.address,
        elsewhere=bool(link.flow) and asked_in is None,
        present="" if call.presented is None or call.presented.email.key == email.key else call.presented.email.address,
        ends=first_to_end(call, postern),
    )
    return Answer(body, 200, headers)


@page.post(
    LINK,
    caller=IN_FLOW,
    limit=UNLIMITED,
    attempt=PAGE_SIGN_INS,
    policy=IN_POPUP,
    advice=_advice,
    refuses=(BadRequest, RateLimited),
)
async def use_sign_in_link(call: Call[LinkForm, None, None, Caller | None], postern: Postern) -> Page:
    """Sign in by a link"""
    form = call.body
    flow = await flow_of(call, postern, form.flow)
    try:
        entered = await postern.identity.browser_sessions.sign_in_with_link(await visit(call, postern, flow), form.token)
    except FlowOver:
        # The flow was signed in by another way, perhaps by another person than the button names.
        link = await postern.identity.sign_in_links.look(form.token)
        if call.presented is None or call.presented.user != link.user:
            raise
        return await once_over(call, postern, flow)
    except ProviderRequired as refusal:
        return await at_provider(call, postern, flow, refusal)
    return to(SECOND_FACTOR, flow) if entered is None else await signed_in(call, postern, flow, entered)


async def _asked_in(call: AnyCall, postern: Postern, flow: str) -> Flow | None:
    """The flow in which the person asked for the link, if it is this browser's."""
    try:
        return await flow_of(call, postern, flow) if flow else None
    except FlowOver:
        return None


def _onward(link: LinkOpened) -> Mapping[str, Json]:
    """The address of an authorization request, as if the application had sent the signed-in person. The authorization endpoint checks all
    values of the link.
    """
    if not link.client_id:
        return {"to": own_place(link.to)} if link.to else {}
    asked = {"response_type": "code", "client_id": link.client_id, "redirect_uri": link.redirect_uri, "scope": "openid profile email"}
    return {TO_APPLICATION: f"{AUTHORIZATION_ENDPOINT}?{urlencode({**asked, 'state': link.state} if link.state else asked)}"}


class MailedCodeForm(FlowForm, frozen=True, kw_only=True):
    mail: AskedKind = "verification"
    code: Line = ""


@page.post(MAILED_CODE, caller=IN_FLOW, limit=UNLIMITED, attempt=PAGE_SIGN_INS, policy=IN_POPUP, refuses=(RateLimited,))
async def send_mailed_code(call: Call[MailedCodeForm, None, None, Caller | None], postern: Postern) -> Page:
    """Go on with the code from a mail"""
    form = call.body
    flow = await flow_of(call, postern, form.flow)
    try:
        code = read_code(form.code)
        match form.mail:
            case "sign_in_link":
                return await _sign_in(call, postern, flow, code)
            case "verification":
                return await _verify(call, postern, flow, code)
            case "reset":
                return await _reset(call, postern, flow, code)
    except FlowOver:
        raise
    except ProviderRequired as refusal:
        return await at_provider(call, postern, flow, refusal)
    except BadRequest as refusal:
        said = in_words(refusal, shipped_pages().text(call.language))
        return Answer(check_mail_page(call, postern, flow, form.mail, {"code": said}), 400)


async def _sign_in(call: AnyCall, postern: Postern, flow: Flow, code: Secret) -> Page:
    try:
        entered = await postern.identity.browser_sessions.sign_in_with_mailed_code(
            await visit(call, postern, flow), Email(flow.email), code
        )
    except FlowOver:
        return await once_over(call, postern, flow)
    return to(SECOND_FACTOR, flow) if entered is None else await signed_in(call, postern, flow, entered)


async def _verify(call: AnyCall, postern: Postern, flow: Flow, code: Secret) -> Page:
    browser, _ = browser_secret(call, postern)
    token = await postern.identity.address_proofs.prove_with_code(flow, Email(flow.email), browser, code, call.actor)
    if token is not None:
        # Not the browser that registered: the page of the link asks for the password.
        return redirect(f"{VERIFY}?{urlencode({'token': token.reveal(), 'flow': str(flow.id)})}")
    return redirect(f"{ADDRESS_SETTLED}?{urlencode({'what': 'address_confirmed', 'flow': str(flow.id)})}")


async def _reset(call: AnyCall, postern: Postern, flow: Flow, code: Secret) -> Page:
    browser, _ = browser_secret(call, postern)
    codes = postern.identity.mailed_codes
    link = await codes.check(flow, Email(flow.email), MailedTokenPurpose.RESET_PASSWORD, code)
    token = await codes.exchange(link, code, browser)
    return redirect(f"{RESET}?{urlencode({'token': token.reveal()})}")
