"""One search over everything of an organization that has a name, over its people, and over the pages of its console."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Final
from uuid import UUID

import msgspec

from core.domain.errors import NotFound
from core.domain.platform.searches import ThingKind
from core.domain.tenancy.members import LONGEST_SEARCH, Member
from entrypoints.bootstrap import Postern
from entrypoints.http.machinery.answers import redirect
from entrypoints.http.machinery.calls import Call
from entrypoints.http.machinery.fields import OrganizationPath
from entrypoints.http.pages.console.declaring import console
from entrypoints.http.pages.console.finding import SHOWN, FoundLine, LinesOfKind, groups_of, show_found, sought_by
from entrypoints.http.pages.console.organization import applications
from entrypoints.http.pages.console.organization.organization_tabs import (
    APIS,
    DIRECTORIES,
    EVENTS,
    KEYS,
    OVERVIEW_ENTRY,
    OVERVIEW_TAB,
    PEOPLE,
    SEARCH,
    SETTINGS,
    SETUP_LINKS,
    position,
)
from entrypoints.http.pages.console.organization.people.members import called
from entrypoints.http.pages.console.visit import Page, PageVisit
from entrypoints.http.routes.searches import LISTED_BY, search_things
from entrypoints.http.routes.services.end_users import get_end_user, list_end_users
from entrypoints.http.routes.tenancy.members import get_member, list_members
from entrypoints.http.routes.tenancy.organizations import get_organization

_PLACES: Final[Mapping[ThingKind, str]] = {
    ThingKind.APPLICATION: f"{applications.LIST}/{{slug}}",
    ThingKind.APPLICATION_ROLE: f"{applications.ROLES}/{{slug}}",
    ThingKind.PERMISSION: f"{applications.PERMISSIONS}/{{slug}}",
    ThingKind.CLAIM: f"{applications.CLAIMS}/{{id}}",
    ThingKind.PLAN: f"{applications.PLANS}/{{id}}",
    ThingKind.API_KEY: f"{applications.API_KEYS}/{{id}}",
    ThingKind.API: f"{APIS}/{{id}}",
    ThingKind.TEAM: f"{PEOPLE}/teams/{{slug}}",
    ThingKind.ROLE: f"{PEOPLE}/roles/{{id}}",
    ThingKind.FIELD: f"{PEOPLE}/fields/{{slug}}",
    ThingKind.INVITATION: f"{PEOPLE}/invitations/{{id}}",
    ThingKind.DIRECTORY: f"{DIRECTORIES}/{{id}}",
    ThingKind.DOMAIN: f"{DIRECTORIES}/domains/{{id}}",
    ThingKind.OWN_DOMAIN: f"{SETTINGS}/domain",
    ThingKind.SCIM_TOKEN: f"{DIRECTORIES}/scim/{{id}}",
    ThingKind.SETUP_LINK: f"{SETUP_LINKS}/{{id}}",
    ThingKind.WEBHOOK: f"{EVENTS}/{{id}}",
    ThingKind.SIEM: f"{EVENTS}/siem",
    ThingKind.MANAGEMENT_KEY: f"{KEYS}/{{id}}",
}
_LISTS: Final = (
    (list_members, "console.search.all_members", PEOPLE),
    (list_end_users, "console.search.all_end_users", f"{PEOPLE}/users"),
)


class SearchLink(msgspec.Struct, frozen=True):
    q: Annotated[str, msgspec.Meta(max_length=LONGEST_SEARCH)] = ""
    """The text to look for."""


@console.get(SEARCH, of=get_organization, also=(search_things, list_members, list_end_users, *LISTED_BY.values()))
async def search_organization(call: Call[None, SearchLink, OrganizationPath, Member], postern: Postern) -> Page:
    """Find people, things and pages of an organization"""
    visit, sought = PageVisit(call, postern), sought_by(call.query.q)
    person = await _by_id(visit, sought)
    if person:
        return redirect(person)
    groups: list[LinesOfKind] = []
    if sought and call.caller.organization_is_active:
        people = await _people(visit, sought)
        things = (await visit.ask(search_things, query={"q": sought})).things
        groups = [*([LinesOfKind("console.search.people", people)] if people else ()), *groups_of(things, _PLACES, visit.path)]
    # The whole lists have pages. A search for part of an address takes turns there, as it does here.
    lists = [(label, visit.here(where)) for listed, label, where in _LISTS if visit.may(listed)]
    return show_found(visit, position(OVERVIEW_ENTRY, OVERVIEW_TAB), sought, groups, lists=lists)


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


async def _people(visit: PageVisit, sought: str) -> Sequence[FoundLine]:
    """Members first. Many are end users, too."""
    lines: dict[UUID, FoundLine] = {}
    if visit.may(list_members):
        for one in (await visit.ask(list_members, query={"search": sought, "limit": SHOWN})).members:
            lines[one.user.id] = FoundLine(called(one), str(one.user.email), visit.here(f"{PEOPLE}/{{user_id}}", user_id=one.user.id))
    if visit.may(list_end_users) and len(lines) < SHOWN:
        for one in (await visit.ask(list_end_users, query={"search": sought, "limit": SHOWN})).users:
            where = visit.here(f"{PEOPLE}/users/{{user_id}}", user_id=one.id)
            lines.setdefault(one.id, FoundLine(one.name or one.email, one.email, where))
    return [*lines.values()][:SHOWN]


PAGES: Final = (search_organization,)
