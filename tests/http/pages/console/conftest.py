"""Ada, who owns Acme, in its console."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest

from entrypoints.bootstrap import Postern
from ops.browser.page_reader import PageForm
from tests.conftest import CapturedLog
from tests.http.browsing import Tab
from tests.http.client import Client
from tests.http.pages.account.conftest import AccountPagesScene
from tests.http.people import People, Person
from tests.http.signing_in import unlimited
from tests.http.tenants import Tenant

HOME = "/ui/o/acme"


@dataclass
class ConsoleScene(AccountPagesScene):
    """An organization, and its owner in the browser."""

    acme: Tenant = field(init=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        self.acme = self.tenants.add("acme")
        self.tenants.join(self.ada, self.acme, "owner")

    async def at(self, place: str = "") -> Tab:
        """A page of Acme's console."""
        return await self.tab.open(f"{HOME}{place}")

    async def asks(self, text: str, by: Tab | None = None) -> Tab:
        """What somebody types in the search of Acme's console, and presses Enter."""
        tab = await (by or self.tab).open(HOME)
        (number,) = [number for number, one in enumerate(tab.page.forms) if one.action == f"{HOME}/search"]
        return await tab.send(number, q=text)

    def number(self, action: str) -> int:
        """The number of the form that goes to this address, below the organization."""
        found = [number for number, one in enumerate(self.tab.page.forms) if one.action == f"{HOME}{action}"]
        assert len(found) == 1, [one.action for one in self.tab.page.forms]
        return found[0]

    def fields(self, action: str) -> PageForm:
        return self.tab.page.forms[self.number(action)]

    async def submit(self, action: str, **fields: str | bytes | Sequence[str]) -> Tab:
        return await self.tab.send(self.number(action), **fields)

    def colleague(self, role: str = "member") -> Tab:
        """Another member of Acme, in a browser of their own."""
        person = self.people.add()
        self.tenants.join(person, self.acme, role)
        return self.browser(person).tab()

    def stranger(self) -> tuple[Person, Tab]:
        """The owner of another organization, in a browser of their own."""
        person = self.people.add()
        self.tenants.join(person, self.tenants.add("globex"), "owner")
        return person, self.browser(person).tab()


@pytest.fixture
def client(postern: Postern) -> Client:
    return unlimited(postern)


@pytest.fixture
def console(postern: Postern, people: People, client: Client, log: CapturedLog) -> ConsoleScene:
    return ConsoleScene(postern, people, client, log)
