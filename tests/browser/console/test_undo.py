"""Settings that are put back, in a browser without scripts, by keyboard."""

from ops.browser.page import Page
from tests.browser.checks import require_sound, tab_to
from tests.browser.test_invitation_pages import scene
from tests.http.inviting import Inviting
from tests.security.organizations.console import COOKIE, signed_in

__all__ = ["scene"]
SETTINGS = "/ui/o/acme/settings"


def name(scene: Inviting) -> str:
    return str(scene.people.rows("select name from organizations where slug = 'acme'")[0]["name"])


async def test_a_name_goes_back_by_keyboard_without_scripts_after_a_reload(plain_page: Page, scene: Inviting) -> None:
    page = plain_page
    await page.keep_cookie(COOKIE, signed_in(scene.postern, scene.people, scene.ada))
    await page.open(SETTINGS)
    await page.fill("Name", "Acme Works")
    await page.follow("Save")
    assert name(scene) == "Acme Works"
    await page.open(SETTINGS)
    assert "Changed just now. Previous values:" in await page.text()
    await require_sound(page)
    await tab_to(page, "Undo change")
    async with page.loading():
        await page.press("Enter")
    assert name(scene) == "Acme"
    # Somebody else is quicker: the page says what would be lost.
    await page.open(SETTINGS)
    token = await scene.people.token(scene.ada)
    answer = await scene.client.request("PATCH", "/api/organizations/acme", body={"name": "Acme Limited"}, token=token)
    assert answer.status == 200
    await page.follow("Undo change")
    assert "Undoing would discard that change" in await page.text()
    assert name(scene) == "Acme Limited"
    await require_sound(page)
    await page.follow("Back to settings")
    assert (await page.place()).endswith(SETTINGS)
