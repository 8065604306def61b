"""Further providers of the installation, and the people who come by them."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import parse_qsl, urlsplit

from ops.browser.page_reader import PageReader
from ops.stand_ins.fake_providers import FakeProvider
from tests.http.browsing import Tabs
from tests.http.client import Received
from tests.http.people import BASE_URL, Person
from tests.http.postbox import Postbox
from tests.http.upstream.further.preset_providers import APPLE_PEM, KEY_ID, TEAM, FakeApple
from tests.http.upstream.scene import ADA, UpstreamScene

PROVIDERS: Final = "/api/platform/providers"
ADDRESS: Final = "/ui/provider-address"
CODE: Final = f"{ADDRESS}/code"
# The people, as each provider tells of them.
OF_PROFILE: Final = frozenset({"discord", "facebook", "profiles"})


@dataclass
class FurtherScene(UpstreamScene):
    """Root is a platform owner with a fresh proof."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.postbox = Postbox(self.postern)
        self.root = self.people.add("root@platform.example", platform_owner=True)

    def of_preset(self, preset: str) -> dict[str, Any]:
        """What adds a provider of the preset, at our address of it."""
        fake = self.fakes[preset]
        body: dict[str, Any] = {"preset": preset, "client_id": fake.client_id, "client_secret": fake.client_secret}
        if preset == "apple":
            return {**body, "issuer": fake.issuer, "client_secret": APPLE_PEM, "team_id": TEAM, "key_id": KEY_ID}
        if preset in OF_PROFILE:
            addresses = {"authorization_url": f"{fake.url}/authorize", "token_url": f"{fake.url}/token"}
            return {**body, **addresses, "profile_url": f"{fake.url}{fake.at}"}  # type: ignore[attr-defined]
        return {**body, "issuer": fake.issuer}

    async def add(self, body: Mapping[str, Any], by: Person | None = None) -> Received:
        return await self.request("POST", PROVIDERS, dict(body), by=by or self.root)

    async def has(self, preset: str, **more: Any) -> FakeProvider:
        """Adds the provider, active unless `more` says otherwise, at which Ada sits from now on."""
        made = await self.add({**self.of_preset(preset), "active": True, **more})
        assert made.status == 201, made.body
        return self.seats(preset)

    def seats(self, preset: str, email: str | None = ADA, subject: str = "1815", *, verified: bool = True) -> FakeProvider:
        fake = self.fakes[preset]
        stated = {} if email is None else {"email": email}
        if preset in OF_PROFILE:
            says = {"verified": verified} if preset == "discord" else {}
            fake.person = {"id": subject, **stated, **says, "global_name" if preset == "discord" else "name": "Ada Lovelace"}
        else:
            fake.person = {"sub": subject, **stated, "email_verified": verified}
        return fake

    async def come(self, tabs: Tabs, preset: str, query: str = "", **person: Any) -> Received:
        """Goes to the provider and back, by a form where the provider sends one. Returns the answer of the way back."""
        fake = self.fakes[preset]
        back = fake.consent(await self.leave(tabs, query, word=preset), **person)
        if isinstance(fake, FakeApple):
            back = await self.posted(fake, back)
        return await tabs.request("GET", back)

    async def posted(self, fake: FakeApple, back: str) -> str:
        """Sends the form of the other site, which brings no cookies. Returns where the browser goes on."""
        answer = await self.unlimited.request("POST", back, body=fake.form, headers=[("content-type", "application/x-www-form-urlencoded")])
        assert answer.status == 303, answer.body
        location = answer.header("location")
        assert location is not None
        return location.removeprefix(BASE_URL)

    async def link(self, tabs: Tabs, preset: str) -> str:
        """Connects the provider on the account page. Returns where the way back leads to."""
        asked = f"/ui/settings/connections/{preset}/connect"
        shown = PageReader((await tabs.request("GET", asked)).body)
        left = await self.send(tabs, shown, asked)
        address = PageReader(left.body).refresh
        fake = self.fakes[preset]
        back = fake.consent(address)
        came = await tabs.request("GET", await self.posted(fake, back) if isinstance(fake, FakeApple) else back)
        location = came.header("location")
        assert location is not None, came.body
        return location

    async def asked(self, tabs: Tabs, came: Received) -> PageReader:
        """The page that asks for the address."""
        assert came.status == 302, came.body
        location = came.header("location")
        assert location is not None
        assert location.startswith(f"{ADDRESS}?flow="), location
        shown = await tabs.request("GET", location)
        assert shown.status == 200, shown.body
        return PageReader(shown.body)

    async def register(self, tabs: Tabs, page: PageReader, email: str = ADA) -> Received:
        """Asks for the code, and types it."""
        sent = await self.send(tabs, page, ADDRESS, email=email)
        assert sent.status == 303, sent.body
        location = sent.header("location")
        assert location is not None
        assert location.startswith(CODE)
        code = await self.mailed_code(email)
        return await self.send(tabs, PageReader((await tabs.request("GET", location)).body), CODE, code=code)

    async def send(self, tabs: Tabs, page: PageReader, action: str, **fields: str) -> Received:
        form = next(one for one in page.forms if one.action == action)
        return await tabs.request("POST", action, {**form.fields, **fields})

    async def mailed_code(self, email: str = ADA) -> str:
        mail = [one for one in await self.postbox.empty() if one.to == email and "code" in one.subject][-1]
        return next(word for word in mail.text.split() if len(word) == 8 and word.isdigit())

    def query_of(self, address: str) -> dict[str, str]:
        return dict(parse_qsl(urlsplit(address).query))
