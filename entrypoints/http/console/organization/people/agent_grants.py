"""What people let the organization's agents do, and the end of it."""

from collections.abc import Mapping
from typing import Any, Final

from entrypoints.http.console.kit.cells import copied, linked, listed, plain, when
from entrypoints.http.console.kit.lists import LatestRows, latest_of
from entrypoints.http.console.kit.navigation import address
from entrypoints.http.console.kit.resource_pages import pages
from entrypoints.http.console.kit.resources import Ending, Filter, Resource
from entrypoints.http.console.kit.visit import PageVisit
from entrypoints.http.console.organization.organization_tabs import APPLICATIONS, END_USERS_TAB, PEOPLE, PEOPLE_ENTRY, position
from entrypoints.http.routes.federation.agent_grants import end_agent_grant, get_agent_grant, list_agent_grants
from entrypoints.http.routes.services.end_users import get_end_user
from entrypoints.http.routes.services.services import get_service

_LIST: Final = f"{PEOPLE}/agents"
_ONE: Final = f"{_LIST}/{{grant_id}}"


def _grant(one: Any, path: Mapping[str, str]) -> str:
    return address(_ONE, {**path, "grant_id": str(one.id)})


def _agent(one: Any, path: Mapping[str, str]) -> str:
    return address(f"{APPLICATIONS}/{{slug}}", {**path, "slug": one.service_slug})


def _person(one: Any, path: Mapping[str, str]) -> str:
    return address(f"{PEOPLE}/users/{{user_id}}", {**path, "user_id": str(one.user_id)})


def _api(one: Any) -> str:
    return str(one.api or one.identifier)


_PERSON: Final = plain("email", "console.field.person")
_AGENT: Final = plain("service_name", "console.field.agent")
_REST: Final = (
    plain(_api, "console.field.api"),
    when("expires_at", "console.field.expires_at"),
    when("last_used_at", "console.field.last_token_at"),
)
_OF_PERSON: Final = (linked(_AGENT, _grant, get_agent_grant), *_REST)
_OF_AGENT: Final = (linked(_PERSON, _grant, get_agent_grant), *_REST)

AGENT_GRANTS: Final = Resource(
    name="agent_grants",
    position=position(PEOPLE_ENTRY, END_USERS_TAB),
    at=_LIST,
    listed=list_agent_grants,
    rows="grants",
    columns=(_PERSON, _AGENT, *_REST),
    filters=(Filter("service_id", "console.field.agent"), Filter("user_id", "console.field.person")),
    parameter="grant_id",
    record=get_agent_grant,
    called=lambda one: str(one.service_name),
    facts=(
        linked(_AGENT, _agent, get_service),
        linked(_PERSON, _person, get_end_user),
        plain(_api, "console.field.api"),
        copied("identifier", "console.apis.identifier"),
        listed("scopes", "console.field.scopes"),
        when("granted_at", "console.field.granted_at"),
        when("expires_at", "console.field.expires_at"),
        when("last_used_at", "console.field.last_token_at"),
        copied("client_id"),
    ),
    ending=Ending(end_agent_grant),
)


async def of_person(visit: PageVisit, user: object) -> LatestRows | None:
    """The person's newest grants, if those who look may see them and there are any."""
    return await _latest(visit, _OF_PERSON, user_id=user)


async def of_agent(visit: PageVisit, service: object) -> LatestRows | None:
    return await _latest(visit, _OF_AGENT, service_id=service)


async def _latest(visit: PageVisit, columns: Any, **filters: object) -> LatestRows | None:
    if not visit.may(list_agent_grants):
        return None
    found = await latest_of(AGENT_GRANTS, visit, columns, **filters)
    return found if found[1] else None


PAGES: Final = pages(AGENT_GRANTS)
