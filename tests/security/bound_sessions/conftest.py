"""An installation that offers to bind sessions, people with their browsers, and a clock that tests move."""

from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from core.frozen import replace
from entrypoints.bootstrap import Postern
from tests.changed_fields import put
from tests.http import conftest as http
from tests.http.browsing import Tab, Tabs
from tests.http.client import Client
from tests.http.people import People, Person
from tests.http.signing_in import PASSWORD, unlimited
from tests.security.bound_sessions.browser import BOUND, BoundBrowser, Key
from tests.signing import SettableClock

database_url, people = http.database_url, http.people


@pytest.fixture
async def postern(database_url: str, tmp_path: Path) -> AsyncIterator[Postern]:
    async with http.postern_on(database_url, tmp_path, {"POSTERN_BOUND_SESSIONS": "offer"}) as opened:
        await http.with_keys(opened)
        yield opened


@dataclass
class Binding:
    """The installation, whose clock for cookies and challenges a test moves together with that of the browsers."""

    postern: Postern
    people: People
    client: Client
    clock: SettableClock
    browsers: list[BoundBrowser] = field(default_factory=list)

    def browser(self, key: Key | None = None, *, registers: bool = True) -> BoundBrowser:
        made = BoundBrowser(self.client, key=key, registers=registers)
        self.browsers.append(made)
        return made

    async def person(self, name: str) -> Person:
        return await self.people.with_password(PASSWORD, f"{name}@example.org")

    async def signs_in(self, tabs: Tabs, person: Person) -> Tab:
        tab = await tabs.tab().open("/ui/sign-in?again=another&to=/ui/profile")
        await (await tab.send(email=person.email)).send(password=PASSWORD)
        assert (tab.place, tab.status) == ("/ui/profile", 200)
        return tab

    async def bound(self, person: Person, key: Key | None = None) -> BoundBrowser:
        """A browser that has signed in and registered its key."""
        browser = self.browser(key)
        await self.signs_in(browser, person)
        assert len(browser.sessions) == 1
        return browser

    def passes(self, **time: float) -> None:
        spent = timedelta(**time)
        self.clock.advance(spent)
        for browser in self.browsers:
            browser.passes(spent.total_seconds())

    async def counts(self, tabs: Tabs) -> bool:
        """Whether a page of the account opens."""
        return (await tabs.tab().open("/ui/profile")).place == "/ui/profile"

    def audited(self, action: str) -> list[Any]:
        return self.people.rows("select * from audit_log where action = %s order by id", action)

    def nothing_ended(self) -> bool:
        return self.people.rows("select 1 from sessions where revoked_at is not null or expires_at < now() or ends_at < now()") == []

    def is_bound(self, person: Person) -> list[bool]:
        found = self.people.rows(
            "select bound_to is not null as it from browser_sessions join sessions on sessions.id = session_id"
            " where user_id = %s and revoked_at is null order by sessions.created_at",
            person.user,
        )
        return [row["it"] for row in found]

    def in_one_browser(self, *tabs: Tabs) -> None:
        assert len({one.cookies[BOUND].partition(".")[0] for one in tabs}) == 1


@pytest.fixture
def binding(postern: Postern, people: People) -> Binding:
    clock = SettableClock(datetime.now(UTC))
    sessions = postern.identity.bound_sessions
    put(sessions, system=replace(sessions.system, clock=clock))
    return Binding(postern, people, unlimited(postern), clock)


@pytest.fixture
async def ada(binding: Binding) -> Person:
    return await binding.person("ada")
