"""People who sign in through a directory by SAML, and the administrator who connects it."""

from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import urlencode, urlsplit

from ops.browser.page_reader import PageReader
from ops.stand_ins.fake_directory import FakeDirectory
from ops.stand_ins.saml import MAIL
from tests.http.browsing import Tabs
from tests.http.client import Received
from tests.http.people import BASE_URL, Person
from tests.http.upstream.scene import UpstreamScene

PATH: Final = "/api/organizations/acme/upstream-providers"
XML: Final = (("content-type", "application/samlmetadata+xml"),)


@dataclass
class ConnectionScene(UpstreamScene):
    directory: FakeDirectory = field(default_factory=FakeDirectory)
    another: Any = None

    async def draft(self, name: str = "Acme directory", **changes: Any) -> str:
        """A directory whose metadata were given. Returns its id."""
        body = {"name": name, "kind": "saml", "email_sources": [MAIL], **changes}
        made = (await self.request("POST", PATH, body)).ok(201)
        provider = str(made["id"])
        (await self.fill(provider)).ok()
        return provider

    async def fill(self, provider: str, document: str | None = None, *, url: str = "", by: Person | None = None) -> Received:
        query = f"?{urlencode({'url': url})}" if url else ""
        sent = b"" if url else (document or self.directory.metadata()).encode()
        token = await self.tenants.token(by or self.speaker)
        return await self.client.request("POST", f"{PATH}/{provider}/metadata{query}", body=sent, token=token, headers=XML)

    async def prove_domain(self, domain: str = "example.org") -> None:
        self.people.change(
            "insert into domains (id, org_id, domain, token, verified_at, next_check_at, created_at, updated_at)"
            " values (%s, %s, %s, 'token', now(), now() + interval '7 days', now(), now())",
            self.postern.foundation.ids.new(),
            self.acme.id,
            domain,
        )

    async def active(self, *, domain: str = "example.org", **changes: Any) -> str:
        """A directory that was tested and activated. Returns its id."""
        provider = await self.draft(**changes)
        result = await self.test(provider)
        assert b"All checks passed" in result.body, result.body
        (await self.activate(provider)).ok()
        if domain:
            await self.prove_domain(domain)
        return provider

    async def activate(self, provider: str, *, digest: str | None = None, by: Person | None = None) -> Received:
        """By default an owner says yes to the settings as they are."""
        body = {"digest": (await self.record(provider))["digest"] if digest is None else digest}
        return await self.request("POST", f"{PATH}/{provider}/activate", body, by=by)

    async def record(self, provider: str) -> dict[str, Any]:
        listed: list[dict[str, Any]] = (await self.request("GET", PATH)).json()
        return next(one for one in listed if one["id"] == provider)

    async def test(self, provider: str, tabs: Tabs | None = None, **answer: Any) -> Received:
        """Makes a test. Returns the page with its result."""
        tabs = tabs or self.browser()
        url = (await self.request("POST", f"{PATH}/{provider}/test")).ok()["url"]
        place = url.removeprefix(BASE_URL)
        page = await tabs.request("GET", place)
        location = await self.begin_test(tabs, page)
        back = await self.post_answer(provider, self.directory.answer(location, **answer))
        return await tabs.request("GET", place_of(back))

    async def begin_test(self, tabs: Tabs, page: Received) -> str:
        form = PageReader(page.body).forms[0]
        answer = await tabs.request("POST", form.action, form.fields)
        assert answer.status == 200, answer.body
        return PageReader(answer.body).refresh

    async def post_answer(self, provider: str, fields: dict[str, str]) -> Received:
        """The form of another site: it brings no cookies."""
        headers = [("sec-fetch-site", "cross-site"), ("content-type", "application/x-www-form-urlencoded")]
        return await self.unlimited.request("POST", f"/saml/sp/{provider}/acs", body=urlencode(fields).encode(), headers=headers)

    async def arrive(self, tabs: Tabs, provider: str, query: str = "?org=acme", **answer: Any) -> Received:
        """Goes to the directory and back. Returns the callback's answer."""
        location = await self.leave(tabs, query, word=provider)
        back = await self.post_answer(provider, self.directory.answer(location, **answer))
        if back.status != 303:
            return back
        return await tabs.request("GET", place_of(back))

    async def keep_recorded(self) -> None:
        """Stores what the recorder has been told."""
        recorder = self.postern.identity.connection_recorder
        await recorder._gather_all()
        await recorder._write()


def place_of(answer: Received) -> str:
    assert answer.status == 303, (answer.status, answer.body)
    location = answer.header("location")
    assert location is not None
    parts = urlsplit(location)
    return f"{parts.path}?{parts.query}"
