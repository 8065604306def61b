"""`/ui/check-mail/code`: the code beside a mailed link, typed in the browser that asked for the mail. The code does what the link does: it
signs in, confirms an address, or leads to the page that sets a new password. It is worth nothing in any other browser.
"""

from urllib.parse import urlencode

from core.domain.errors import BadRequest, RateLimited
from core.domain.identity.account_mails import MailedTokenPurpose, read_code
from core.domain.identity.callers import Caller
from core.domain.identity.flows import Flow, FlowOver
from core.domain.identity.realms import ProviderRequired
from core.domain.mail import Email
from core.domain.secrets import Secret
from entrypoints.bootstrap import Postern
from entrypoints.http.machinery.answers import Answer, redirect
from entrypoints.http.machinery.browsers import IN_FLOW, FlowForm
from entrypoints.http.machinery.calls import Call
from entrypoints.http.machinery.limits import PAGE_SIGN_INS, UNLIMITED
from entrypoints.http.pages import shipped_pages
from entrypoints.http.pages.declaring import IN_POPUP, page
from entrypoints.http.pages.flows import SECOND_FACTOR, AnyCall, Page, browser_secret, flow_of, signed_in, to, visit
from entrypoints.http.pages.mailed.address_proof_pages import ADDRESS_SETTLED, VERIFY
from entrypoints.http.pages.mailed.password_pages import RESET
from entrypoints.http.pages.refusals import in_words
from entrypoints.http.pages.sign_in.registration_pages import MAILED_CODE, AskedKind, check_mail_page
from entrypoints.http.pages.sign_in.sign_in_pages import at_provider, once_over


class MailedCodeForm(FlowForm, frozen=True, kw_only=True):
    mail: AskedKind = "verification"
    code: str = ""


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
        entered = await postern.identity.browser_sessions.sign_in_with_mailed_code(visit(call, postern, flow), Email(flow.email), code)
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
