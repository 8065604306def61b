"""The rules for risk in Chromium, with scripts and without: a rule is written, seen and let count in few acts, and exceptions are rows."""

from contextlib import AsyncExitStack

import pytest

from core.frozen import replace
from entrypoints.bootstrap import Postern
from ops.browser.page import WIDE, Page
from tests.browser.checks import require_keyboard, require_sound, tab_to
from tests.browser.console.clicking import CountedClicks, told
from tests.browser.test_invitation_pages import scene
from tests.http.inviting import Inviting
from tests.security.organizations.console import COOKIE, signed_in

__all__ = ["scene"]  # a fixture
HOME = "/ui/o/acme"
RISK = f"{HOME}/sign-in/risk"
MOST = 10
API = "/api/organizations/acme/risk-policies"


@pytest.fixture
def postern(postern: Postern) -> Postern:
    """An installation with a database of places."""
    return replace(postern, tenancy=replace(postern.tenancy, risk_policies=replace(postern.tenancy.risk_policies, knows_countries=True)))


async def entered(page: Page, scene: Inviting, at: str) -> None:
    await page.keep_cookie(COOKIE, signed_in(scene.postern, scene.people, scene.ada))
    await page.show(width=WIDE)
    await page.open(at)


async def test_a_second_factor_outside_germany_takes_ten_actions_at_most(page: Page, scene: Inviting) -> None:
    await entered(page, scene, HOME)
    owner = CountedClicks(page)
    await owner.press("Security")
    await owner.press("Risk policies")
    await owner.press("Add policy")
    await owner.type("Policy name", "Second factor outside Germany")
    await owner.type("Outside these countries", "DE")
    await owner.press("Add policy")
    await owner.reads(
        "Report-only",
        "Require MFA",
        "0 sign-ins of the last 30 days would have matched.",
        "This policy would have required MFA at your own sign-in.",
    )
    await owner.press("Enforce")
    await owner.reads("Enforced")
    assert len(owner.actions) <= MOST, told(owner.actions)
    (kept,) = (await scene.request("GET", API)).json()["policies"]
    assert (kept["when"]["except_countries"], kept["action"], kept["counts"]) == (["DE"], "second_factor", True)
    await require_sound(page)
    await require_keyboard(page)


async def test_the_page_is_sound_when_it_is_empty_and_when_something_is_wrong(page: Page, scene: Inviting) -> None:
    await entered(page, scene, RISK)
    await require_sound(page)
    await page.follow("Add policy")
    await require_sound(page)
    await page.fill("Policy name", "Nowhere")
    await page.fill("Outside these countries", "Germany")
    await page.follow("Add policy")
    assert "is not a country code" in await page.text()
    assert "is not a country code" in await page.described("Outside these countries")
    await require_sound(page)
    assert not await page.overflow()


async def test_exceptions_are_rows_that_the_keyboard_adds_and_takes_away(page: Page, scene: Inviting) -> None:
    await entered(page, scene, RISK)
    await tab_to(page, "Add exception")
    await _press(page, "Add exception")
    assert await page.focused() == "Email address, team name, or network"
    await page.type(scene.ada.email)
    await page.press("Tab")
    assert await page.focused() == "Type"
    await page.press("Tab")
    await page.type("2100-12-31")
    await require_sound(page)
    assert not await page.overflow()
    async with page.loading():
        await page.press("Enter")
    (kept,) = (await scene.request("GET", API)).json()["exceptions"]
    assert kept == {"kind": "person", "value": str(scene.ada.user), "ends_at": "2101-01-01T00:00:00Z"}
    await page.open(RISK)
    await tab_to(page, "Remove")
    await _press(page, "Remove")
    await page.follow("Save exceptions")
    assert (await scene.request("GET", API)).json()["exceptions"] == []


async def _press(page: Page, name: str) -> None:
    """Presses the button that has the focus. Without scripts it sends the form, and the page comes back."""
    assert await page.focused() == name
    async with AsyncExitStack() as stack:
        if not page.scripts:
            await stack.enter_async_context(page.loading())
        await page.press("Enter")
