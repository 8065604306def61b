"""`/ui/test-provider/{key}`: a platform owner walks a further provider in the browser. It signs nobody in, and connects nothing. It ends on
a page with what came, and with what would happen to somebody who comes like that.
"""

from collections.abc import Awaitable, Callable, Mapping
from typing import Final

from core.domain.errors import NotFound, Unauthorized
from core.domain.identity.callers import Caller
from core.domain.identity.flows import FlowOver
from core.domain.identity.proofs import StepUp
from core.domain.identity.upstream.further import FurtherProvider, FurtherState, FurtherTest
from core.domain.identity.upstream.providers import UnknownProvider
from core.domain.identity.upstream.sign_in import OAuthError, TakenState, UpstreamRefused
from core.domain.secrets import Token
from core.usecases.identity.upstream.journeys import Vouched
from entrypoints.bootstrap import Postern
from entrypoints.http.machinery.answers import Answer
from entrypoints.http.machinery.browsers import BROWSER, BoundForm, token_for
from entrypoints.http.machinery.calls import Call
from entrypoints.http.machinery.limits import PAGE_LOADS, PAGE_STEPS
from entrypoints.http.pages import shipped_pages
from entrypoints.http.pages.console.platform.platform_tabs import PROVIDERS
from entrypoints.http.pages.declaring import WITH_FORM, page
from entrypoints.http.pages.flows import AnyCall, Page, browser_secret
from entrypoints.http.routes.platform.further_providers import FurtherProviderPath

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
