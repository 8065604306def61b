"""The presets of a role in Chromium, with scripts and without."""

from core.domain.tenancy.roles import Capability
from ops.browser.page import Page
from tests.browser.checks import require_sound
from tests.browser.console.test_risk_rules import HOME, entered
from tests.browser.test_invitation_pages import scene
from tests.http.inviting import Inviting
from tests.http.pages.console.forms.test_presets import ROLE

__all__ = ["scene"]  # a fixture


async def test_a_preset_ticks_at_once_and_shows_what_it_ticks(page: Page, scene: Inviting) -> None:
    await entered(page, scene, f"{HOME}/people/roles/~new")
    await page.fill("Name", "Auditor")
    if page.scripts:
        await page.click("Read")
    else:
        await page.follow("Read")
    ticked = await page.evaluate("[...document.querySelectorAll('[name=permissions]:checked')].map(one => one.value)")
    assert set(ticked) == {one.value for one in Capability if one.value.endswith(".view")}
    await require_sound(page)
    await page.follow("Create role")
    (role,) = scene.people.rows(ROLE)
    assert (role["name"], set(role["permissions"])) == ("Auditor", set(ticked))
