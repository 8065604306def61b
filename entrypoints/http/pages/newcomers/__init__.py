"""`/ui/provider-address`: whom only a further provider of the installation knows says the address of the new account, and shows by a mailed
code that it is theirs. The pages are the same for an address that has an account, until the code is right.

`/ui/test-provider/{key}`: a platform owner walks a further provider in the browser. It signs nobody in, and connects nothing. It ends on
a page with what came, and with what would happen to somebody who comes like that.
"""

from collections.abc import Awaitable, Callable, Mapping
from typing import Final

from core.domain.errors import BadRequest, NotFound, RateLimited, Unauthorized
from core.domain.identity.account_mails import LONGEST_TYPED_CODE, read_code
from core.domain.identity.callers import Caller
from core.domain.identity.flows import Flow, FlowOver
from core.domain.identity.proofs import StepUp
from core.domain.identity.realms import ProviderRequired
from core.domain.identity.registering import RegistrationClosed
from core.domain.identity.upstream.further import FurtherProvider, FurtherState, FurtherTest
from core.domain.identity.upstream.providers import ProviderOff, UnknownProvider
from core.domain.identity.upstream.sign_in import OAuthError, TakenState, UpstreamRefused
from core.domain.secrets import Token
from core.usecases.identity.upstream.journeys import Vouched
from entrypoints.bootstrap import Postern
from entrypoints.http.machinery.answers import Answer
from entrypoints.http.machinery.browsers import BROWSER, IN_FLOW, SIGN_IN, BoundForm, FlowForm, token_for
from entrypoints.http.machinery.calls import Call
from entrypoints.http.machinery.errors import headers_of
from entrypoints.http.machinery.fields import Line, email_field
from entrypoints.http.machinery.limits import PAGE_LOADS, PAGE_SIGN_INS, PAGE_STEPS, REGISTER, UNLIMITED
from entrypoints.http.page_addresses import PROVIDERS
from entrypoints.http.pages.kit import shipped_pages
from entrypoints.http.pages.kit.declaring import IN_POPUP, WITH_FORM, in_words, page
from entrypoints.http.pages.kit.flows import (
    NEWCOMER,
    NO_ERRORS,
    SECOND_FACTOR,
    AnyCall,
    FlowLink,
    Page,
    browser_secret,
    flow_of,
    signed_in,
    to,
    visit,
)
from entrypoints.http.pages.sign_in.sign_in_pages import once_over, sign_in_again, when_over
from entrypoints.http.routes.platform.further_providers import FurtherProviderPath

NEWCOMER_CODE: Final = f"{NEWCOMER}/code"


class NewcomerForm(FlowForm, frozen=True, kw_only=True):
    email: Line = ""


class NewcomerCodeForm(FlowForm, frozen=True, kw_only=True):
    code: Line = ""


@page.get(NEWCOMER, caller=IN_FLOW, limit=PAGE_LOADS, policy=IN_POPUP, refuses=(FlowOver, ProviderOff, UnknownProvider))
async def show_newcomer(call: Call[None, FlowLink, None, Caller | None], postern: Postern) -> Page:
    """Ask for the address of the account that a provider's word makes"""
    flow = await flow_of(call, postern, call.query.flow)
    over = await when_over(call, postern, flow)
    return over or Answer(await _address_page(call, postern, flow), 200)


@page.post(NEWCOMER, caller=IN_FLOW, limit=REGISTER, policy=IN_POPUP, refuses=(FlowOver, ProviderOff, UnknownProvider, RateLimited))
async def send_newcomer(call: Call[NewcomerForm, None, None, Caller | None], postern: Postern) -> Page:
    """Mail a code to the address, whether or not an account has it"""
    flow, text = await flow_of(call, postern, call.body.flow), shipped_pages().text(call.language)
    over = await when_over(call, postern, flow)
    if over is not None:
        return over
    typed = call.body.email.strip()
    try:
        email = email_field(typed, postern.foundation.email_syntax)
    except BadRequest:
        return Answer(await _address_page(call, postern, flow, typed, {"email": text("sign_in.no_address")}), 400)
    try:
        await postern.identity.newcomers.send_code(flow, email, call.client)
    except (FlowOver, ProviderOff, UnknownProvider):
        raise
    except (BadRequest, RegistrationClosed) as refusal:
        return Answer(await _address_page(call, postern, flow, typed, {"email": in_words(refusal, text)}), 400)
    except RateLimited as refusal:
        page_ = await _address_page(call, postern, flow, typed, {"": in_words(refusal, text)})
        return Answer(page_, 429, headers_of(refusal))
    return to(NEWCOMER_CODE, flow)


@page.get(NEWCOMER_CODE, caller=IN_FLOW, limit=PAGE_LOADS, policy=IN_POPUP, refuses=(FlowOver, ProviderOff, UnknownProvider))
async def show_newcomer_code(call: Call[None, FlowLink, None, Caller | None], postern: Postern) -> Page:
    """Ask for the code that was mailed to the address"""
    flow = await flow_of(call, postern, call.query.flow)
    over = await when_over(call, postern, flow)
    return over or Answer(await _code_page(call, postern, flow), 200)


@page.post(
    NEWCOMER_CODE,
    caller=IN_FLOW,
    limit=UNLIMITED,
    attempt=PAGE_SIGN_INS,
    policy=IN_POPUP,
    refuses=(FlowOver, ProviderOff, UnknownProvider, RateLimited, ProviderRequired),
)
async def send_newcomer_code(call: Call[NewcomerCodeForm, None, None, Caller | None], postern: Postern) -> Page:
    """Make the account with the code from the mail, and sign in"""
    flow = await flow_of(call, postern, call.body.flow)
    try:
        code = read_code(call.body.code)
        arrival = await postern.identity.newcomers.make(flow, code, call.client)
        entered = await postern.identity.browser_sessions.sign_in_with_proof(await visit(call, postern, flow), code, arrival)
    except FlowOver:
        return await once_over(call, postern, await flow_of(call, postern, call.body.flow))
    except (UpstreamRefused, ProviderOff, UnknownProvider, ProviderRequired, Unauthorized) as refusal:
        return sign_in_again(call, postern, flow, refusal)
    except BadRequest as refusal:
        said = in_words(refusal, shipped_pages().text(call.language))
        return Answer(await _code_page(call, postern, flow, {"code": said}), 400)
    return to(SECOND_FACTOR, flow) if entered is None else await signed_in(call, postern, flow, entered)


async def _address_page(
    call: AnyCall, postern: Postern, flow: Flow, typed: str | None = None, errors: Mapping[str, str] = NO_ERRORS
) -> bytes:
    newcomer = await postern.identity.newcomers.get(flow)
    return shipped_pages().page(
        "newcomers/newcomer.html",
        call.language,
        brand=flow.branding,
        action=NEWCOMER,
        provider=newcomer.provider,
        email=newcomer.sent_to or newcomer.stated if typed is None else typed,
        is_stated=newcomer.stated != "",
        flow=str(flow.id),
        form_token=token_for(IN_FLOW, call.request, postern, str(flow.id)),
        errors=errors,
        sign_in=f"{SIGN_IN}?flow={flow.id}",
    )


async def _code_page(call: AnyCall, postern: Postern, flow: Flow, errors: Mapping[str, str] = NO_ERRORS) -> bytes:
    newcomer = await postern.identity.newcomers.get(flow)
    return shipped_pages().page(
        "newcomers/newcomer_code.html",
        call.language,
        brand=flow.branding,
        action=NEWCOMER_CODE,
        email=newcomer.sent_to,
        longest=LONGEST_TYPED_CODE,
        flow=str(flow.id),
        form_token=token_for(IN_FLOW, call.request, postern, str(flow.id)),
        errors=errors,
        again=f"{NEWCOMER}?flow={flow.id}",
    )


TEST_PROVIDER: Final = "/ui/test-provider/{key}"
_REFUSES: Final = (NotFound, UnknownProvider, OAuthError)


@page.get(TEST_PROVIDER, caller=BROWSER, limit=PAGE_LOADS, policy=WITH_FORM, step_up=StepUp.ACCOUNT, refuses=_REFUSES)
async def ask_to_test_provider(call: Call[None, None, FurtherProviderPath], postern: Postern) -> bytes:
    """Ask before a test of a further provider begins"""
    _require_owner(call.caller)
    provider = await postern.platform.further_providers.get(call.path.key)
    return _page(call, postern, provider.name, provider.key, None)


@page.post(TEST_PROVIDER, caller=BROWSER, limit=PAGE_STEPS, policy=WITH_FORM, step_up=StepUp.ACCOUNT, refuses=_REFUSES)
async def test_provider(call: Call[BoundForm, None, FurtherProviderPath], postern: Postern) -> Page:
    """Leave for a further provider, to test it"""
    _require_owner(call.caller)
    browser, headers = browser_secret(call, postern)
    address = await postern.identity.journeys.leave_to_test(call.path.key, browser, call.caller)
    text = shipped_pages().text(call.language)
    content = shipped_pages().page("leave.html", call.language, title=text("leaving.title"), label=text("common.continue"), address=address)
    return Answer(content, 200, headers)


async def tested(
    call: AnyCall, postern: Postern, taken: TakenState, state: Token, vouch: Callable[[], Awaitable[Vouched]]
) -> Answer[bytes]:
    """The page after the way back. Only the platform owner who has left sees it, in the session of then. Raises `FlowOver`."""
    caller: Caller | None = call.request.caller
    await postern.identity.repeated_returns.tell(state, f"{PROVIDERS}/{taken.provider}")
    if caller is None or caller.user != taken.user or caller.session not in taken.sessions or not caller.is_platform_owner:
        raise FlowOver
    further, actor = taken.way.further, call.client.actor(caller.user)
    if further is None:
        # It was deleted meanwhile.
        raise FlowOver

    async def noted(*, succeeded: bool) -> FurtherProvider:
        return await postern.platform.further_providers.note_test(taken.provider, further.digest, actor, succeeded=succeeded)

    try:
        vouched = await vouch()
    except (UpstreamRefused, OAuthError, Unauthorized) as refusal:
        provider = await noted(succeeded=False)
        came = {"outcome": "failed", "reason": str(refusal.detail or refusal.message)}
        return Answer(_page(call, postern, provider.name, provider.key, came), 200)
    provider, asserted = await noted(succeeded=True), vouched.asserted
    outcome, account = await postern.identity.upstream_proofs.foreseen(vouched, call.client)
    came = {
        "outcome": outcome,
        "account": account,
        "issuer": asserted.issuer,
        "subject": asserted.subject,
        "email": asserted.email,
        "called": asserted.stated.name or " ".join(filter(None, (asserted.stated.given_name, asserted.stated.family_name))),
        "at": "" if asserted.authenticated_at is None else asserted.authenticated_at.isoformat(),
        # What was tested may have changed while the owner was there.
        "next": "active" if provider.state is FurtherState.ACTIVE else "activate" if provider.test is FurtherTest.PASSED else "again",
    }
    return Answer(_page(call, postern, provider.name, provider.key, came), 200)


def _require_owner(caller: Caller) -> None:
    """The page is not there for anybody else."""
    if not caller.is_platform_owner or caller.impersonator is not None:
        raise NotFound


def _page(call: AnyCall, postern: Postern, name: str, key: str, came: Mapping[str, str] | None) -> bytes:
    return shipped_pages().page(
        "newcomers/provider_test.html",
        call.language,
        name=name,
        came=came,
        action=TEST_PROVIDER.format(key=key),
        form_token="" if came is not None else token_for(BROWSER, call.request, postern),
        back=f"{PROVIDERS}/{key}",
    )
