"""Accounts that are signed in beside each other in one browser: added, listed, switched between and signed out."""

from uuid import uuid4

import pytest

from core.domain.mail import Email
from core.domain.secrets import Token
from ops.browser.page_reader import PageReader
from tests.http.browsing import choices
from tests.http.cast import all_at_once
from tests.http.federation.arriving import SESSION_COOKIE, is_page
from tests.http.pages.accounts.conftest import ACCOUNTS, ACCOUNTS_COOKIE, Shared
from tests.http.people import BASE_URL
from tests.http.postbox import token_in
from tests.http.signing_in import PASSWORD


async def test_a_second_account_is_used_and_the_first_one_stays(shared: Shared) -> None:
    ada, bob = await shared.person("ada"), await shared.person("bob")
    tabs = await shared.together(ada)
    assert ACCOUNTS_COOKIE not in tabs.cookies
    first = tabs.cookies[SESSION_COOKIE]
    await shared.signs_in(tabs, bob)
    assert (await shared.in_use(tabs), tabs.cookies[ACCOUNTS_COOKIE]) == ("bob@example.org", first)
    assert await shared.here(tabs) == ["bob@example.org", "ada@example.org"]
    await shared.use(tabs, ada)
    assert tabs.cookies[SESSION_COOKIE] == first
    assert await shared.here(tabs) == ["ada@example.org", "bob@example.org"]
    # Whoever is used last waits first.
    await shared.signs_in(tabs, await shared.person("eve"))
    assert await shared.here(tabs) == ["eve@example.org", "ada@example.org", "bob@example.org"]


async def test_whoever_signs_in_again_keeps_the_session(shared: Shared) -> None:
    ada, bob = await shared.person("ada"), await shared.person("bob")
    tabs = await shared.together(ada, bob)
    await shared.signs_in(tabs, ada)
    assert await shared.here(tabs) == ["ada@example.org", "bob@example.org"]
    roots = shared.people.rows("select user_id from sessions where id in (select session_id from browser_sessions) and revoked_at is null")
    assert sorted(one["user_id"] for one in roots) == sorted([ada.user, bob.user])


async def test_the_sixth_account_ends_the_one_that_was_used_longest_ago_and_the_pages_say_so(shared: Shared) -> None:
    people = [await shared.person(name) for name in ("ada", "bob", "cyn", "dan", "eve", "fay")]
    tabs = await shared.together(*people[:5])
    listed = await tabs.tab().open(ACCOUNTS)
    assert list(choices(listed)) == [person.email for person in reversed(people[:5])]
    assert "you are signed out of ada@example.org" in listed.page.text
    asked = await tabs.tab().open("/ui/sign-in?again=another&to=/ui/profile")
    assert "you are signed out of ada@example.org" in asked.page.text
    assert shared.lives(people[0])
    await (await asked.send(email=people[5].email)).send(password=PASSWORD)
    assert await shared.here(tabs) == [person.email for person in reversed(people[1:])]
    assert not shared.lives(people[0])
    assert len(shared.audited("user.logout")) == 1
    assert all(shared.lives(person) for person in people[1:])
    # An account that is here already needs no room.
    await shared.signs_in(tabs, people[2])
    assert len(await shared.here(tabs)) == 5
    assert all(shared.lives(person) for person in people[1:])


async def test_two_clicks_on_a_sign_in_keep_the_same_accounts(shared: Shared) -> None:
    ada, bob = await shared.person("ada"), await shared.person("bob")
    tabs = await shared.together(ada)
    tab = await tabs.tab().open("/ui/sign-in?again=another")
    await tab.send(email=bob.email)
    form = {**tab.page.forms[0].fields, "password": PASSWORD}
    await all_at_once(*[lambda: tabs.request("POST", "/ui/sign-in/password", form)] * 3)
    assert await shared.here(tabs) == ["bob@example.org", "ada@example.org"]
    assert len(shared.people.rows("select from browser_sessions")) == 2


async def test_signing_out_leaves_the_others_and_says_so(shared: Shared) -> None:
    ada, bob = await shared.person("ada"), await shared.person("bob")
    tabs = await shared.together(ada, bob)
    tab = await tabs.tab().open("/ui/profile")
    await tab.send(0)
    assert tab.place == "/ui/signed-out"
    assert "Other accounts are still signed in in this browser" in tab.page.text
    assert (shared.lives(ada), shared.lives(bob)) == (True, False)
    # Nobody is in use now: no account takes the place by itself.
    assert await shared.in_use(tabs) is None
    await tab.open("/ui/profile")
    assert tab.place == "/ui/accounts?to=%2Fui%2Fprofile"
    await tab.send(account=choices(tab)[ada.email])
    assert (tab.place, await shared.in_use(tabs)) == ("/ui/profile", "ada@example.org")


async def test_one_of_them_signs_out(shared: Shared) -> None:
    ada, bob = await shared.person("ada"), await shared.person("bob")
    tabs = await shared.together(ada, bob)
    tab = await tabs.tab().open(ACCOUNTS)
    form = tab.page.forms[0].fields
    answer = await tabs.request("POST", f"{ACCOUNTS}/sign-out", {**form, "account": choices(tab)[ada.email]})
    assert answer.header("location") == "/ui/accounts?to=%2Fui"
    assert (shared.lives(ada), shared.lives(bob)) == (False, True)
    assert (await shared.in_use(tabs), await shared.here(tabs)) == ("bob@example.org", ["bob@example.org"])
    assert ACCOUNTS_COOKIE not in tabs.cookies
    # Twice: the account is gone, and the page says so.
    again = await tabs.request("POST", f"{ACCOUNTS}/sign-out", {**form, "account": choices(tab)[ada.email]})
    is_page(again, 409, "signed out in this browser")
    assert PageReader(again.body).links == ["/ui/accounts?to=%2Fui"]
    tab = await tabs.tab().open(ACCOUNTS)
    answer = await tabs.request("POST", f"{ACCOUNTS}/sign-out", {**form, "account": choices(tab)[bob.email]})
    assert answer.header("location") == "/ui/signed-out"
    assert not shared.lives(bob)
    assert SESSION_COOKIE not in tabs.cookies


@pytest.mark.parametrize("place", ["/ui/profile", ACCOUNTS])
async def test_all_of_them_sign_out_at_once(shared: Shared, place: str) -> None:
    ada, bob, eve = [await shared.person(name) for name in ("ada", "bob", "eve")]
    tabs = await shared.together(ada, bob, eve)
    tab = await tabs.tab().open(place)
    assert "Sign out of all accounts" in tab.page.text
    token = tab.page.forms[-1 if place == ACCOUNTS else 0].fields["form_token"]
    answers = await all_at_once(*[lambda: tabs.request("POST", "/ui/sign-out/all", {"form_token": token})] * 2)
    assert {answer.header("location") for answer in answers} == {"/ui/signed-out"}
    assert not any(map(shared.lives, (ada, bob, eve)))
    assert {SESSION_COOKIE, ACCOUNTS_COOKIE} & set(tabs.cookies) == set()
    assert "Other accounts" not in (await tabs.tab().open("/ui/signed-out")).page.text


async def test_an_account_whose_session_has_ended_is_not_offered_and_not_used(shared: Shared) -> None:
    ada, bob = await shared.person("ada"), await shared.person("bob")
    tabs = await shared.together(ada, bob)
    tab = await tabs.tab().open(ACCOUNTS)
    ended = choices(tab)[ada.email]
    shared.people.change("update sessions set revoked_at = now() where user_id = %s", ada.user)
    await tab.send(account=ended)
    is_page(tab.shown, 409, "signed out in this browser")
    assert await shared.in_use(tabs) == "bob@example.org"
    assert await shared.here(tabs) == ["bob@example.org"]
    shared.people.change("update sessions set revoked_at = now()")
    assert await shared.here(tabs) == []


async def test_only_an_account_of_this_browser_is_used_or_signed_out(shared: Shared) -> None:
    ada, bob = await shared.person("ada"), await shared.person("bob")
    tabs = await shared.together(ada)
    theirs = await shared.together(bob)
    session = choices(await theirs.tab().open(ACCOUNTS))[bob.email]
    form = (await tabs.tab().open(ACCOUNTS)).page.forms[0].fields
    for path in (ACCOUNTS, f"{ACCOUNTS}/sign-out"):
        for other in (session, str(uuid4())):
            is_page(await tabs.request("POST", path, {**form, "account": other}), 409, "signed out in this browser")
    # Neither does the form of another browser, and no value in the cookie that is no session of a browser.
    is_page(await theirs.request("POST", ACCOUNTS, {**form, "account": session}), 403, "out of date")
    tabs.cookies[ACCOUNTS_COOKIE] = ".".join(["x" * 43, "y", "", "z" * 50])
    assert await shared.here(tabs) == [ada.email]
    assert (shared.lives(ada), shared.lives(bob)) == (True, True)


async def test_the_same_account_twice_in_the_cookie_is_one(shared: Shared) -> None:
    ada, bob = await shared.person("ada"), await shared.person("bob")
    tabs = await shared.together(ada, bob)
    other = await shared.together(ada)
    tabs.cookies[ACCOUNTS_COOKIE] += f".{other.cookies[SESSION_COOKIE]}.{tabs.cookies[SESSION_COOKIE]}"
    assert await shared.here(tabs) == ["bob@example.org", "ada@example.org"]


async def test_a_choice_leads_to_pages_of_ours_alone(shared: Shared) -> None:
    ada, bob = await shared.person("ada"), await shared.person("bob")
    tabs = await shared.together(ada, bob)
    for place in ("https://evil.example/", "//evil.example", "/ui/../x"):
        tab = await tabs.tab().open(ACCOUNTS)
        tab = await tab.send(account=choices(tab)[ada.email], to=place)
        assert tab.place == "/ui"


async def test_a_link_says_that_it_changes_the_account_in_use(shared: Shared) -> None:
    """Whoever mails somebody a link to an account of theirs must not put it in place of the person's own unseen."""
    ada, eve = await shared.person("ada"), await shared.person("eve")
    shared.people.change("update users set is_platform_owner = true where id = %s", eve.user)
    tabs = await shared.together(ada)
    link = (await shared.postern.identity.sign_in_links.issue(Email(eve.email), "root")).reveal()
    shared.log.remember(token_in(link))
    opened = await tabs.tab().open(link.removeprefix(BASE_URL))
    assert "You are signed in here as ada@example.org" in opened.page.text
    assert await shared.in_use(tabs) == "ada@example.org"
    await opened.send()
    assert await shared.here(tabs) == ["eve@example.org", "ada@example.org"]


async def test_a_browser_with_one_account_looks_it_up_as_before(shared: Shared) -> None:
    ada, bob = await shared.person("ada"), await shared.person("bob")
    tabs = await shared.together(ada)
    counts = []
    for _ in range(2):
        await tabs.tab().open(ACCOUNTS)
        counts.append(shared.log.events("request")[-1]["db_round_trips"])
        await shared.signs_in(tabs, bob)
    # The other accounts travel with the look-up of the one in use.
    assert counts == [1, 1]
    assert await shared.postern.tenancy.callers.resolve_browser(Token(tabs.cookies[SESSION_COOKIE])) is not None
