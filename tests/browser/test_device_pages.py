"""A device without a browser asks for somebody's account, and they decide about it in theirs."""

from entrypoints.bootstrap import Postern
from ops.browser.page import Page
from tests.browser.checks import enter, require_keyboard, require_sound, tab_to
from tests.conftest import CapturedLog
from tests.http.federation.arriving import SESSION_COOKIE
from tests.http.federation.devices import Sets
from tests.http.people import People
from tests.http.routing import route
from tests.http.signing_in import PASSWORD, unlimited


async def test_from_the_code_to_the_decision(page: Page, postern: Postern, people: People, log: CapturedLog) -> None:
    sets = Sets(postern, people, unlimited(postern), log)
    codes = await sets.ask_for_codes(scope="openid email")
    ada = await people.with_password(PASSWORD, "ada@lovelace.example")
    await page.open("/ui/device")
    await require_sound(page)
    await enter(page, {"Code": "WRNG-CODE"})
    assert await page.described("Code") != ""
    await enter(page, {"Code": codes.user_code.lower().replace("-", " ")})
    await enter(page, {"Email address": ada.email})
    await enter(page, {"Password": PASSWORD})
    assert codes.user_code in await page.text()
    await require_sound(page)
    await require_keyboard(page)
    button = await page.evaluate("document.querySelector('button[value=approve]').textContent")
    await tab_to(page, button)
    async with page.loading():
        await page.press("Enter")
    await require_sound(page)
    assert (await sets.poll(codes)).status == 200


async def test_an_old_sign_in_leads_to_a_provider_that_is_required(page: Page, postern: Postern, people: People, log: CapturedLog) -> None:
    """The form of the code may not redirect to another site, however many pages of ours lie on the way."""
    sets = Sets(postern, people, unlimited(postern), log)
    codes = await sets.ask_for_codes()
    ada, token = people.add("ada@lovelace.example"), postern.foundation.secrets.token()
    route(people, sets.acme, "lovelace.example")
    people.change("update all_organizations set session_hours = 1 where id = %s", sets.acme.id)
    people.change("update sessions set proved_at = now() - interval '2 hours' where id = %s", ada.session)
    people.change("insert into browser_sessions (digest, session_id) values (%s, %s)", token.digest(), ada.session)
    await page.keep_cookie(SESSION_COOKIE, token.reveal())
    await page.open("/ui/device")
    await page.fill("Code", codes.user_code)
    await page.leave("Continue", "https://accounts.google.com/")
