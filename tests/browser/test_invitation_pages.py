"""Answering an invitation, in a browser."""

import pytest

from entrypoints.bootstrap import Postern
from entrypoints.http.application import build_application
from ops.browser.page import Page
from tests.browser.checks import require_keyboard, require_sound, tab_to
from tests.conftest import CapturedLog
from tests.http.client import Client
from tests.http.conftest import SETTINGS
from tests.http.inviting import Inviting
from tests.http.people import People

PAGE = "/ui/invitations/accept"
# Pale: its links would not be readable.
COLOR = "#ffe066"


@pytest.fixture
def scene(postern: Postern, people: People, log: CapturedLog) -> Inviting:
    return Inviting(postern, people, Client(build_application(postern, SETTINGS)), log)


async def test_a_person_accepts_in_the_organizations_colour(page: Page, scene: Inviting) -> None:
    scene.people.change("update organizations set primary_color = %s", COLOR)
    token = (await scene.invite("bob@example.org"))["token"]
    await page.open(f"{PAGE}?token={token}")
    assert await page.title() == "Invitation to Acme · Acme"
    await require_sound(page)
    button = "getComputedStyle(document.querySelector('button'))"
    assert await page.evaluate(f"{button}.backgroundColor + {button}.color") == "rgb(255, 224, 102)rgb(0, 0, 0)"
    await page.follow("Accept invitation")
    assert "You are now a member" in await page.text()
    await require_sound(page)
    assert scene.members()["bob@example.org"] == "member"


async def test_a_person_declines_with_a_keyboard_alone(plain_page: Page, scene: Inviting) -> None:
    page = plain_page
    token = (await scene.invite("bob@example.org"))["token"]
    await page.open(f"{PAGE}?token={token}")
    assert await require_keyboard(page) == ["Accept invitation", "Decline"]
    await tab_to(page, "Decline")
    async with page.loading():
        await page.press("Enter")
    assert "You declined the invitation" in await page.text()
    assert scene.statuses() == ["rejected"]


async def test_a_newcomer_gives_a_name_and_a_password_by_keyboard_and_lands_in_the_organization(plain_page: Page, scene: Inviting) -> None:
    page = plain_page
    await scene.invite("bob@example.org")
    ((_, mailed),) = await scene.mailed()
    await page.open(f"{PAGE}?token={mailed}")
    assert "Invited by" in await page.text()
    assert scene.ada.email in await page.text()
    await require_sound(page)
    await page.type("Bob Bauer")
    await page.press("Tab")
    await page.type("a few good words in a row")
    async with page.loading():
        await page.press("Enter")
    assert "You joined the organization." in await page.text()
    assert await page.title() == "Acme · Postern"
    assert scene.people.rows("select name from users where email = 'bob@example.org'") == [{"name": "Bob Bauer"}]
