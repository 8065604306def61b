"""Choosing a password by a mailed link, in a browser."""

import pytest

from entrypoints.bootstrap import Postern
from ops.browser.page import Page
from tests.browser.checks import require_keyboard, require_sound, tab_to
from tests.conftest import CapturedLog
from tests.http.client import Client
from tests.http.identity.test_account_passwords import NEW, OLD, ada, forgotten, password_is, postbox
from tests.http.people import Person
from tests.http.postbox import Postbox

__all__ = ["ada", "postbox"]  # fixtures

RESET = "/ui/reset-password"


@pytest.fixture
async def link(client: Client, ada: Person, postbox: Postbox, log: CapturedLog) -> str:
    token = await forgotten(client, postbox, ada)
    log.remember(token, NEW)
    return f"{RESET}?token={token}"


async def test_a_person_chooses_a_password(page: Page, link: str, postern: Postern) -> None:
    await page.open(link)
    assert await page.focused() == "New password"
    await require_sound(page)
    await page.fill("New password", NEW)
    await page.fill("Confirm new password", OLD)
    await page.follow("Set password")
    # The error comes first, beside its field, and links to the field.
    assert page.status == 400
    assert (await page.title()).startswith("Error: ")
    assert (await page.focused()).startswith("There is a problem")
    assert await page.described("Confirm new password") == "The passwords do not match. Enter the same password twice."
    await require_sound(page)
    await page.click("The passwords do not match. Enter the same password twice.")
    assert await page.focused() == "Confirm new password"

    await page.fill("New password", NEW)
    await page.fill("Confirm new password", NEW)
    await page.follow("Set password")
    assert "Your password was changed" in await page.text()
    await require_sound(page)
    assert await password_is(postern, NEW)


async def test_with_a_keyboard_alone(plain_page: Page, link: str, postern: Postern) -> None:
    page = plain_page
    await page.open(link)
    assert await require_keyboard(page) == ["New password", "Confirm new password", "Set password"]
    for field in ("New password", "Confirm new password"):
        await tab_to(page, field)
        await page.type(NEW)
    async with page.loading():
        await page.press("Enter")
    assert await password_is(postern, NEW)
    # Going back and sending it again does no harm.
    await page.back()
    assert "was replaced by a newer one" in await page.text()
    await require_sound(page)


async def test_a_password_can_be_looked_at(scripted_page: Page, link: str) -> None:
    page = scripted_page
    await page.open(link)
    await page.fill("New password", NEW)
    assert await page.evaluate("document.getElementById('new_password').type") == "password"
    names = [name for name in await require_keyboard(page) if name.startswith("Show")]
    assert names == ["Show password", "Show password"]
    await tab_to(page, "New password")
    await page.press("Tab")
    await page.press("Space")
    assert await page.focused() == "Hide password"
    assert await page.evaluate("document.getElementById('new_password').type") == "text"
    await page.press("Space")
    assert await page.focused() == "Show password"
    assert await page.evaluate("document.getElementById('new_password').type") == "password"
