"""Somebody whom a directory has vouched for confirms their address, and says what is theirs, in a browser and by keyboard."""

import pytest

from entrypoints.bootstrap import Postern
from tests.browser.checks import enter, require_keyboard, require_sound, tab_to
from tests.browser.page import Page
from tests.conftest import CapturedLog
from tests.http.people import BASE_URL, People, Person
from tests.http.postbox import Postbox, token_in
from tests.http.signing_in import PASSWORD

VOUCHED = (
    "update users set email_verified_at = null, address_vouched_by = gen_random_uuid() || '/' || gen_random_uuid(), password_hash = null"
    " where id = %s"
)


@pytest.fixture
async def ada(people: People) -> Person:
    return await people.with_password(PASSWORD, "ada@example.org")


async def comes_through_a_directory(page: Page, people: People, person: Person) -> None:
    await page.open("/ui/sign-in")
    await enter(page, {"E-mail address": person.email})
    await enter(page, {"Password": PASSWORD})
    people.change(VOUCHED, person.user)
    people.give_passkey(person)
    people.connect(person)


async def asks_for_the_mail(page: Page, postern: Postern, log: CapturedLog) -> str:
    await page.open("/ui")
    await page.follow("Confirm your address")
    await require_sound(page)
    await page.follow("Send me the mail")
    link = await Postbox(postern).link()
    log.remember(token_in(link))
    return link.removeprefix(BASE_URL)


async def test_a_person_keeps_what_they_tick(page: Page, postern: Postern, people: People, ada: Person, log: CapturedLog) -> None:
    await comes_through_a_directory(page, people, ada)
    await page.open(await asks_for_the_mail(page, postern, log))
    await require_sound(page)
    await tab_to(page, "Passkey Key")
    await page.press("Space")
    await page.follow("Confirm the address")
    assert await page.place() == f"{BASE_URL}/ui/verify-email/done?what=address_confirmed"
    assert len(people.rows("select from passkeys")) == 1
    assert people.rows("select from identities") == []
    await page.open("/ui")
    assert people.rows("select from users where email_verified_at is not null") == [{}]


async def test_a_person_ticks_nothing_without_scripts(
    plain_page: Page, postern: Postern, people: People, ada: Person, log: CapturedLog
) -> None:
    page = plain_page
    await comes_through_a_directory(page, people, ada)
    await page.open(await asks_for_the_mail(page, postern, log))
    assert "Confirm the address" in await require_keyboard(page)
    await tab_to(page, "Confirm the address")
    async with page.loading():
        await page.press("Enter")
    assert await page.place() == f"{BASE_URL}/ui/verify-email/done?what=address_confirmed"
    assert people.rows("select from passkeys") == []
    assert people.rows("select from identities") == []
