"""A browser binds its session to a key, and goes on; whoever uses none of it notices nothing."""

from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.rsa import generate_private_key

from adapters.postgres.upkeep.housekeeping import sweep
from tests.http import conftest as http
from tests.http.people import People, Person
from tests.http.signing_in import unlimited
from tests.security.bound_sessions.browser import BOUND, attributes_of, carried_off, new_key, proof
from tests.security.bound_sessions.conftest import Binding
from tests.signing import SettableClock

REGISTRATION, RENEWAL = "/bound-session", "/bound-session/renew"


async def test_a_sign_in_offers_and_the_browser_registers_and_renews(binding: Binding, ada: Person) -> None:
    browser = await binding.bound(ada)
    (session,) = browser.sessions.values()
    assert (session.refresh_path, session.initiators, session.scope["include_site"]) == (RENEWAL, ["*"], False)
    assert session.credentials == [{"type": "cookie", "name": BOUND, "attributes": "Path=/; HttpOnly; SameSite=Lax; Secure"}]
    assert browser.kept[BOUND].attributes == attributes_of(session.credentials[0]["attributes"])
    assert binding.is_bound(ada) == [True]
    (entry,) = binding.audited("security.session.bound")
    assert (entry["target_id"], entry["details"]["algorithm"]) == (str(ada.user), "ES256")
    for _ in range(3):
        before = browser.cookies[BOUND]
        binding.passes(minutes=10)
        assert BOUND not in browser.cookies
        assert await binding.counts(browser)
        assert browser.cookies[BOUND] != before
    # One question without a proof, and one proof: a key in a TPM signs once.
    assert [(one.path, one.answer.status) for one in browser.sent[1:3]] == [(RENEWAL, 403), (RENEWAL, 200)]
    assert len(browser.sent) == 7
    assert len(browser.offers) == 1


async def test_an_rsa_key_is_taken_too(binding: Binding, ada: Person) -> None:
    browser = await binding.bound(ada, generate_private_key(65537, 2048))
    binding.passes(minutes=11)
    assert await binding.counts(browser)
    assert [entry["details"]["algorithm"] for entry in binding.audited("security.session.bound")] == ["RS256"]


async def test_what_machines_ask_for_renews_nothing(binding: Binding, ada: Person) -> None:
    (session,) = (browser := await binding.bound(ada)).sessions.values()
    out = ("/api/user", "/oauth/token", "/docs", "/docs/guides/x", "/assets/1/pages.css", REGISTRATION, RENEWAL)
    assert [path for path in out if browser.in_scope(session, path)] == []
    assert all(
        browser.in_scope(session, path) for path in ("/", "/ui", "/ui/profile", "/oauth/authorize", "/oauth/logout", "/saml/x", "/apiary")
    )


async def test_pages_go_on_while_the_browser_registers_its_key(binding: Binding, ada: Person) -> None:
    """The answer to the sign-in brings the second cookie already: a page that is on its way does not meet a session without it."""
    browser = binding.browser(registers=False)
    await binding.signs_in(browser, ada)
    on_its_way = carried_off(browser)
    ((path, challenge),) = browser.offers
    await browser.post_as_browser(path, {"secure-session-response": f'"{proof(new_key(), challenge, names_key=True)}"'})
    assert binding.is_bound(ada) == [True]
    assert await binding.counts(on_its_way)


async def test_every_account_of_the_browser_is_bound_to_its_key(binding: Binding, ada: Person) -> None:
    """Those that sign in while the cookie counts; the others stay as they are."""
    ben, eve = await binding.person("ben"), await binding.person("eve")
    browser = binding.browser(registers=False)
    await binding.signs_in(browser, eve)
    binding.passes(minutes=6)
    browser.registers = True
    await binding.signs_in(browser, ada)
    await binding.signs_in(browser, ben)
    assert [binding.is_bound(one) for one in (eve, ada, ben)] == [[False], [True], [True]]
    assert len(binding.people.rows("select from bound_keys")) == 1
    assert len(browser.offers) == 2, "a browser with a key is offered no other one"
    binding.passes(minutes=11)
    tab = await browser.tab().open("/ui/accounts")
    assert all(one.email.encode() in tab.shown.body for one in (ada, ben, eve))


async def test_a_session_that_was_bound_to_nothing_is_bound_by_its_next_sign_in(binding: Binding, ada: Person) -> None:
    browser = binding.browser(registers=False)
    await binding.signs_in(browser, ada)
    binding.passes(minutes=11)
    assert await binding.counts(browser)
    browser.registers = True
    await binding.signs_in(browser, ada)
    assert binding.is_bound(ada) == [True]
    assert len(binding.people.rows("select from sessions where revoked_at is null")) == 1


async def test_without_its_cookie_the_browser_signs_in_again_and_nothing_has_ended(binding: Binding, ada: Person) -> None:
    """A browser that has lost its key: the session stays, and the next sign-in binds again."""
    browser = await binding.bound(ada)
    lost = browser.sessions.copy()
    browser.sessions.clear()
    binding.passes(minutes=11)
    assert not await binding.counts(browser)
    assert binding.nothing_ended()
    await binding.signs_in(browser, ada)
    assert binding.is_bound(ada) == [True, True]
    # The former key of this browser would renew a cookie that the new session does not count with.
    browser.sessions = {**lost, **browser.sessions}
    binding.passes(minutes=11)
    assert await binding.counts(browser)
    assert len(browser.sessions) == 1
    assert binding.nothing_ended()


async def test_signing_out_ends_it(binding: Binding, ada: Person) -> None:
    browser = await binding.bound(ada)
    tab = await browser.tab().open("/ui/profile")
    sign_out = next(number for number, form in enumerate(tab.page.forms) if form.action.startswith("/ui/sign-out"))
    await tab.send(sign_out)
    assert browser.sent[-1].answer.json() == {"continue": False}
    assert browser.sessions == {}
    assert BOUND not in browser.cookies
    await binding.signs_in(browser, ada)
    assert len(browser.offers) == 2


async def test_another_account_of_the_browser_goes_on_after_a_sign_out(binding: Binding, ada: Person) -> None:
    ben = await binding.person("ben")
    browser = await binding.bound(ada)
    await binding.signs_in(browser, ben)
    tab = await browser.tab().open("/ui/profile")
    sign_out = next(number for number, form in enumerate(tab.page.forms) if form.action.startswith("/ui/sign-out"))
    await tab.send(sign_out)
    assert len(browser.sessions) == 1
    tab = await browser.tab().open("/ui/accounts")
    assert ada.email.encode() in tab.shown.body
    assert ben.email.encode() not in tab.shown.body


async def test_an_application_of_another_site_leads_here_after_the_cookie_ran_out(binding: Binding, ada: Person) -> None:
    browser = await binding.bound(ada)
    binding.passes(minutes=30)
    browser.origin_of_request = "https://application.example"
    assert await binding.counts(browser)


async def test_two_tabs_at_once_go_on(binding: Binding, ada: Person) -> None:
    """Two tabs that renew at the same moment, each by itself: with the same challenge, and with two."""
    browser = await binding.bound(ada)
    (session,) = browser.sessions.values()
    said = {"sec-secure-session-id": f'"{session.identifier}"'}
    binding.passes(minutes=11)
    for pause in (0, 70):
        first = await browser.post_as_browser(RENEWAL, said)
        binding.passes(seconds=pause)
        second = await browser.post_as_browser(RENEWAL, said)
        challenges = [(one.header("secure-session-challenge") or "").split('"')[1] for one in (first, second)]
        assert len(set(challenges)) == (2 if pause else 1)
        answers = [
            await browser.post_as_browser(RENEWAL, {**said, "secure-session-response": f'"{proof(session.key, one)}"'})
            for one in challenges
        ]
        assert answers[0].status == 200
        assert answers[1].status == (200 if pause else 403)
        if not pause:
            again = (answers[1].header("secure-session-challenge") or "").split('"')[1]
            assert again not in challenges
            headers = {**said, "secure-session-response": f'"{proof(session.key, again)}"'}
            assert (await browser.post_as_browser(RENEWAL, headers)).status == 200
        assert await binding.counts(browser)


async def test_session_pages_say_so(binding: Binding, ada: Person) -> None:
    browser = await binding.bound(ada)
    plain = binding.browser(registers=False)
    await binding.signs_in(plain, ada)
    tab = await browser.tab().open("/ui/sessions")
    assert tab.shown.body.count(b"Bound to this device") == 1


async def test_a_sweep_takes_keys_of_nobody_and_no_others(binding: Binding, ada: Person) -> None:
    browser = await binding.bound(ada)
    binding.people.change("insert into bound_keys (id, algorithm, public_key, created_at) values (gen_random_uuid(), 'ES256', '{}', now())")
    swept = sweep(binding.postern.foundation.pool, "BoundKeysOfNobody")
    assert await swept.delete_expired(10) == 0
    binding.people.change("update bound_keys set created_at = now() - interval '2 days'")
    assert [await swept.delete_expired(10) for _ in range(2)] == [1, 0]
    binding.passes(minutes=11)
    assert await binding.counts(browser)


@pytest.mark.parametrize("setting", ["", "off"])
async def test_nobody_is_offered_anything_where_the_setting_is_off(database_url: str, tmp_path: Path, setting: str) -> None:
    more = {"POSTERN_BOUND_SESSIONS": setting} if setting else {}
    async with http.postern_on(database_url, tmp_path, more) as postern:
        await http.with_keys(postern)
        with People(postern, database_url) as people:
            binding = Binding(postern, people, unlimited(postern), SettableClock())
            browser = binding.browser()
            await binding.signs_in(browser, await binding.person("ada"))
            assert browser.offers == []
            assert BOUND not in browser.cookies
