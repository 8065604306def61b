"""One search over the installation: organizations, applications, people, and the pages of the platform."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Final
from uuid import UUID

import msgspec

from core.domain.platform.searches import ThingKind
from entrypoints.bootstrap import Postern
from entrypoints.http.console.kit.declaring import console, stated
from entrypoints.http.console.kit.finding import (
    LONGEST_TYPED,
    SHOWN,
    SUGGESTING,
    TYPED,
    AskedForm,
    ErrorPlace,
    FoundLine,
    LinesOfKind,
    error_lines,
    groups_of,
    show_asked,
    show_found,
    sought_by,
)
from entrypoints.http.console.kit.navigation import address
from entrypoints.http.console.kit.visit import AnyCall, Page, PageVisit
from entrypoints.http.console.platform.people import ONE
from entrypoints.http.console.platform.platform_tabs import (
    FIELDS,
    HEALTH_TAB,
    KEYS,
    ORGANIZATIONS,
    OVERVIEW_ENTRY,
    OVERVIEW_TAB,
    PEOPLE,
    PLATFORM,
    SEARCH,
    SIGNING_KEYS_TAB,
    TIERS,
    position,
)
from entrypoints.http.routes.platform.platform_users import search_users
from entrypoints.http.routes.searches import search_things_of_platform

_PLACES: Final[Mapping[ThingKind, str]] = {
    ThingKind.ORGANIZATION: f"{ORGANIZATIONS}/{{id}}",
    # Platform owners need not be members of the organization.
    ThingKind.APPLICATION: f"{ORGANIZATIONS}/{{organization_id}}",
    ThingKind.TIER: TIERS,
    ThingKind.FIELD: f"{FIELDS}/{{slug}}",
    ThingKind.MANAGEMENT_KEY: f"{KEYS}/{{id}}",
}


ERROR_PLACES: Final[Mapping[str, ErrorPlace]] = {"clock": ErrorPlace(HEALTH_TAB), "signature": ErrorPlace(SIGNING_KEYS_TAB)}
"""What an organization changes stands in its own console."""


class SoughtInPlatform(msgspec.Struct, frozen=True):
    q: Annotated[str, msgspec.Meta(max_length=LONGEST_TYPED)] = ""
    """The text that fills the field. Nothing is looked for until somebody presses."""


_POSITION: Final = position(OVERVIEW_ENTRY, OVERVIEW_TAB)


async def _search(call: AnyCall, postern: Postern) -> Page:
    return await show_found(PageVisit(call, postern), _POSITION, sought_by(call.query.q), (), pressed=False)


async def _ask(call: AnyCall, postern: Postern) -> Page:
    visit, sought = PageVisit(call, postern), sought_by(call.body.q)
    groups: list[LinesOfKind] = []
    complete = True
    if sought:
        people = await visit.ask(search_users, query=_person(sought))
        found = await visit.ask(search_things_of_platform, query={"q": sought})
        lines = _lines(people.users)
        groups = [*([LinesOfKind("console.search.people", lines)] if lines else ()), *groups_of(found.things, _PLACES, visit.path)]
        complete = people.complete and found.complete
    lists = (("console.search.all_people", PEOPLE),)
    actions = error_lines(visit, call.body.q, ERROR_PLACES)
    return await show_found(visit, _POSITION, sought, groups, actions=actions, complete=complete, lists=lists)


async def _suggest(call: AnyCall, postern: Postern) -> Page:
    return await show_asked(call, postern, PLATFORM, (), ERROR_PLACES)


def _person(sought: str) -> Mapping[str, Any]:
    try:
        return {"user_id": str(UUID(sought)), "limit": SHOWN}
    except ValueError:
        return {"search": sought, "limit": SHOWN}


def _lines(people: Sequence[Any]) -> Sequence[FoundLine]:
    return [FoundLine(one.name or one.email, one.email, address(ONE, {"user_id": one.id})) for one in people]


_SUGGESTIONS: Final = f"{SEARCH}/suggestions"
PAGES: Final = (
    console.get(SEARCH, of=search_things_of_platform, also=(search_users,))(
        stated(_search, "search_platform", SEARCH, query=SoughtInPlatform)
    ),
    console.post(SEARCH, of=search_things_of_platform, also=(search_users,), accepts=TYPED)(
        stated(_ask, "ask_platform", SEARCH, body=AskedForm)
    ),
    console.post(_SUGGESTIONS, of=search_things_of_platform, **SUGGESTING)(
        stated(_suggest, "suggest_in_platform", _SUGGESTIONS, body=AskedForm)
    ),
)
