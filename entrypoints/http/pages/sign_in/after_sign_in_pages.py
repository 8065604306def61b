"""After a sign-in: which organization to manage in this browser, and the second factor that an organization requires."""

from typing import Final
from urllib.parse import quote

import msgspec

from core.domain.errors import Forbidden, OrganizationNotActive, SecondFactorRequired, TermsRequired
from core.domain.federation.oauth.authorization_steps import AuthorizationStep
from core.domain.identity.flows import Flow, FlowOver
from core.domain.tenancy.organizations import LONGEST_SLUG
from core.frozen import replace
from core.usecases.federation.authorizations import UnfinishedAuthorization
from entrypoints.bootstrap import Postern
from entrypoints.http.machinery.answers import Answer, NoBody, redirect
from entrypoints.http.machinery.browsers import BROWSER, BoundForm, terms_page, token_for
from entrypoints.http.machinery.calls import Call
from entrypoints.http.machinery.fields import Line
from entrypoints.http.machinery.limits import PAGE_LOADS, PAGE_STEPS, UNLIMITED
from entrypoints.http.pages.account import set_up_first
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
from entrypoints.http.pages.kit import shipped_pages
from entrypoints.http.pages.kit.declaring import WITH_FORM, page
from entrypoints.http.pages.kit.flows import CHOOSE_ORGANIZATION, FlowLink, Page, even_twice, flow_of, own_place


class ChoiceLink(msgspec.Struct, frozen=True):
    to: Line = ""
    """The page of ours to come back to."""


class ChoiceForm(BoundForm, frozen=True, kw_only=True):
    organization: Line = ""
    """The organization's slug; empty for none."""
    to: Line = ""


@page.get(CHOOSE_ORGANIZATION, caller=BROWSER, limit=UNLIMITED, policy=WITH_FORM)
async def show_choice_of_organization(call: Call[None, ChoiceLink], postern: Postern) -> bytes:
    """Ask which organization to manage"""
    found = await postern.tenancy.organizations.list(call.caller.user)
    return shipped_pages().page(
        "sign_in/choose_organization.html",
        call.language,
        action=CHOOSE_ORGANIZATION,
        form_token=token_for(BROWSER, call.request, postern),
        place=own_place(call.query.to),
        organizations=[(one.organization.slug, one.organization.name) for one in found],
        chosen=call.caller.chosen_organization,
    )


@page.post(CHOOSE_ORGANIZATION, caller=BROWSER, limit=UNLIMITED, refuses=(Forbidden,))
async def choose_organization(call: Call[ChoiceForm], postern: Postern) -> Answer[NoBody]:
    """Choose the organization to manage

    An organization that is closed to members without a second factor leads to the set-up of a second factor, and back.
    """
    try:
        await postern.tenancy.organizations.choose(call.caller, call.body.organization[: LONGEST_SLUG + 1])
    except TermsRequired:
        return redirect(terms_page(own_place(call.body.to)))
    except SecondFactorRequired:
        return redirect(set_up_first(f"{CHOOSE_ORGANIZATION}?to={quote(own_place(call.body.to), safe='/')}"))
    return redirect(own_place(call.body.to))


_REFUSES: Final = (FlowOver, OrganizationNotActive)


class LaterForm(BoundForm, frozen=True, kw_only=True):
    flow: Line


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
