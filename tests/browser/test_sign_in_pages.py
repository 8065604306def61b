"""Signing in and registering, in a browser and by keyboard."""

import pytest

from entrypoints.bootstrap import Postern
from ops.browser.page import Page
from tests.browser.checks import enter, require_keyboard, require_sound
from tests.http.client import Client
from tests.http.people import BASE_URL, People, Person
from tests.http.postbox import Postbox, code_in
from tests.http.signing_in import PASSWORD, enable_mfa

SIGN_IN = "/ui/sign-in"


@pytest.fixture
async def ada(people: People) -> Person:
    return await people.with_password(PASSWORD, "ada@example.org")


async def test_from_the_address_to_the_account(page: Page, ada: Person) -> None:
    await page.open(SIGN_IN)
    assert await page.focused() == "Email address"
    await enter(page, {"Email address": "ada"})
    assert await page.described("Email address") == "Enter an email address, for example name@example.org"
    await enter(page, {"Email address": ada.email})
    assert await page.focused() == "Password"
    await enter(page, {"Password": "mistyped"})
    assert await page.described("Password") == "The password is incorrect. Try again, or reset it."
    await require_sound(page)
    await enter(page, {"Password": PASSWORD})
    assert await page.place() == f"{BASE_URL}/ui"
    session = (await page.cookies())["__Host-postern_session"]
    assert (session["httpOnly"], session["secure"], session["sameSite"], session["path"]) == (True, True, "Lax", "/")
    await require_sound(page)
    await page.open("/ui")
    await page.reload()
    await page.click("Your account: ada@example.org")
    await page.follow("Sign out")
    assert "You are signed out" in await page.text()
    # What stood on the page before is not shown again.
    await page.back()
    assert (await page.place()).startswith(f"{BASE_URL}{SIGN_IN}")


async def test_with_two_steps(plain_page: Page, client: Client, people: People, ada: Person) -> None:
    page = plain_page
    totp = await enable_mfa(client, people, ada)
    await page.open(SIGN_IN)
    await enter(page, {"Email address": ada.email})
    await enter(page, {"Password": PASSWORD})
    await require_keyboard(page)
    await enter(page, {"Code": "000000"})
    assert "The code is incorrect" in await page.described("Code")
    code = totp.now()
    await enter(page, {"Code": f"{code[:3]} {code[3:]}"})
    assert await page.place() == f"{BASE_URL}/ui"


async def test_by_the_code_from_a_mail(plain_page: Page, ada: Person, postern: Postern) -> None:
    page = plain_page
    await page.open(SIGN_IN)
    await enter(page, {"Email address": ada.email})
    await page.follow("Email me a sign-in link instead")
    await require_sound(page)
    await require_keyboard(page)
    (mail,) = await Postbox(postern).empty()
    code = code_in(mail)
    await enter(page, {"Code from the email": f"{(int(code) + 1) % 10**8:08}"})
    assert (await page.described("Code from the email")).startswith("This code is incorrect or no longer valid")
    await require_sound(page)
    await enter(page, {"Code from the email": f"{code[:4]} {code[4:]}"})
    assert await page.place() == f"{BASE_URL}/ui"


async def test_from_registering_to_the_account(plain_page: Page, postern: Postern) -> None:
    page = plain_page
    await page.open(SIGN_IN)
    await page.follow("Create an account")
    await enter(page, {"Email address": "bob@example.org", "Choose a password": PASSWORD})
    assert "A verification link was sent to bob@example.org" in await page.text()
    await require_keyboard(page)
    await page.open(await Postbox(postern).link())
    await require_sound(page)
    await require_keyboard(page)
    await page.follow("Verify email address")
    await require_sound(page)
    await page.follow("Continue")
    await enter(page, {"Password": PASSWORD})
    assert await page.place() == f"{BASE_URL}/ui"
