"""`/ui/organizations/{org_slug}/risk-rules`: the way back for an owner whom the organization's rules for risk keep out."""

from typing import Final

import msgspec

from core.domain.errors import BadRequest, Forbidden, NotFound, RateLimited
from core.domain.identity.account_mails import LinkRefused
from core.domain.identity.proofs import StepUp
from core.domain.secrets import Token
from core.domain.tenancy.roles import BuiltInRole
from entrypoints.bootstrap import Postern
from entrypoints.http.machinery.answers import Answer
from entrypoints.http.machinery.browsers import BROWSER, BoundForm
from entrypoints.http.machinery.calls import Call
from entrypoints.http.machinery.fields import OrganizationPath
from entrypoints.http.machinery.limits import PAGE_LOADS
from entrypoints.http.pages.account import ORGANIZATIONS, Page, back_to, show
from entrypoints.http.pages.declaring import WITH_FORM, page

_RISK_RULES: Final = f"{ORGANIZATIONS}/{{org_slug}}/risk-rules"


class RiskRulesLink(msgspec.Struct, frozen=True):
    token: Token = Token("")


class RiskRulesForm(BoundForm, frozen=True, kw_only=True):
    token: Token = Token("")
    """The token of the mailed link. Empty for the form that asks for the mail."""


@page.get(
    _RISK_RULES, caller=BROWSER, limit=PAGE_LOADS, policy=WITH_FORM, step_up=StepUp.ACCOUNT, refuses=(BadRequest, Forbidden, NotFound)
)
async def show_risk_rules(call: Call[None, RiskRulesLink, OrganizationPath], postern: Postern) -> Page:
    """See the rules for risk that refuse sign-ins, by a mailed link, or ask for the link"""
    one = await postern.tenancy.ownerships.of(call.caller, call.path.org_slug)
    place, token = f"{ORGANIZATIONS}/{one.organization.slug}", call.query.token
    has_link = bool(token.reveal())
    lifts = await postern.tenancy.risk_ways_back.look(call.caller, one.organization.id, token) if has_link else ()
    content = show(
        call,
        postern,
        "organizations/risk_rules.html",
        ORGANIZATIONS,
        one=one,
        has_link=has_link,
        is_owner=one.membership.role == BuiltInRole.OWNER,
        lifts=[rule.name for rule in lifts],
        token=token.reveal(),
        action=f"{place}/risk-rules",
        back=place,
    )
    return Answer(content, 200)


@page.post(
    _RISK_RULES,
    caller=BROWSER,
    limit=PAGE_LOADS,
    policy=WITH_FORM,
    step_up=StepUp.ACCOUNT,
    refuses=(BadRequest, Forbidden, NotFound, LinkRefused, RateLimited),
)
async def send_risk_rules(call: Call[RiskRulesForm, None, OrganizationPath], postern: Postern) -> Page:
    """Put the rules for risk that refuse back in shadow, or get the link for it by mail"""
    one = await postern.tenancy.ownerships.of(call.caller, call.path.org_slug)
    organization, place = one.organization, f"{ORGANIZATIONS}/{one.organization.slug}"
    ways_back = postern.tenancy.risk_ways_back
    if not call.body.token.reveal():
        await ways_back.ask(call.caller, organization.id, organization.slug)
        return back_to(place, "risk_mailed")
    await ways_back.lift(call.caller, organization.id, call.body.token, call.actor)
    return back_to(place, "risk_lifted")
