"""One search over people, applications and teams of an organization: by name, address, short name or id."""

from collections.abc import Callable, Sequence
from typing import Annotated, Any, Final
from uuid import UUID

import msgspec

from core.domain.errors import NotFound
from core.domain.tenancy.members import LONGEST_SEARCH, Member
from entrypoints.bootstrap import Postern
from entrypoints.http.machinery.answers import Answer, redirect
from entrypoints.http.machinery.calls import Call
from entrypoints.http.machinery.endpoints import Endpoint
from entrypoints.http.pages.console.declaring import console
from entrypoints.http.pages.console.organization.organization_tabs import (
    APPLICATIONS,
    OVERVIEW_ENTRY,
    OVERVIEW_TAB,
    PEOPLE,
    SEARCH,
    position,
)
from entrypoints.http.pages.console.organization.people.members import called
from entrypoints.http.pages.console.visit import Head, Page, PageVisit
from entrypoints.http.routes.services.end_users import get_end_user, list_end_users
from entrypoints.http.routes.services.services import list_services
from entrypoints.http.routes.tenancy.members import get_member, list_members
from entrypoints.http.routes.tenancy.organizations import OwnOrganizationPath, get_organization
from entrypoints.http.routes.tenancy.teams import list_teams

_SHOWN: Final = 10
_Found = Sequence[tuple[str, str, str]]


class SearchLink(msgspec.Struct, frozen=True):
    q: Annotated[str, msgspec.Meta(max_length=LONGEST_SEARCH)] = ""
    """The text to look for."""


@console.get(SEARCH, of=get_organization, also=(list_members, list_end_users, list_services, list_teams))
async def search_organization(call: Call[None, SearchLink, OwnOrganizationPath, Member], postern: Postern) -> Page:
    """Find people, applications and teams of an organization"""
    visit, sought = PageVisit(call, postern), call.query.q.strip()
    person = await _by_id(visit, sought)
    if person:
        return redirect(person)
    groups = []
    if sought and call.caller.organization_is_active:
        for heading, found in (
            ("console.search.people", await _people(visit, sought)),
            ("console.search.applications", await _applications(visit, sought)),
            ("console.search.teams", await _teams(visit, sought)),
        ):
            if found:
                groups.append((visit.text(heading), found))
    page = visit.show(
        "organization/search.html",
        position(OVERVIEW_ENTRY, OVERVIEW_TAB),
        Head(title=visit.text("console.search.title")),
        sought=sought,
        found=groups,
        # The whole lists have pages. A search for part of an address takes turns there, as it does here.
        members=visit.here(PEOPLE) if visit.may(list_members) else "",
        end_users=visit.here(f"{PEOPLE}/users") if visit.may(list_end_users) else "",
    )
    return Answer(page, 200)


async def _by_id(visit: PageVisit, sought: str) -> str:
    """The page of the person with this id. Empty if the text is no id of a person here."""
    try:
        user = UUID(sought)
    except ValueError:
        return ""
    for endpoint, at in ((get_member, f"{PEOPLE}/{{user_id}}"), (get_end_user, f"{PEOPLE}/users/{{user_id}}")):
        if visit.may(endpoint):
            try:
                await visit.ask(endpoint, user_id=user)
            except NotFound:
                continue
            return visit.here(at, user_id=user)
    return ""


async def _people(visit: PageVisit, sought: str) -> _Found:
    if not visit.may(list_members):
        return ()
    found = await visit.ask(list_members, query={"search": sought, "limit": _SHOWN})
    return [(called(one), str(one.user.email), visit.here(f"{PEOPLE}/{{user_id}}", user_id=one.user.id)) for one in found.members]


async def _applications(visit: PageVisit, sought: str) -> _Found:
    at = f"{APPLICATIONS}/{{service_slug}}"
    return await _named(visit, list_services, sought, lambda found: found.services, lambda one: visit.here(at, service_slug=one.slug))


async def _teams(visit: PageVisit, sought: str) -> _Found:
    at = f"{PEOPLE}/teams/{{team_slug}}"
    return await _named(visit, list_teams, sought, lambda found: found, lambda one: visit.here(at, team_slug=one.slug))


async def _named(
    visit: PageVisit, listed: Endpoint, sought: str, rows: Callable[[Any], Sequence[Any]], place: Callable[[Any], str]
) -> _Found:
    """The things whose name, short name or id has the text. The number of these things is bounded for every organization."""
    if not visit.may(listed):
        return ()
    wanted = sought.casefold()
    matching = [
        one
        for one in rows(await visit.ask(listed))
        if wanted in one.name.casefold() or one.slug.startswith(wanted) or str(one.id) == wanted
    ]
    return [(one.name, one.slug, place(one)) for one in matching[:_SHOWN]]


PAGES: Final = (search_organization,)
