"""`/ui/second-factor-required`: between signing in and an application of an organization that requires a second factor of its members."""

from typing import Final

from core.domain.errors import OrganizationNotActive
from core.domain.federation.authorization_steps import Step
from core.domain.identity.flows import Flow, FlowOver
from core.frozen import replace
from core.usecases.federation.authorizations import Unfinished
from entrypoints.bootstrap import Postern
from entrypoints.http.machinery.answers import Answer
from entrypoints.http.machinery.browsers import BROWSER, SECOND_FACTOR, BoundForm, token_for
from entrypoints.http.machinery.calls import Call
from entrypoints.http.machinery.limits import PAGE_LOADS, PAGE_STEPS
from entrypoints.http.pages import shipped_pages
from entrypoints.http.pages.authorization_pages import CONSENT, GO_ON, LEAVING, SECOND_FACTOR_REQUIRED, FlowLink, advice, form_of, settled
from entrypoints.http.pages.declaring import page
from entrypoints.http.pages.flows import AnyCall, Page, even_twice, flow_of

_REFUSES: Final = (FlowOver, OrganizationNotActive)


class LaterForm(BoundForm, frozen=True, kw_only=True):
    flow: str


# Loaded again once nothing is left to do, it leaves.
@page.get(SECOND_FACTOR_REQUIRED, caller=BROWSER, limit=PAGE_LOADS, policy=LEAVING, advice=advice, refuses=_REFUSES)
async def show_second_factor_required(call: Call[None, FlowLink], postern: Postern) -> Page:
    """Ask a member to set up the second factor that the organization requires"""
    # Whether they belong there was asked before this.
    flow = replace(await flow_of(call, postern, call.query.flow), asked_memberships=True)
    outcome = await postern.federation.authorizations.resume(flow, call.caller, call.client, account_chosen=True)
    if isinstance(outcome, Unfinished) and outcome.step is Step.SET_UP_SECOND_FACTOR:
        return Answer(_required(call, postern, flow, outcome), 200)
    return await settled(call, postern, flow, outcome)


@page.post(SECOND_FACTOR_REQUIRED, caller=BROWSER, limit=PAGE_STEPS, policy=LEAVING, advice=advice, refuses=_REFUSES)
async def set_up_later(call: Call[LaterForm], postern: Postern) -> Page:
    """Go on without a second factor, as long as there is time to set it up"""

    async def answered(flow: Flow) -> Page:
        authorizations = postern.federation.authorizations
        return await settled(
            call, postern, flow, await authorizations.resume(flow, call.caller, call.client, account_chosen=True, set_up_later=True)
        )

    return await even_twice(call, postern, call.body.flow, answered)


def _required(call: AnyCall, postern: Postern, flow: Flow, asked: Unfinished) -> bytes:
    due = None if asked.signed_in is None else asked.signed_in.second_factor_due
    return shipped_pages().page(
        "second_factor_required.html",
        call.language,
        brand=asked.application.branding,
        set_up=SECOND_FACTOR,
        action=form_of(SECOND_FACTOR_REQUIRED, flow),
        elsewhere=form_of(CONSENT, flow),
        flow=str(flow.id),
        onward=f"{GO_ON}?flow={flow.id}",
        form_token=token_for(BROWSER, call.request, postern),
        service=asked.application.name,
        organization=asked.application.organization_name,
        email=call.caller.email.address,
        due=due,
        has_time=due is not None and due > postern.foundation.clock.now(),
    )
