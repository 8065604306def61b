"""Several accounts in one browser, by keyboard, with and without scripts."""

import pytest

from ops.browser.page import Page, tab_beside
from tests.browser.checks import enter, require_keyboard, require_sound, tab_to
from tests.http.people import BASE_URL, People, Person
from tests.http.signing_in import PASSWORD

NAMES = "/ui/profile/details"


@pytest.fixture
async def ada(people: People) -> Person:
    return await people.with_password(PASSWORD, "ada@example.org")


@pytest.fixture
async def bob(people: People) -> Person:
    return await people.with_password(PASSWORD, "bob@example.org")


async def use(page: Page, person: Person, place: str = "") -> None:
    """Makes this person's account the one in use, on the page that lists the accounts."""
    if place:
        await page.open(place)
    await tab_to(page, f"Use account {person.email}")
    async with page.loading():
        await page.press("Enter")


def named(people: People, name: str) -> list[str]:
    return [row["email"] for row in people.rows("select email from users where given_name = %s", name)]


async def test_the_form_of_an_old_tab_is_refused_and_leads_back_by_the_choice(page: Page, people: People, ada: Person, bob: Person) -> None:
    for person in (bob, ada):
        await page.open("/ui/sign-in?again=another&to=/ui/profile")
        await enter(page, {"Email address": person.email})
        await enter(page, {"Password": PASSWORD})
        assert await page.place() == f"{BASE_URL}/ui/profile"
    await page.open(NAMES)
    await use(await tab_beside(page), bob, "/ui/accounts?to=/ui/profile")
    await enter(page, {"First name": "Augusta"})
    assert page.status == 409
    assert "belongs to another account" in await page.title()
    assert named(people, "Augusta") == []
    await require_sound(page)
    await require_keyboard(page)
    await page.follow("Choose account")
    await require_sound(page)
    await use(page, ada)
    assert await page.place() == f"{BASE_URL}{NAMES}"
    await enter(page, {"First name": "Augusta"})
    assert page.status == 200
    assert named(people, "Augusta") == [ada.email]
