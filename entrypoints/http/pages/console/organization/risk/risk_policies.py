"""The rules for risk of an organization, and whom each would have met. A new rule stands in shadow until somebody lets it count."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from core.domain.identity.risk_policies.policies import NO_ROLE
from core.domain.tenancy.members import Member
from core.domain.tenancy.roles import BuiltInRole
from entrypoints.bootstrap import Postern
from entrypoints.http.machinery.calls import Call
from entrypoints.http.machinery.fields import OrganizationPath
from entrypoints.http.pages.console.declaring import console
from entrypoints.http.pages.console.forms import Choice
from entrypoints.http.pages.console.organization.organization_tabs import RISK, RISK_TAB, SIGN_IN_ENTRY, position
from entrypoints.http.pages.console.organization.people.choices import members_called, roles
from entrypoints.http.pages.console.organization.risk.exception_rows import ALL_KINDS, ExceptionRows, is_id, shape_of
from entrypoints.http.pages.console.organization.risk.rule_forms import RiskPolicyForm
from entrypoints.http.pages.console.organization.risk.rules_page import RiskPolicyAct, RulesPage, exceptions_form
from entrypoints.http.pages.console.visit import Page, PageVisit
from entrypoints.http.routes.services.services import list_services
from entrypoints.http.routes.tenancy.members import list_members
from entrypoints.http.routes.tenancy.risk.risk_policies import get_risk_policies, get_risk_report, list_risk_events, set_risk_policies
from entrypoints.http.routes.tenancy.roles import list_roles
from entrypoints.http.routes.tenancy.teams import list_teams

_BELOW_OWNER: Final = (BuiltInRole.MEMBER, BuiltInRole.ADMIN)
_OFFERED: Final = (get_risk_policies, get_risk_report, list_risk_events, list_services, list_roles, list_teams, list_members)


async def _excepted(visit: PageVisit) -> Mapping[Any, str]:
    member = visit.call.caller
    risk_policies = visit.postern.tenancy.risk_policies
    return await risk_policies.excepted(member, await risk_policies.get(member))


async def _called(visit: PageVisit, given: str) -> str | None:
    found = await members_called(visit, given) if visit.may(list_members) or is_id(given) else ()
    return found[0].value if len(found) == 1 else None


async def _choices(visit: PageVisit) -> Mapping[str, Sequence[Choice]]:
    services = (await visit.ask(list_services)).services if visit.may(list_services) else ()
    others = await roles(visit) if visit.may(list_roles) else [Choice(one.value, visit.text(f"roles.{one.value}")) for one in _BELOW_OWNER]
    return {
        "services": [Choice(str(one.id), one.name) for one in services],
        "roles": [
            Choice(BuiltInRole.OWNER.value, visit.text("roles.owner")),
            *others,
            Choice(NO_ROLE, visit.text("console.risk.role_none")),
        ],
    }


_EXCEPTIONS: Final = ExceptionRows(
    shape=shape_of(set_risk_policies, ALL_KINDS), people=_excepted, called=_called, teams=list_teams, no_person="console.risk.no_person"
)
_RULES: Final = RulesPage(
    at=RISK,
    position=position(SIGN_IN_ENTRY, RISK_TAB),
    rules=get_risk_policies,
    set_rules=set_risk_policies,
    report=get_risk_report,
    events=list_risk_events,
    exceptions=_EXCEPTIONS,
    choices=_choices,
)
_ExceptionsForm: Any = exceptions_form("RiskExceptionsForm", _EXCEPTIONS)


@console.get(RISK, of=get_risk_policies, also=_OFFERED[1:])
async def show_risk_policies(call: Call[None, None, OrganizationPath, Member], postern: Postern) -> Page:
    """See the rules for risk of an organization, and whom they would have met"""
    return await _RULES.show(PageVisit(call, postern))


@console.post(RISK, of=set_risk_policies, also=_OFFERED)
async def add_risk_policy(call: Call[RiskPolicyForm, None, OrganizationPath, Member], postern: Postern) -> Page:
    """Add a rule for risk, in shadow"""
    return await _RULES.add(PageVisit(call, postern), call.body)


@console.post(f"{RISK}/act", of=set_risk_policies, also=_OFFERED)
async def act_on_risk_policy(call: Call[RiskPolicyAct, None, OrganizationPath, Member], postern: Postern) -> Page:
    """Let a rule for risk count, put it in shadow, move it to the front, or remove it

    Rules that are not those that the page has shown stay as they are.
    """
    return await _RULES.act(PageVisit(call, postern), call.body)


@console.post(f"{RISK}/exceptions", of=set_risk_policies, also=_OFFERED)
async def set_risk_exceptions(call: Call[_ExceptionsForm, None, OrganizationPath, Member], postern: Postern) -> Page:
    """Set whom the rules for risk leave out

    A button that adds a row or takes one away saves nothing.
    """
    return await _RULES.set_exceptions(PageVisit(call, postern), call.body)


PAGES: Final = (show_risk_policies, add_risk_policy, act_on_risk_policy, set_risk_exceptions)
