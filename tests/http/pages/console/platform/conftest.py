"""Grace, who owns the platform, in the console of the installation."""

from dataclasses import dataclass, field

import pytest

from entrypoints.bootstrap import Postern
from tests.conftest import CapturedLog
from tests.http.browsing import Tab, Tabs
from tests.http.client import Client
from tests.http.pages.console.conftest import ConsoleScene
from tests.http.people import People, Person

HOME = "/ui/platform"


@dataclass
class PlatformScene(ConsoleScene):
    """Ada owns Acme. Grace governs the installation, and has the `tab`."""

    grace: Person = field(init=False)
    acmes: Tab = field(init=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        self.acmes = self.tab
        self.grace = self.people.add("grace@example.org", platform_owner=True)
        self.people.change("update users set email_verified_at = now() where id = %s", self.grace.user)
        self.tabs: Tabs = self.browser(self.grace)
        self.tab = self.tabs.tab()

    async def at(self, place: str = "") -> Tab:
        return await self.tab.open(f"{HOME}{place}")

    async def asks(self, text: str, by: Tab | None = None) -> Tab:
        tab = await (by or self.tab).open(HOME)
        (number,) = [number for number, one in enumerate(tab.page.forms) if one.action == f"{HOME}/search"]
        return await tab.send(number, q=text)

    async def answer(self, place: str, **fields: str) -> Tab:
        """Opens a question and answers it."""
        page = await self.at(place)
        assert page.status == 200, page.page.text
        return await self.send_to(f"{HOME}{place}", **fields)

    async def has_second_factor_of_ada(self) -> None:
        """Ada turns a second factor on, in her own browser."""
        own = self.tabs
        self.tabs = self.acmes.tabs
        await self.has_second_factor()
        self.tabs = own

    async def send_to(self, action: str, **fields: str) -> Tab:
        (number,) = [number for number, one in enumerate(self.tab.page.forms) if one.action == action]
        return await self.tab.send(number, **fields)


@pytest.fixture
def platform(postern: Postern, people: People, client: Client, log: CapturedLog) -> PlatformScene:
    return PlatformScene(postern, people, client, log)
