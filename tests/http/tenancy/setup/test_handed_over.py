"""An owner makes active what was handed over, as the owner has seen it: whoever has the link cannot swap it afterwards."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from entrypoints.bootstrap import Postern
from ops.browser.page_reader import PageReader
from ops.stand_ins.fake_directory import FakeDirectory
from ops.stand_ins.saml import pair
from tests.conftest import CapturedLog
from tests.http.browsing import Tab, Tabs
from tests.http.client import Received, refused
from tests.http.federation.arriving import SESSION_COOKIE
from tests.http.people import BASE_URL, People
from tests.http.signing_in import unlimited
from tests.http.tenancy.proving import proving
from tests.http.tenancy.setup.scene import LINKS, SetupScene
from tests.receiver import answering, receiving

PROVIDERS = "/api/organizations/acme/upstream-providers"
SECRET = "5f0c1a7e-secret-of-the-receiver"


class Swapping(SetupScene):
    directory: FakeDirectory

    async def of(self, tab: Tab, link: str, act: str, **fields: str) -> Tab:
        page = await tab.tabs.tab().open(f"/ui/setup/of/{link}/connection")
        return await page.send(next(at for at, one in enumerate(page.page.forms) if one.action.endswith(f"/{act}")), **fields)

    async def tested(self, tab: Tab, link: str) -> None:
        """Gives the directory's metadata, and tries the sign-in there."""
        await self.of(tab, link, "metadata", text=self.directory.metadata())
        leaving = await (await self.of(tab, link, "test")).send()
        (provider,) = await self.providers()
        sent = await tab.tabs.request("POST", f"/saml/sp/{provider['id']}/acs", self.directory.answer(leaving.page.refresh))
        assert sent.status == 303, sent.body

    async def providers(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = (await self.request("GET", PROVIDERS)).json()
        return found

    async def draft(self, link: str) -> dict[str, Any]:
        (draft,) = (await self.shown(link))["drafts"]
        return dict(draft)

    async def hand_over(self, tab: Tab, link: str) -> None:
        draft = await self.draft(link)
        form = {"form_token": self.token_of(tab)}
        answer = await tab.tabs.request("POST", f"/ui/setup/of/{link}/drafts/{draft['id']}/finish", form)
        assert answer.status in {200, 303}, answer.body
        assert (await self.draft(link))["state"] == "waiting"

    async def receiver(self, tab: Tab, link: str, address: str) -> Tab:
        page = await tab.tabs.tab().open(f"/ui/setup/of/{link}/siem")
        form = next(at for at, one in enumerate(page.page.forms) if "endpoint_url" in one.fields)
        return await page.send(form, endpoint_url=address, api_key=SECRET)

    async def asks(self, link: str, draft: str) -> Received:
        """The page on which the owner says yes."""
        return await self.owners_browser().request("GET", f"/ui/o/acme/directories/setup-links/{link}/drafts/{draft}/activate")

    def owners_browser(self) -> Tabs:
        """A browser in which the owner has signed in just now."""
        tabs, token = Tabs(unlimited(self.postern)), self.postern.foundation.secrets.token()
        self.people.change("update sessions set proved_at = now() - interval '1 second' where id = %s", self.owner.session)
        self.people.change("insert into browser_sessions (digest, session_id) values (%s, %s)", token.digest(), self.owner.session)
        tabs.cookies[SESSION_COOKIE] = token.reveal()
        return tabs


@asynccontextmanager
async def swapping_on(postern: Postern, people: People, log: CapturedLog, tmp_path: Path) -> AsyncIterator[Swapping]:
    async with proving(Swapping, postern, people, log, tmp_path, "example.org") as scene:
        log.remember(SECRET)
        scene.directory = FakeDirectory()
        yield scene


@pytest.fixture
async def scene(postern: Postern, people: People, log: CapturedLog, tmp_path: Path) -> AsyncIterator[Swapping]:
    async with swapping_on(postern, people, log, tmp_path) as scene:
        yield scene


async def begun(scene: Swapping) -> tuple[str, Tab]:
    link, tab = await scene.begun("connection", by=scene.admin)
    page = await tab.tabs.tab().open(f"/ui/setup/of/{link}/connection")
    return link, await page.send(directory="other", kind="saml", name="Example")


async def test_a_directory_that_is_swapped_after_the_hand_over_has_to_be_handed_over_anew(scene: Swapping) -> None:
    link, tab = await begun(scene)
    await scene.tested(tab, link)
    await scene.hand_over(tab, link)
    seen = await scene.draft(link)
    # Whoever has the link gives another certificate, tests again, and hands nothing over.
    scene.directory.signer = pair("of whoever has the link")
    await scene.tested(tab, link)
    swapped = await scene.draft(link)
    assert (swapped["state"], swapped["waiting_since"]) == ("tested", None)
    assert swapped["digest"] != seen["digest"]
    for digest in (seen["digest"], swapped["digest"]):
        assert refused(await scene.activate(link, seen["id"], digest=digest)) == (409, "CONFLICT")
    # Nor by the page of the provider, while the link can still change it.
    (provider,) = await scene.providers()
    body = {"digest": provider["digest"]}
    assert refused(await scene.request("POST", f"{PROVIDERS}/{provider['id']}/activate", body)) == (409, "CONFLICT")
    assert (await scene.providers())[0]["enabled"] is False
    # Handed over anew, it waits with other settings than those that were seen before.
    await scene.hand_over(tab, link)
    now = await scene.draft(link)
    assert refused(await scene.activate(link, now["id"], digest=seen["digest"])) == (409, "CONFLICT")
    assert (await scene.activate(link, now["id"], digest=now["digest"])).ok()["state"] == "active"
    (entry,) = scene.audited("setup_link.draft.activated")
    assert entry["details"]["digest"] == now["digest"]


async def test_an_administrator_cannot_swap_it_between_look_and_press(scene: Swapping) -> None:
    link, tab = await begun(scene)
    await scene.tested(tab, link)
    await scene.hand_over(tab, link)
    seen = await scene.draft(link)
    provider = seen["connection"]["id"]
    evil = pair("of the administrator")
    body = {"certificates": [evil.certificate], "metadata_url": ""}
    (await scene.request("PATCH", f"{PROVIDERS}/{provider}", body, by=scene.admin)).ok()
    scene.directory.signer = evil
    started = (await scene.request("POST", f"{PROVIDERS}/{provider}/test", by=scene.admin)).ok()["url"].removeprefix(BASE_URL)
    begins = await (await tab.tabs.tab().open(started)).send()
    await tab.tabs.request("POST", f"/saml/sp/{provider}/acs", scene.directory.answer(begins.page.refresh))
    assert refused(await scene.activate(link, seen["id"], digest=seen["digest"])) == (409, "CONFLICT")
    assert (await scene.providers())[0]["enabled"] is False


async def test_a_receiver_that_is_swapped_after_the_hand_over_has_to_be_handed_over_anew(scene: Swapping) -> None:
    async with receiving(answering(200)) as receiver:
        good, evil = (f"http://127.0.0.1:{receiver.port}/{name}" for name in ("good", "evil"))
        link, tab = await scene.begun("siem")
        await scene.receiver(tab, link, good)
        await scene.hand_over(tab, link)
        seen = await scene.draft(link)
        assert seen["endpoint_url"] == good
        # The owner's page shows the whole address.
        page = await scene.asks(link, seen["id"])
        assert good in page.body.decode().replace("<wbr>", "").replace("\u200b", "")
        await scene.receiver(tab, link, evil)
        swapped = await scene.draft(link)
        assert (swapped["state"], swapped["endpoint_url"]) == ("tested", evil)
        for digest in (seen["digest"], swapped["digest"]):
            assert refused(await scene.activate(link, seen["id"], digest=digest)) == (409, "CONFLICT")
        assert (await scene.request("GET", "/api/organizations/acme/siem")).status == 404
        # The same address with other credentials is another hand-over, too.
        await scene.receiver(tab, link, good)
        await scene.hand_over(tab, link)
        now = await scene.draft(link)
        assert (now["endpoint_url"], now["digest"] == seen["digest"]) == (good, False)
        (await scene.activate(link, now["id"])).ok()
        assert (await scene.request("GET", "/api/organizations/acme/siem")).ok()["endpoint_url"] == good


async def test_a_token_and_a_domain_wait_to_be_handed_over(scene: Swapping) -> None:
    link, tab = await scene.begun("scim")
    page = await tab.tabs.tab().open(f"/ui/setup/of/{link}/scim")
    page = await page.send(next(at for at, form in enumerate(page.page.forms) if form.action.endswith("/scim")))
    scene.log.remember(page.shown.body.decode().partition('id="scim-token">')[2].partition("<")[0])
    draft = await scene.draft(link)
    assert draft["token_prefix"].startswith("scim_")
    assert refused(await scene.activate(link, draft["id"])) == (409, "CONFLICT")
    await scene.hand_over(tab, link)
    (await scene.activate(link, draft["id"])).ok()
    link, tab = await scene.begun("domain")
    page = await (await tab.tabs.tab().open(f"/ui/setup/of/{link}/domain?more")).send(domain="example.org")
    (row,) = scene.people.rows("select settings ->> 'token' as token from setup_drafts where subject = 'example.org'")
    scene.records["_postern-verification.example.org", "TXT"] = [f'"{row["token"]}"']
    await page.send()
    draft = await scene.draft(link)
    assert draft["state"] == "tested"
    assert refused(await scene.activate(link, draft["id"])) == (409, "CONFLICT")
    await scene.hand_over(tab, link)
    (await scene.activate(link, draft["id"])).ok()


async def test_the_owners_page_shows_the_settings_and_its_form_carries_what_was_seen(scene: Swapping) -> None:
    link, tab = await begun(scene)
    await scene.tested(tab, link)
    place = f"/ui/o/acme/directories/setup-links/{link}/drafts/{(await scene.draft(link))['id']}"
    owner = scene.owners_browser()
    # There is no button before the hand-over.
    assert b"/activate" not in (await owner.request("GET", place)).body
    await scene.hand_over(tab, link)
    assert b"/activate" in (await owner.request("GET", place)).body
    draft = await scene.draft(link)
    page = await owner.request("GET", f"{place}/activate")
    shown = page.body.decode().replace("<wbr>", "").replace("\u200b", "")
    (certificate,) = draft["connection"]["saml"]["certificates"]
    for one in (draft["connection"]["issuer"], draft["connection"]["saml"]["sso_url"], certificate["fingerprint"], draft["digest"]):
        assert one in shown, one
    form = next(one for one in PageReader(page.body).forms if one.action.endswith("/activate"))
    scene.directory.signer = pair("of whoever has the link")
    await scene.tested(tab, link)
    await scene.hand_over(tab, link)
    stale = await owner.request("POST", form.action, form.fields)
    assert (stale.status, b"were changed after you opened them" in stale.body) == (409, True)
    assert (await scene.providers())[0]["enabled"] is False
    again = next(one for one in PageReader(stale.body).forms if one.action.endswith("/activate"))
    assert (await owner.request("POST", again.action, again.fields)).status == 303
    assert (await scene.providers())[0]["enabled"] is True


async def test_a_link_that_an_owner_lets_activate_needs_nobody(scene: Swapping) -> None:
    link, tab = await scene.begun("connection", activates=True)
    await (await tab.tabs.tab().open(f"/ui/setup/of/{link}/connection")).send(directory="other", kind="saml", name="Example")
    await scene.tested(tab, link)
    draft = await scene.draft(link)
    await tab.tabs.request("POST", f"/ui/setup/of/{link}/drafts/{draft['id']}/finish", {"form_token": scene.token_of(tab)})
    assert (await scene.draft(link))["state"] == "active"


async def test_nobody_swaps_what_such_a_link_is_about_to_activate(scene: Swapping) -> None:
    link, tab = await scene.begun("connection", activates=True)
    await (await tab.tabs.tab().open(f"/ui/setup/of/{link}/connection")).send(directory="other", kind="saml", name="Example")
    await scene.tested(tab, link)
    draft = await scene.draft(link)
    provider, evil = draft["connection"]["id"], pair("of the administrator")
    for body in ({"certificates": [evil.certificate], "metadata_url": ""}, {"sso_url": "https://evil.example/sso"}):
        assert refused(await scene.request("PATCH", f"{PROVIDERS}/{provider}", body, by=scene.admin)) == (409, "CONFLICT")
    body = {"certificate": evil.certificate}
    assert refused(await scene.request("POST", f"{PROVIDERS}/{provider}/certificate", body, by=scene.admin)) == (409, "CONFLICT")
    assert (await scene.draft(link))["digest"] == draft["digest"]
    await tab.tabs.request("POST", f"/ui/setup/of/{link}/drafts/{draft['id']}/finish", {"form_token": scene.token_of(tab)})
    assert (await scene.draft(link))["state"] == "active"
    # From then on it is a connection as any other.
    (await scene.request("PATCH", f"{PROVIDERS}/{provider}", {"sso_url": "https://evil.example/sso"}, by=scene.admin)).ok()
    assert (await scene.providers())[0]["enabled"] is False


async def test_the_digest_of_another_organization_opens_nothing(scene: Swapping) -> None:
    link, tab = await begun(scene)
    await scene.tested(tab, link)
    await scene.hand_over(tab, link)
    draft = await scene.draft(link)
    place = f"{LINKS.replace('acme', 'globex')}/{link}/drafts/{draft['id']}/activate"
    assert (await scene.request("POST", place, {"digest": draft["digest"]}, by=scene.stranger)).status == 404
    assert (await scene.providers())[0]["enabled"] is False
