"""People who sign in with the password of a directory, and the administrator who connects it."""

from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import parse_qs, urlsplit

from ops.browser.page_reader import PageReader
from tests.http.browsing import Tabs
from tests.http.client import Received
from tests.http.people import BASE_URL, Person
from tests.http.upstream.scene import UpstreamScene
from tests.ldap.authority import Authority
from tests.ldap.fake import BASE, BIND_DN, BIND_PASSWORD, FakeLdap

PATH: Final = "/api/organizations/acme/upstream-providers"
PASSWORD: Final = "her directory password"


@dataclass
class LdapScene(UpstreamScene):
    directory: FakeLdap = field(default_factory=lambda: FakeLdap(context=None))  # type: ignore[arg-type]  # the fixture sets it
    authority: Authority = None  # type: ignore[assignment]  # the fixture sets it

    def settings(self, **changes: Any) -> dict[str, Any]:
        return {
            "name": "Acme directory",
            "kind": "ldap",
            "hosts": [f"ldaps://127.0.0.1:{self.directory.port}"],
            "ca_certificates": self.authority.pem,
            "bind_dn": BIND_DN,
            "bind_password": BIND_PASSWORD,
            "base_dn": BASE,
            "ldap_preset": "openldap",
            "person_filter": "(objectClass=person)",
            **changes,
        }

    async def draft(self, **changes: Any) -> str:
        return str((await self.request("POST", PATH, self.settings(**changes))).ok(201)["id"])

    async def change(self, provider: str, by: Person | None = None, **changes: Any) -> Received:
        return await self.request("PATCH", f"{PATH}/{provider}", changes, by=by)

    async def record(self, provider: str) -> dict[str, Any]:
        listed: list[dict[str, Any]] = (await self.request("GET", PATH)).json()
        return next(one for one in listed if one["id"] == provider)

    def prove_domain(self, domain: str = "example.org") -> None:
        self.people.change(
            "insert into domains (id, org_id, domain, token, verified_at, next_check_at, created_at, updated_at)"
            " values (%s, %s, %s, 'token', now(), now() + interval '7 days', now(), now())",
            self.postern.foundation.ids.new(),
            self.acme.id,
            domain,
        )

    async def active(self, **changes: Any) -> str:
        """A directory that was tested and activated. Returns its id."""
        self.prove_domain()
        provider = await self.draft(**changes)
        page = await self.test(provider)
        assert b"All checks passed" in page.body, page.body.decode()
        (await self.activate(provider)).ok()
        self.directory.binds.clear()
        return provider

    async def activate(self, provider: str, digest: str | None = None, by: Person | None = None) -> Received:
        body = {"digest": digest or (await self.record(provider))["digest"]}
        return await self.request("POST", f"{PATH}/{provider}/activate", body, by=by)

    async def test(self, provider: str, name: str = "ada", password: str = PASSWORD) -> Received:
        """Makes a test. Returns the page with its result."""
        tabs = self.browser()
        started = (await self.request("POST", f"{PATH}/{provider}/test")).ok()["url"].removeprefix(BASE_URL)
        page = await tabs.request("GET", started)
        form = PageReader(page.body).forms[0]
        left = await tabs.request("POST", form.action, form.fields)
        assert left.status == 200, left.body
        place = own(PageReader(left.body).refresh)
        if "/password?" in place:
            typed = await self.type(tabs, await tabs.request("GET", place), name, password)
            assert typed.status == 200, typed.body
            place = own(PageReader(typed.body).refresh)
        return await tabs.request("GET", place)

    async def page(self, tabs: Tabs, provider: str, query: str = "?org=acme") -> Received:
        """The page that asks for the directory's password."""
        return await tabs.request("GET", own(await self.leave(tabs, query, word=provider)))

    async def type(self, tabs: Tabs, page: Received, name: str, password: str) -> Received:
        assert page.status in {200, 400, 429, 503}, page.body
        form = PageReader(page.body).forms[0]
        fields = {**form.fields, "directory_name": name, "directory_password": password}
        return await tabs.request("POST", form.action, fields)

    async def arrive(self, tabs: Tabs, provider: str, name: str = "ada", password: str = PASSWORD, query: str = "?org=acme") -> Received:
        """Types the password. Returns the answer of the callback, or the page that refuses."""
        typed = await self.type(tabs, await self.page(tabs, provider, query), name, password)
        if typed.status != 200:
            return typed
        return await tabs.request("GET", own(PageReader(typed.body).refresh))

    async def keep_recorded(self) -> None:
        recorder = self.postern.identity.connection_recorder
        await recorder._gather_all()
        await recorder._write()

    async def recorded(self, provider: str) -> list[dict[str, Any]]:
        await self.keep_recorded()
        listed: list[dict[str, Any]] = (await self.request("GET", f"{PATH}/{provider}/exchanges")).ok()["exchanges"]
        return listed


def own(address: str) -> str:
    """The place of an address of ours."""
    parts = urlsplit(address)
    assert address.startswith((BASE_URL, "/")), address
    return f"{parts.path}?{parts.query}"


def state_in(address: str) -> str:
    return parse_qs(urlsplit(address).query)["state"][0]
