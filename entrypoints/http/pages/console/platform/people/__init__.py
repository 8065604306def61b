"""People of the installation, for platform owners."""

from typing import Final
from uuid import UUID

from core.domain.errors import NotFound
from core.domain.identifiers import UserId
from core.domain.platform.governance import Authority
from core.domain.platform.platform_users import AccountOverview
from entrypoints.http.machinery.callers import PLATFORM_OWNER
from entrypoints.http.pages.console.navigation import PagePosition, Tab
from entrypoints.http.pages.console.platform.platform_tabs import PEOPLE, PEOPLE_ENTRY, PLATFORM
from entrypoints.http.pages.console.platform.questions import QuestionSubject
from entrypoints.http.pages.console.visit import PageVisit

ONE: Final = f"{PEOPLE}/{{user_id}}"
PERSON_TAB: Final = Tab("console.tab.person", ONE, PLATFORM_OWNER)
SESSIONS_TAB: Final = Tab("console.tab.sessions", f"{ONE}/sessions", PLATFORM_OWNER)
VALUES_TAB: Final = Tab("console.tab.values", f"{ONE}/fields", PLATFORM_OWNER)
_TABS: Final = (PERSON_TAB, SESSIONS_TAB, VALUES_TAB)


def position_of(tab: Tab) -> PagePosition:
    return PagePosition(PLATFORM, PEOPLE_ENTRY, tab, _TABS)


def user_of(visit: PageVisit) -> UserId:
    """Raises `NotFound` for what is no id."""
    try:
        return UserId(UUID(visit.path["user_id"]))
    except ValueError:
        raise NotFound from None


def authority(visit: PageVisit) -> Authority:
    return Authority(visit.call.actor)


async def overview(visit: PageVisit) -> AccountOverview:
    """The person's account. That somebody looked is recorded. Raises `NotFound`."""
    return await visit.postern.platform.account_administration.show(user_of(visit), authority(visit))


async def load(visit: PageVisit) -> QuestionSubject:
    """The person, for questions about them."""
    (found,) = await visit.postern.platform.platform_users.search("", user_of(visit), 1) or (None,)
    if found is None:
        raise NotFound
    called, at = found.account.email.address, visit.here(ONE)
    return QuestionSubject(called, at, (*above(visit), (called, at)), found.account)


def above(visit: PageVisit) -> tuple[tuple[str, str], ...]:
    return ((visit.text("console.people.title"), visit.here(PEOPLE)),)
