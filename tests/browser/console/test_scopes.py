"""The scopes of an API as rows, by keyboard, with scripts and without."""

from contextlib import AsyncExitStack

from ops.browser.page import Page
from tests.browser.checks import require_sound, tab_to
from tests.browser.test_invitation_pages import scene
from tests.http.inviting import Inviting
from tests.security.organizations.console import COOKIE, signed_in

__all__ = ["scene"]
APIS = "/ui/o/acme/apis"


async def press(page: Page, name: str) -> None:
    """Presses the button that has the focus. Without scripts it sends the form, and the page comes back."""
    assert await page.focused() == name
    async with AsyncExitStack() as stack:
        if not page.scripts:
            await stack.enter_async_context(page.loading())
        await page.press("Enter")


def scopes(scene: Inviting) -> list[tuple[str, str]]:
    (server,) = scene.people.rows("select scopes from resource_servers")
    return [(one["name"], one["description"]) for one in server["scopes"]]


async def test_scopes_are_added_and_removed_in_rows(page: Page, scene: Inviting) -> None:
    await page.keep_cookie(COOKIE, signed_in(scene.postern, scene.people, scene.ada))
    await page.open(f"{APIS}/~new")
    await page.fill("API identifier", "https://api.acme.example/orders")
    await page.fill("Name", "Orders")
    await page.follow("Add API")
    at = (await page.place()).partition("?")[0]
    await page.open(f"{at}/scopes")
    for name, text in (("orders:read", "See your orders"), ("orders:write", "Order for you")):
        await tab_to(page, "Add scope")
        await press(page, "Add scope")
        # The new row has the focus.
        assert await page.focused() == "Scope name"
        await page.type(name)
        await page.press("Tab")
        assert await page.focused() == "Description on the consent page"
        await page.type(text)
    await require_sound(page)
    assert not await page.overflow()
    # Enter in a field saves, and presses none of the buttons of the rows.
    async with page.loading():
        await page.press("Enter")
    assert scopes(scene) == [("orders:read", "See your orders"), ("orders:write", "Order for you")]
    await page.open(f"{at}/scopes")
    await tab_to(page, "Remove")
    await press(page, "Remove")
    await page.follow("Save")
    assert scopes(scene) == [("orders:write", "Order for you")]
