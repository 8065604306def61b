"""The page of hooks in Chromium, with scripts and without: an owner adds one, tries it, and lets it count."""

import pytest

from ops.browser.page import Page
from tests.browser.checks import require_keyboard, require_sound, tab_to
from tests.browser.console.clicking import CountedClicks, told
from tests.browser.console.test_risk_rules import HOME, entered
from tests.browser.test_invitation_pages import scene
from tests.http.inviting import Inviting
from tests.http.tenancy.hooks.scene import GO_ON, saying
from tests.receiver import receiving

__all__ = ["scene"]  # a fixture
HOOKS = f"{HOME}/events/hooks"
MOST = 8


async def sound(page: Page) -> None:
    await require_sound(page)
    await require_keyboard(page)
    assert not await page.overflow()


async def test_an_owner_adds_a_hook_tries_it_and_lets_it_count(page: Page, scene: Inviting) -> None:
    async with receiving(saying(GO_ON)) as receiver:
        await entered(page, scene, HOME)
        owner = CountedClicks(page)
        await owner.press("Security")
        await owner.press("Sign-in hook")
        await owner.reads("No sign-in hook")
        await sound(page)
        await owner.type("Endpoint URL", f"http://127.0.0.1:{receiver.port}/")
        await owner.choose("If the hook does not respond", "Allow the sign-in")
        await owner.press("Save")
        (secret,) = [word for word in (await page.text()).split() if word.startswith("whsec_")]
        scene.log.remember(secret)
        await sound(page)
        await page.open(HOOKS)
        await owner.reads("Report-only")
        await owner.press("Send test request")
        await owner.reads("Allowed")
        assert len(receiver.calls) == 1
        await sound(page)
        scene.people.change("update hooks set since = since - interval '1 hour'")
        await page.open(HOOKS)
        await owner.press("Enforce")
        await owner.reads("Enforce the hook?")
        await sound(page)
        await owner.press("Enforce")
        await owner.reads("Enforced")
        await sound(page)
        assert len(owner.actions) <= MOST, told(owner.actions)
        (kept,) = scene.people.rows("select counts_as from hooks")
        assert kept["counts_as"] is not None


@pytest.mark.parametrize("width", [320])
async def test_the_keyboard_alone_lets_it_count(page: Page, scene: Inviting, width: int) -> None:
    async with receiving(saying(GO_ON)) as receiver:
        body = {"address": f"http://127.0.0.1:{receiver.port}/", "silence": "go_on", "digest": None}
        scene.log.remember((await scene.request("PUT", "/api/organizations/acme/hooks/sign-in", body)).ok()["secret"])
        scene.people.change("update hooks set since = since - interval '1 hour'")
        await entered(page, scene, HOOKS)
        await page.show(width=width)
        assert not await page.overflow()
        for _ in range(2):
            # The button leads to a page that asks, and the page has a button of the same name.
            await tab_to(page, "Enforce")
            async with page.loading():
                await page.press("Enter")
        assert "Enforced" in await page.text()
        await sound(page)
