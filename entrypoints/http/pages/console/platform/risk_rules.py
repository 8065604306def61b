"""The rules for risk of the installation, which are asked at every sign-in, and whom each would have met."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from core.domain.identity.callers import Caller
from core.domain.identity.risk_policies.policies import NO_ROLE, PLATFORM_OWNER_ROLE
from entrypoints.bootstrap import Postern
from entrypoints.http.machinery.calls import Call
from entrypoints.http.pages.console.declaring import console
from entrypoints.http.pages.console.forms import Choice
from entrypoints.http.pages.console.organization.risk.exception_rows import WITHOUT_TEAMS, ExceptionRows, is_id, shape_of
from entrypoints.http.pages.console.organization.risk.rule_forms import RiskPolicyForm
from entrypoints.http.pages.console.organization.risk.rules_page import RiskPolicyAct, RulesPage, exceptions_form
from entrypoints.http.pages.console.platform.platform_tabs import RISK, RISK_ENTRY, RISK_TAB, position
from entrypoints.http.pages.console.visit import Page, PageVisit
from entrypoints.http.routes.platform.installation_risk import (
    get_installation_risk_policies,
    get_installation_risk_report,
    list_installation_risk_events,
    set_installation_risk_policies,
)
from entrypoints.http.routes.platform.platform_users import search_users

_OFFERED: Final = (get_installation_risk_policies, get_installation_risk_report, list_installation_risk_events, search_users)


async def _excepted(visit: PageVisit) -> Mapping[Any, str]:
    rules = visit.postern.platform.risk_policies
    return await rules.excepted(await rules.get())


async def _called(visit: PageVisit, given: str) -> str | None:
    if is_id(given) or not given:
        return given or None
    found = (await visit.ask(search_users, query={"search": given})).users
    whole = [one for one in found if str(one.email).casefold() == given.casefold()]
    return str(whole[0].id) if len(whole) == 1 else None


async def _choices(visit: PageVisit) -> Mapping[str, Sequence[Choice]]:
    return {
        "services": (),
        "roles": [
            Choice(PLATFORM_OWNER_ROLE, visit.text("console.risk.role_platform_owner")),
            Choice(NO_ROLE, visit.text("console.risk.role_none_here")),
        ],
    }


_EXCEPTIONS: Final = ExceptionRows(
    shape=shape_of(set_installation_risk_policies, WITHOUT_TEAMS),
    people=_excepted,
    called=_called,
    teams=None,
    no_person="console.risk.no_person_here",
)
_RULES: Final = RulesPage(
    at=RISK,
    position=position(RISK_ENTRY, RISK_TAB),
    rules=get_installation_risk_policies,
    set_rules=set_installation_risk_policies,
    report=get_installation_risk_report,
    events=list_installation_risk_events,
    exceptions=_EXCEPTIONS,
    choices=_choices,
    whose="_here",
)
_ExceptionsForm: Any = exceptions_form("InstallationRiskExceptionsForm", _EXCEPTIONS)


@console.get(RISK, of=get_installation_risk_policies, also=_OFFERED[1:])
async def show_installation_risk_policies(call: Call[None, None, None, Caller], postern: Postern) -> Page:
    """See the rules for risk of the installation, and whom they would have met"""
    return await _RULES.show(PageVisit(call, postern))


@console.post(RISK, of=set_installation_risk_policies, also=_OFFERED)
async def add_installation_risk_policy(call: Call[RiskPolicyForm, None, None, Caller], postern: Postern) -> Page:
    """Add a rule for risk of the installation, in shadow"""
    return await _RULES.add(PageVisit(call, postern), call.body)


@console.post(f"{RISK}/act", of=set_installation_risk_policies, also=_OFFERED)
async def act_on_installation_risk_policy(call: Call[RiskPolicyAct, None, None, Caller], postern: Postern) -> Page:
    """Let a rule for risk of the installation count, put it in shadow, move it to the front, or remove it

    Rules that are not those that the page has shown stay as they are.
    """
    return await _RULES.act(PageVisit(call, postern), call.body)


@console.post(f"{RISK}/exceptions", of=set_installation_risk_policies, also=_OFFERED)
async def set_installation_risk_exceptions(call: Call[_ExceptionsForm, None, None, Caller], postern: Postern) -> Page:
    """Set whom the rules for risk of the installation leave out

    A button that adds a row or takes one away saves nothing.
    """
    return await _RULES.set_exceptions(PageVisit(call, postern), call.body)


PAGES: Final = (
    show_installation_risk_policies,
    add_installation_risk_policy,
    act_on_installation_risk_policy,
    set_installation_risk_exceptions,
)
