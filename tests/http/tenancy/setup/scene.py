"""Acme, whose owner and admin make set-up links, and Grace, who uses them in a browser without scripts."""

from typing import Any, Final

from core.domain.identity.flows import form_token
from core.domain.secrets import Token
from tests.http.browsing import Tab, Tabs
from tests.http.client import Received
from tests.http.people import BASE_URL, Person
from tests.http.tenancy.proving import Provers

ACME: Final = "/api/organizations/acme"
LINKS: Final = f"{ACME}/setup-links"
EVERYTHING: Final = ("domain", "connection", "scim", "siem")


class SetupScene(Provers):
    def __post_init__(self) -> None:
        super().__post_init__()
        self.owner = self.speaker = self.resident(self.acme, "owner")
        self.admin = self.resident(self.acme, "admin")
        self.stranger = self.resident(self.globex, "owner")
        self.governor = self.people.add(platform_owner=True)

    @property
    def of_platform(self) -> str:
        return f"/api/platform/organizations/{self.acme.id}/setup-links"

    async def make(self, *purposes: str, by: Person | None = None, place: str = LINKS, **more: Any) -> Received:
        body = {"name": "Directory of Example", "purposes": list(purposes or EVERYTHING), **more}
        answer = await self.request("POST", place, body, by=by)
        if answer.status == 201:
            self.log.remember(answer.json()["url"].rpartition("/")[2])
        return answer

    async def link(self, *purposes: str, by: Person | None = None, place: str = LINKS, **more: Any) -> tuple[str, str]:
        """A new link: its id, and its address."""
        made = (await self.make(*purposes, by=by, place=place, **more)).ok(201)
        return made["id"], made["url"].removeprefix(BASE_URL)

    async def shown(self, link: str) -> dict[str, Any]:
        return (await self.request("GET", f"{LINKS}/{link}")).ok()

    async def activate(self, link: str, draft: str, by: Person | None = None, *, digest: str | None = None) -> Received:
        """By default the owner says yes to the settings as they are."""
        seen = next((one["digest"] for one in (await self.shown(link))["drafts"] if one["id"] == draft), "0" * 64)
        return await self.request("POST", f"{LINKS}/{link}/drafts/{draft}/activate", {"digest": seen if digest is None else digest}, by=by)

    async def begun(self, *purposes: str, **more: Any) -> tuple[str, Tab]:
        """A new link, and Grace's tab after the button."""
        link, url = await self.link(*purposes, **more)
        return link, await self.press(url)

    async def press(self, url: str, browser: Tabs | None = None) -> Tab:
        tab = await (browser or Tabs(self.client)).tab().open(url)
        return await tab.send(name="Grace Hopper")

    @staticmethod
    def token_of(tab: Tab) -> str:
        """The secret of every form that the pages show this browser."""
        return form_token(Token(tab.tabs.cookies["__Host-postern_setup"]), "setup")

    def events(self, name: str = "setup_link%") -> list[str]:
        return [one["action"] for one in self.audited(name)]
