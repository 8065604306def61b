"""What happens to a set-up link and its drafts in the middle of a step: somebody else is quicker, and nothing happens twice or half."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from adapters.postgres.tenancy.setup import SetupLinkRows
from core.domain.errors import NotFound
from core.domain.identifiers import SetupDraftId, SetupLinkId
from core.domain.secrets import Token
from core.domain.tenancy.setup import KnownSetupLink
from entrypoints.bootstrap import Postern
from tests.conftest import CapturedLog
from tests.http.browsing import Tab, Tabs
from tests.http.client import refused
from tests.http.people import People
from tests.http.tenancy.proving import proving
from tests.http.tenancy.setup.scene import LINKS
from tests.http.tenancy.setup.test_setup_drafts import DraftScene
from tests.meanwhile import meanwhile
from tests.receiver import answering, receiving

NO_LINK = "delete from setup_links"
NO_DRAFT = "delete from setup_drafts"


class OvertakenScene(DraftScene):
    async def known(self, link: str, tab: Tab) -> KnownSetupLink:
        """The link as a page of this browser knows it."""
        browser = Token(tab.tabs.cookies["__Host-postern_setup"])
        return await self.postern.tenancy.setup_links.enter(SetupLinkId(UUID(link)), browser)

    async def step(self, tab: Tab, link: str, place: str) -> int:
        """The status of the answer to a form that this browser sends."""
        sent = await tab.tabs.request("POST", f"/ui/setup/of/{link}/{place}", {"form_token": self.token_of(tab)})
        return sent.status


@pytest.fixture
async def scene(postern: Postern, people: People, log: CapturedLog, tmp_path: Path) -> AsyncIterator[OvertakenScene]:
    async with proving(OvertakenScene, postern, people, log, tmp_path, "example.org") as scene:
        yield scene


async def test_a_link_that_goes_before_the_button_is_pressed_is_unknown(scene: OvertakenScene, monkeypatch: pytest.MonkeyPatch) -> None:
    _, url = await scene.link("domain")
    tab = await Tabs(scene.client).tab().open(url)
    meanwhile(monkeypatch, SetupLinkRows, "find_by_token", lambda: scene.people.change(NO_LINK))
    pressed = await tab.send(name="Grace Hopper")
    assert (pressed.status, "This setup link is not valid" in pressed.page.text) == (404, True)
    assert scene.events() == ["setup_link.created"]


async def test_a_link_that_goes_while_a_form_comes_is_unknown(scene: OvertakenScene, monkeypatch: pytest.MonkeyPatch) -> None:
    link, tab = await scene.begun("domain")
    page = await tab.tabs.tab().open(f"/ui/setup/of/{link}/domain")
    meanwhile(monkeypatch, SetupLinkRows, "find", lambda: scene.people.change(NO_LINK))
    sent = await page.send(domain="example.org")
    assert (sent.status, "This setup link is not valid" in sent.page.text) == (404, True)
    assert scene.people.rows("select from setup_drafts") == []


async def test_two_tabs_of_a_browser_that_press_at_once_own_the_link_once(scene: OvertakenScene, monkeypatch: pytest.MonkeyPatch) -> None:
    _, url = await scene.link("domain")
    browser = Tabs(scene.client)
    first, second = [await browser.tab().open(url), await browser.tab().open(url)]
    pressed: list[Tab] = []

    async def be_quicker() -> None:
        if not pressed:
            pressed.append(second)
            await second.send(name="Grace Hopper")

    meanwhile(monkeypatch, SetupLinkRows, "find_by_token", be_quicker)
    await first.send(name="Ada Lovelace")
    assert first.place == second.place
    assert scene.events() == ["setup_link.created", "setup_link.used"]


async def test_a_browser_that_owns_the_link_already_owns_it_once(scene: OvertakenScene) -> None:
    """Whatever the second tab sends: nobody asks again who uses the link."""
    link, url = await scene.link("domain")
    browser = Tabs(scene.client)
    first, second = [await browser.tab().open(url), await browser.tab().open(url)]
    assert (await first.send(name="Grace Hopper")).place == f"/ui/setup/of/{link}"
    assert (await second.send(name=" ")).place == f"/ui/setup/of/{link}"
    assert (await scene.shown(link))["used_by"] == "Grace Hopper"
    assert scene.events() == ["setup_link.created", "setup_link.used"]


async def test_a_browser_with_other_links_learns_nothing_of_one_that_is_not_there(scene: OvertakenScene) -> None:
    link, tab = await scene.begun("domain")
    scene.people.change("update setup_links set id = gen_random_uuid()")
    page = await tab.tabs.tab().open(f"/ui/setup/of/{link}")
    assert (page.status, "This setup link is not valid" in page.page.text) == (404, True)


@pytest.mark.parametrize("step", ["find_draft", "hold"])
async def test_a_draft_that_somebody_else_drops_meanwhile_is_not_handed_over(
    scene: OvertakenScene, step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It goes after the first look at it, or while this browser waits for the organization."""
    link, tab = await scene.begun("domain")
    await scene.domain(tab, link)
    (draft,) = await scene.drafts(link)
    meanwhile(monkeypatch, SetupLinkRows, step, lambda: scene.people.change(NO_DRAFT))
    assert await scene.step(tab, link, f"drafts/{draft['id']}/finish") == 404
    assert (scene.events("setup_link.draft%"), await scene.drafts(link)) == ([], [])


async def test_a_dropped_draft_does_not_become_active_by_itself(scene: OvertakenScene, monkeypatch: pytest.MonkeyPatch) -> None:
    link, tab = await scene.begun("domain", activates=True)
    await scene.domain(tab, link)
    (draft,) = await scene.drafts(link)
    meanwhile(monkeypatch, SetupLinkRows, "drafts", lambda: scene.people.change(NO_DRAFT))
    assert await scene.step(tab, link, f"drafts/{draft['id']}/finish") == 404
    assert await scene.routes() == []


async def test_an_owner_does_not_activate_what_was_dropped_meanwhile(scene: OvertakenScene, monkeypatch: pytest.MonkeyPatch) -> None:
    link, tab = await scene.begun("domain")
    await (await scene.domain(tab, link)).send()
    (draft,) = await scene.drafts(link)
    assert draft["state"] == "waiting"
    meanwhile(monkeypatch, SetupLinkRows, "find_listed", lambda: scene.people.change(NO_DRAFT))
    answer = await scene.request("POST", f"{LINKS}/{link}/drafts/{draft['id']}/activate", {"digest": draft["digest"]})
    assert refused(answer) == (404, "NOT_FOUND")
    assert await scene.routes() == []


async def test_what_was_handed_over_is_not_handed_over_again(scene: OvertakenScene) -> None:
    link, tab = await scene.begun("domain")
    await (await scene.domain(tab, link)).send()
    (draft,) = await scene.drafts(link)
    assert await scene.step(tab, link, f"drafts/{draft['id']}/finish") == 303
    assert await scene.drafts(link) == [draft]
    assert scene.events("setup_link.draft%") == ["setup_link.draft.waiting"]


async def test_a_look_takes_nothing_back_that_an_owner_activates_meanwhile(scene: OvertakenScene, monkeypatch: pytest.MonkeyPatch) -> None:
    link, tab = await scene.begun("domain", "scim")
    await (await scene.domain(tab, link)).send()
    (draft,) = await scene.drafts(link)
    scene.records.pop(("_postern-verification.example.org", "TXT"))
    decided: list[str] = []

    async def decide() -> None:
        # The activation looks for the record, too.
        if not decided:
            decided.append("now")
            scene.published("example.org")
            decided.append((await scene.activate(link, draft["id"])).ok()["state"])

    meanwhile(monkeypatch, scene.postern.tenancy.domain_drafts.proofs, "is_published", decide)
    assert await scene.step(tab, link, f"domain/{draft['id']}/look") == 303
    assert decided == ["now", "active"]
    (after,) = await scene.drafts(link)
    assert (after["state"], after["tested_at"], await scene.routes()) == ("active", draft["tested_at"], [("example.org", True)])


async def test_a_test_says_nothing_about_settings_that_came_meanwhile(scene: OvertakenScene) -> None:
    """Otherwise a receiver that refuses everything would count as tested, since another one took the event."""
    link, tab = await scene.begun("siem")

    async def answer(stream: Any, call: Any) -> bool:
        if call.target != "/in":
            return await answering(403)(stream, call)
        other = f"http://127.0.0.1:{receiver.port}/other"
        page = await scene.receiver(tab, link, receiver, endpoint_url=other)
        assert "The receiver rejected the API key" in page.page.text
        return await answering(200)(stream, call)

    async with receiving(answer) as receiver:
        page = await scene.receiver(tab, link, receiver)
        assert "The receiver rejected the API key" in page.page.text
        assert [call.target for call in receiver.calls] == ["/in", "/other"]
    (draft,) = await scene.drafts(link)
    assert (draft["state"], draft["endpoint_url"]) == ("draft", f"http://127.0.0.1:{receiver.port}/other")


async def test_the_steps_of_one_part_take_no_draft_of_another(scene: OvertakenScene) -> None:
    """The pages ask only for their own drafts; nothing else may call a receiver, or look for a record, for another part's draft."""
    link, tab = await scene.begun("domain", "siem")
    await scene.domain(tab, link, published=False)
    async with receiving(answering(200)) as receiver:
        await scene.receiver(tab, link, receiver)
        calls = len(receiver.calls)
        before = await scene.drafts(link)
        known = await scene.known(link, tab)
        of = {one["purpose"]: SetupDraftId(UUID(one["id"])) for one in before}
        with pytest.raises(NotFound):
            await scene.postern.tenancy.domain_drafts.look(known, of["siem"])
        with pytest.raises(NotFound):
            await scene.postern.tenancy.siem_drafts.test(known, of["domain"])
        assert (len(receiver.calls), await scene.drafts(link)) == (calls, before)
