"""`/ui/sign-in/link`: where a sign-in link leads to. Opening it shows a button, and only the button uses it up."""

import msgspec

from core.domain.errors import BadRequest, RateLimited
from core.domain.identity.callers import Caller
from core.domain.identity.flows import FlowPurpose, Wanted, form_token
from core.domain.identity.mailed_tokens import LinkRefused
from core.domain.secrets import Token
from entrypoints.bootstrap import Postern
from entrypoints.http.machinery.answers import Answer
from entrypoints.http.machinery.browsers import IN_FLOW, FlowForm, bound_to
from entrypoints.http.machinery.calls import Call
from entrypoints.http.machinery.error_shapes import Refused
from entrypoints.http.machinery.limits import PAGE_LOADS, PAGE_SIGN_INS, UNLIMITED
from entrypoints.http.pages import shipped_pages
from entrypoints.http.pages.declaring import IN_POPUP, page
from entrypoints.http.pages.flows import LINK, SECOND_FACTOR, Page, browser_secret, flow_of, signed_in, to, visit


class LinkOpened(msgspec.Struct, frozen=True):
    token: Token = Token("")


class LinkForm(FlowForm, frozen=True, kw_only=True):
    token: Token = Token("")


def _advice(refused: Refused) -> str:
    return "sign_in_link.another" if isinstance(refused, LinkRefused) else ""


@page.get(LINK, caller=IN_FLOW, limit=PAGE_LOADS, policy=IN_POPUP, advice=_advice, refuses=(BadRequest,))
async def show_sign_in_link(call: Call[None, LinkOpened, None, Caller | None], postern: Postern) -> Page:
    """Show whom a sign-in link signs in

    Looks the link up and leaves it usable, however often a program opens it.
    """
    token = call.query.token
    email = await postern.identity.sign_in_links.look(token)
    browser, headers = browser_secret(call, postern)
    flow = await postern.identity.flows.begin(browser, FlowPurpose.ACCOUNT, {}, Wanted(), email=email.address)
    body = shipped_pages().page(
        "sign_in_link.html",
        call.language,
        action=LINK,
        flow=str(flow.id),
        form_token=form_token(browser, bound_to(str(flow.id))),
        token=token.reveal(),
        email=email.address,
    )
    return Answer(body, 200, headers)


@page.post(LINK, caller=IN_FLOW, limit=UNLIMITED, attempt=PAGE_SIGN_INS, policy=IN_POPUP, advice=_advice, refuses=(BadRequest, RateLimited))
async def use_sign_in_link(call: Call[LinkForm, None, None, Caller | None], postern: Postern) -> Page:
    """Sign in by a link"""
    form = call.body
    flow = await flow_of(call, postern, form.flow)
    entered = await postern.identity.browser_sessions.sign_in_with_link(visit(call, postern, flow), form.token)
    return to(SECOND_FACTOR, flow) if entered is None else await signed_in(call, postern, flow, entered)
