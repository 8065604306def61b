"""A browser in which several people are signed in."""

from collections.abc import Sequence
from typing import Final

import pytest

from core.domain.secrets import Token
from entrypoints.bootstrap import Postern
from tests.conftest import CapturedLog
from tests.http.browsing import Tab, Tabs, choices
from tests.http.cast import Cast
from tests.http.federation.arriving import SESSION_COOKIE, Arriving
from tests.http.people import People, Person
from tests.http.signing_in import PASSWORD, unlimited

ACCOUNTS_COOKIE: Final = "__Host-postern_accounts"
ACCOUNTS: Final = "/ui/accounts"


class SeveralAccounts(Cast):
    """People who sign in beside each other in one browser."""

    def browser(self) -> Tabs:
        return Tabs(self.client)

    async def person(self, name: str) -> Person:
        return await self.people.with_password(PASSWORD, f"{name}@example.org")

    async def signs_in(self, tabs: Tabs, *people: Person) -> None:
        """Each signs in on the pages, one after the other. The last one's account is in use then."""
        for person in people:
            tab = await tabs.tab().open("/ui/sign-in?again=another&to=/ui/profile")
            await (await tab.send(email=person.email)).send(password=PASSWORD)
            assert (tab.place, tab.status) == ("/ui/profile", 200)

    async def together(self, *people: Person) -> Tabs:
        tabs = self.browser()
        await self.signs_in(tabs, *people)
        return tabs

    async def in_use(self, tabs: Tabs) -> str | None:
        token = tabs.cookies.get(SESSION_COOKIE)
        caller = None if token is None else await self.postern.tenancy.callers.resolve_browser(Token(token))
        return None if caller is None else caller.email.address

    async def here(self, tabs: Tabs) -> Sequence[str]:
        """The accounts that are signed in in the browser, the one in use first."""
        listed = await tabs.tab().open(ACCOUNTS)
        return [] if listed.place != ACCOUNTS else list(choices(listed))

    async def use(self, tabs: Tabs, person: Person, place: str = "/ui/profile") -> Tab:
        tab = await tabs.tab().open(f"{ACCOUNTS}?to={place}")
        return await tab.send(account=choices(tab)[person.email])

    def lives(self, person: Person) -> bool:
        """Whether the person is signed in in a browser."""
        living = "select from sessions where user_id = %s and revoked_at is null and id in (select session_id from browser_sessions)"
        return bool(self.people.rows(living, person.user))


class Shared(SeveralAccounts, Arriving):
    """Their browser, and applications that send them to it."""


@pytest.fixture
def shared(postern: Postern, people: People, log: CapturedLog) -> Shared:
    return Shared(postern, people, unlimited(postern), log)
