"""`/ui/second-factor-required`: after sign-in, for applications of an organization that requires a second factor of its members."""

from typing import Final

from core.domain.errors import OrganizationNotActive
from core.domain.federation.oauth.authorization_steps import AuthorizationStep
from core.domain.identity.flows import Flow, FlowOver
from core.frozen import replace
from core.usecases.federation.authorizations import UnfinishedAuthorization
from entrypoints.bootstrap import Postern
from entrypoints.http.machinery.answers import Answer
from entrypoints.http.machinery.browsers import BROWSER, BoundForm
from entrypoints.http.machinery.calls import Call
from entrypoints.http.machinery.limits import PAGE_LOADS, PAGE_STEPS
from entrypoints.http.pages.authorization.authorization_pages import (
    CONSENT,
    GO_ON,
    LEAVING,
    SECOND_FACTOR_REQUIRED,
    advice,
    form_of,
    settled,
)
from entrypoints.http.pages.authorization.interim_pages import interim_page, until_second_factor
from entrypoints.http.pages.declaring import page
from entrypoints.http.pages.flows import FlowLink, Page, even_twice, flow_of

_REFUSES: Final = (FlowOver, OrganizationNotActive)


class LaterForm(BoundForm, frozen=True, kw_only=True):
    flow: str


# The page may be loaded again when no step is left. It then leaves for the application, and so needs the policy of such a page.
@page.get(SECOND_FACTOR_REQUIRED, caller=BROWSER, limit=PAGE_LOADS, policy=LEAVING, advice=advice, refuses=_REFUSES)
async def show_second_factor_required(call: Call[None, FlowLink], postern: Postern) -> Page:
    """Ask a member to set up the second factor that the organization requires"""
    # The person was asked about memberships before this page.
    flow = replace(await flow_of(call, postern, call.query.flow), asked_memberships=True)
    outcome = await postern.federation.authorizations.resume(flow, call.caller, call.client, account_chosen=True)
    if isinstance(outcome, UnfinishedAuthorization) and outcome.step is AuthorizationStep.SET_UP_SECOND_FACTOR:
        action, elsewhere = form_of(SECOND_FACTOR_REQUIRED, flow), form_of(CONSENT, flow)
        more = {"elsewhere": elsewhere, **until_second_factor(postern, flow, outcome, GO_ON)}
        return Answer(
            interim_page("sign_in/second_factor_required.html", call, postern, flow, outcome, rule=BROWSER, action=action, **more), 200
        )
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
