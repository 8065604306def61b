"""The rules for risk of each keeper, an organization or the installation, and whom each rule would have met."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from core.domain.identity.risk_policies.policies import NO_ROLE, PLATFORM_OWNER_ROLE
from core.domain.tenancy.roles import BuiltInRole
from entrypoints.http.pages.console.forms import Choice
from entrypoints.http.pages.console.organization import organization_tabs
from entrypoints.http.pages.console.organization.people.choices import members_called, roles
from entrypoints.http.pages.console.organization.risk.exception_rows import ALL_KINDS, WITHOUT_TEAMS, ExceptionRows, is_id, shape_of
from entrypoints.http.pages.console.organization.risk.rules_page import RulesPage
from entrypoints.http.pages.console.platform import platform_tabs
from entrypoints.http.pages.console.visit import PageVisit
from entrypoints.http.routes.platform.platform_users import search_users
from entrypoints.http.routes.services.services import list_services
from entrypoints.http.routes.tenancy.members import list_members
from entrypoints.http.routes.tenancy.risk.risk_policies import (
    get_installation_risk_policies,
    get_installation_risk_report,
    get_risk_policies,
    get_risk_report,
    list_installation_risk_events,
    list_risk_events,
    set_installation_risk_policies,
    set_risk_policies,
)
from entrypoints.http.routes.tenancy.roles import list_roles
from entrypoints.http.routes.tenancy.teams import list_teams

_BELOW_OWNER: Final = (BuiltInRole.MEMBER, BuiltInRole.ADMIN)


async def _excepted(visit: PageVisit) -> Mapping[Any, str]:
    return await visit.postern.tenancy.risk_policies.excepted(visit.call.caller.organization)


async def _excepted_here(visit: PageVisit) -> Mapping[Any, str]:
    return await visit.postern.tenancy.risk_policies.excepted(None)


async def _called(visit: PageVisit, given: str) -> str | None:
    found = await members_called(visit, given) if visit.may(list_members) or is_id(given) else ()
    return found[0].value if len(found) == 1 else None


async def _called_here(visit: PageVisit, given: str) -> str | None:
    if is_id(given) or not given:
        return given or None
    found = (await visit.ask(search_users, query={"search": given})).users
    whole = [one for one in found if str(one.email).casefold() == given.casefold()]
    return str(whole[0].id) if len(whole) == 1 else None


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


async def _choices_here(visit: PageVisit) -> Mapping[str, Sequence[Choice]]:
    return {
        "services": (),
        "roles": [
            Choice(PLATFORM_OWNER_ROLE, visit.text("console.risk.role_platform_owner")),
            Choice(NO_ROLE, visit.text("console.risk.role_none_here")),
        ],
    }


PAGES: Final = RulesPage(
    name="risk_policies",
    at=organization_tabs.RISK,
    position=organization_tabs.position(organization_tabs.SIGN_IN_ENTRY, organization_tabs.RISK_TAB),
    rules=get_risk_policies,
    set_rules=set_risk_policies,
    report=get_risk_report,
    events=list_risk_events,
    asked=(list_services, list_roles, list_teams, list_members),
    exceptions=ExceptionRows(
        shape=shape_of(set_risk_policies, ALL_KINDS), people=_excepted, called=_called, teams=list_teams, no_person="console.risk.no_person"
    ),
    choices=_choices,
).pages()

PAGES_OF_INSTALLATION: Final = RulesPage(
    name="installation_risk_policies",
    at=platform_tabs.RISK,
    position=platform_tabs.position(platform_tabs.RISK_ENTRY, platform_tabs.RISK_TAB),
    rules=get_installation_risk_policies,
    set_rules=set_installation_risk_policies,
    report=get_installation_risk_report,
    events=list_installation_risk_events,
    asked=(search_users,),
    exceptions=ExceptionRows(
        shape=shape_of(set_installation_risk_policies, WITHOUT_TEAMS),
        people=_excepted_here,
        called=_called_here,
        teams=None,
        no_person="console.risk.no_person_here",
    ),
    choices=_choices_here,
    whose="_here",
).pages()
