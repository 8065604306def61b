"""A person says which organizations they belong to, in a browser and by keyboard. Whom only a directory has vouched for also says what in
their account is theirs.
"""

import pytest

from entrypoints.bootstrap import Postern
from ops.browser.page import Page
from tests.browser.checks import enter, require_keyboard, require_sound, tab_to
from tests.conftest import CapturedLog
from tests.http.people import BASE_URL, People, Person
from tests.http.postbox import Postbox, token_in
from tests.http.signing_in import PASSWORD
from tests.http.tenants import Tenants

PAGE = f"{BASE_URL}/ui/confirm-membership?flow="
BODY = "document.activeElement === document.body"
VOUCHED = (
    "update users set email_verified_at = null, address_vouched_by = gen_random_uuid() || '/' || gen_random_uuid(), password_hash = null"
    " where id = %s"
)


@pytest.fixture
async def ada(people: People) -> Person:
    return await people.with_password(PASSWORD, "ada@example.org")


@pytest.fixture
def tenants(postern: Postern, people: People) -> Tenants:
    return Tenants(postern, people)


async def signed_in(page: Page, person: Person) -> None:
    await page.open("/ui/sign-in")
    await enter(page, {"Email address": person.email})
    await enter(page, {"Password": PASSWORD})
    assert (await page.place()).startswith(PAGE)


async def test_a_person_confirms(page: Page, people: People, tenants: Tenants, ada: Person) -> None:
    tenants.join(ada, tenants.add("acme"), listed=True)
    await signed_in(page, ada)
    await require_sound(page)
    await page.follow("Confirm membership")
    assert await page.place() == f"{BASE_URL}/ui"
    assert people.rows("select from memberships where own_since is not null") != []


async def test_a_person_leaves_with_a_keyboard_alone(plain_page: Page, people: People, tenants: Tenants, ada: Person) -> None:
    page = plain_page
    tenants.join(ada, tenants.add("acme"), listed=True)
    await signed_in(page, ada)
    # A key that goes astray answers nothing.
    assert await page.evaluate(BODY) is True
    await page.press("Enter")
    assert (await page.place()).startswith(PAGE)
    assert await require_keyboard(page) == ["Not now", "Confirm membership", "Leave organization"]
    await tab_to(page, "Leave organization")
    async with page.loading():
        await page.press("Enter")
    assert await page.place() == f"{BASE_URL}/ui"
    assert people.rows("select from memberships") == []


async def given_away(people: People, tenants: Tenants, heir: Person, *, listed: bool) -> None:
    """Acme's owner has handed it to this person."""
    acme = tenants.add("acme")
    tenants.join(people.add(), acme, "admin")
    tenants.join(heir, acme, "owner", listed=listed)
    people.change(
        "insert into ownerships (org_id, membership_id, former_membership_id, former_role, since)"
        " select owner.org_id, owner.id, former.id, 'member', now() from memberships as owner, memberships as former"
        "  where owner.role = 'owner' and former.role = 'admin'"
    )


async def test_a_new_owner_declines_with_a_keyboard_alone(plain_page: Page, people: People, tenants: Tenants, ada: Person) -> None:
    page = plain_page
    await given_away(people, tenants, ada, listed=True)
    await signed_in(page, ada)
    assert await require_keyboard(page) == ["Not now", "Confirm membership", "Decline ownership", "Leave organization"]
    await tab_to(page, "Decline ownership")
    async with page.loading():
        await page.press("Enter")
    assert await page.place() == f"{BASE_URL}/ui"
    assert people.rows("select user_id from memberships where role = 'member'") == [{"user_id": ada.user}]
    assert people.rows("select from ownerships") == []


async def test_a_new_owner_confirms_in_the_account(page: Page, people: People, tenants: Tenants, ada: Person) -> None:
    await given_away(people, tenants, ada, listed=False)
    await page.open("/ui/sign-in?to=/ui/organizations")
    await enter(page, {"Email address": ada.email})
    await enter(page, {"Password": PASSWORD})
    await page.follow("Confirm or decline")
    await require_sound(page)
    await page.follow("Confirm ownership")
    assert await page.place() == f"{BASE_URL}/ui/organizations/acme?done=owned"
    assert people.rows("select from ownerships where confirmed_at is not null") != []


async def test_several_are_answered_with_a_keyboard_alone(plain_page: Page, people: People, tenants: Tenants, ada: Person) -> None:
    page = plain_page
    for slug in ("acme", "globex", "initech"):
        tenants.join(ada, tenants.add(slug), listed=True)
    await signed_in(page, ada)
    await require_keyboard(page)
    await tab_to(page, "Do you belong to Acme?")
    await page.press("Down")
    await tab_to(page, "Do you belong to Globex?")
    await page.press("Down")
    await page.press("Down")
    await tab_to(page, "Continue")
    async with page.loading():
        await page.press("Enter")
    rows = people.rows("select slug, own_since is not null as own from memberships join organizations on organizations.id = org_id")
    assert {row["slug"]: row["own"] for row in rows} == {"acme": True, "initech": False}


async def comes_through_a_directory(page: Page, people: People, person: Person) -> None:
    await page.open("/ui/sign-in")
    await enter(page, {"Email address": person.email})
    await enter(page, {"Password": PASSWORD})
    people.change(VOUCHED, person.user)
    people.give_passkey(person)
    people.connect(person)


async def asks_for_the_mail(page: Page, postern: Postern, log: CapturedLog) -> str:
    await page.open("/ui")
    await page.follow("Verify your email address")
    await require_sound(page)
    await page.follow("Send verification email")
    link = await Postbox(postern).link()
    log.remember(token_in(link))
    return link.removeprefix(BASE_URL)


async def test_a_person_keeps_what_they_tick(page: Page, postern: Postern, people: People, ada: Person, log: CapturedLog) -> None:
    await comes_through_a_directory(page, people, ada)
    await page.open(await asks_for_the_mail(page, postern, log))
    await require_sound(page)
    await tab_to(page, "Passkey Key")
    await page.press("Space")
    await page.follow("Verify email address")
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
    assert "Verify email address" in await require_keyboard(page)
    await tab_to(page, "Verify email address")
    async with page.loading():
        await page.press("Enter")
    assert await page.place() == f"{BASE_URL}/ui/verify-email/done?what=address_confirmed"
    assert people.rows("select from passkeys") == []
    assert people.rows("select from identities") == []
