"""The account pages in a browser: the way through all pages, and changes there, by keyboard and without scripts."""

import pyotp
import pytest

from ops.browser.page import NARROW, WIDE, Page
from tests.browser.checks import enter, require_keyboard, require_sound, tab_to
from tests.http.pages.account.conftest import COOKIE, AccountPagesScene, home
from tests.http.people import BASE_URL
from tests.http.signing_in import PASSWORD

__all__ = ["home"]  # a fixture

SECTIONS = (
    "Overview",
    "Profile",
    "Password",
    "Two-step sign-in",
    "Passkeys",
    "Devices",
    "Sessions",
    "Recent sign-ins",
    "Organizations",
    "Applications",
)


@pytest.fixture
async def signed_in(plain_page: Page, home: AccountPagesScene) -> Page:
    await plain_page.keep_cookie(COOKIE, home.tabs.cookies[COOKIE])
    return plain_page


async def test_the_list_leads_to_every_section_and_folds_where_there_is_no_room(signed_in: Page) -> None:
    page = signed_in
    await page.show(width=WIDE)
    await page.open("/ui")
    for section in SECTIONS[1:]:
        await page.follow(section)
        await require_keyboard(page)
    await page.show(width=NARROW)
    await page.open("/ui")
    await tab_to(page, "Menu")
    await page.press("Enter")
    await require_keyboard(page)
    await tab_to(page, "Devices")
    async with page.loading():
        await page.press("Enter")
    assert await page.place() == f"{BASE_URL}/ui/devices"


async def test_a_password_is_changed(signed_in: Page, home: AccountPagesScene) -> None:
    page = signed_in
    await home.has_password(PASSWORD)
    await page.open("/ui/password")
    new = "a fresh and lively password"
    await enter(page, {"Current password": "mistyped", "New password": new, "Confirm new password": new})
    assert "The current password is incorrect" in await page.described("Current password")
    await require_sound(page)
    await enter(page, {"Current password": PASSWORD, "New password": new, "Confirm new password": new})
    assert "Password changed" in await page.text()


async def test_two_step_sign_in_is_turned_on(signed_in: Page) -> None:
    page = signed_in
    await page.open("/ui/second-factor")
    await page.follow("Set up two-step sign-in")
    await require_sound(page)
    await require_keyboard(page)
    secret = await page.evaluate("document.getElementById('secret').textContent")
    await enter(page, {"Code": pyotp.TOTP(secret).now()})
    assert "Two-step sign-in is on." in await page.text()
    await require_sound(page)
    assert await page.evaluate("document.querySelectorAll('.codes li').length") >= 8


async def test_what_ends_is_asked_about_once(signed_in: Page, home: AccountPagesScene) -> None:
    page = signed_in
    other = home.elsewhere()
    await page.open("/ui/sessions")
    await tab_to(page, "Sign out everywhere else")
    async with page.loading():
        await page.press("Enter")
    await require_sound(page)
    button = await page.evaluate("document.querySelector('main button').textContent")
    assert home.lives(other)
    await tab_to(page, button)
    async with page.loading():
        await page.press("Enter")
    assert not home.lives(other)
    await require_sound(page)
