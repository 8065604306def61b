"""A page belongs to the account that it was made for. Sent under another account, no form of the account pages, the console, or the pages
on the way to an application does anything, and the answer says why and leads on.
"""

from typing import Final
from urllib.parse import parse_qs, urlsplit

import pytest

from entrypoints.bootstrap import Postern
from entrypoints.http.application import PAGES
from entrypoints.http.console.pages import CONSOLE
from entrypoints.http.machinery.accepts import FormWithFile
from entrypoints.http.machinery.browsers import BROWSER, IN_FLOW, BindsForms
from entrypoints.http.machinery.endpoints import Endpoint, parameters
from ops.browser.page_reader import PageReader
from tests.conftest import CapturedLog
from tests.http.browsing import Tab, Tabs, choices
from tests.http.federation.arriving import is_page, left
from tests.http.federation.devices import Sets
from tests.http.pages.accounts.conftest import ACCOUNTS, SeveralAccounts, Shared
from tests.http.people import People, Person
from tests.http.signing_in import unlimited

SOME_ID: Final = "0199d3a0-0000-7000-8000-000000000001"
# Fields without which a form is refused before anybody asks whose it is.
FIELDS: Final = {
    "form": SOME_ID,
    "flow": SOME_ID,
    "invitation": "x",
    "organization": SOME_ID,
    "language": "de",
    "look": "dark",
    "session": SOME_ID,
}
ANSWERS: Final = {
    "/ui/consent": "allow",
    "/ui/passkey-offer": "later",
    "/ui/device/decision": "approve",
    "/ui/saml": "allow",
    "/ui/saml/elsewhere": "another",
    "/ui/organizations/{org_slug}/ownership": "decline",
    "/oauth/logout/confirm": "yes",
}
# `tests/security/organizations/test_console_pages.py` walks the console, and forms of set-up pages are bound to no account.
FORMS: Final = [
    one
    for one in PAGES
    if one.method == "POST"
    and isinstance(one.caller, BindsForms)
    and one.caller is not IN_FLOW
    and not one.foreign
    and one not in CONSOLE
    and not one.caller.name.startswith("setup")
]


def path_of(one: Endpoint) -> str:
    named = {"org_slug": "acme", "service_slug": "app", "provider": "codehost"}
    return one.path.format(**{name: named.get(name, SOME_ID) for name in parameters(one.path)})


def test_the_walk_meets_the_forms_between_a_sign_in_and_what_it_is_for() -> None:
    walked = {one.path for one in FORMS}
    assert {"/ui/consent", "/ui/device/decision", "/ui/saml", "/ui/confirm-membership", "/ui/connect/{provider}/{request}"} <= walked
    assert {"/ui/prove", "/ui/second-factor-required", "/ui/answers", "/ui/verify-email/here", "/ui/sign-out"} <= walked


async def test_a_form_of_one_account_under_another_is_refused_in_words(shared: Shared) -> None:
    ada, bob = await shared.person("ada"), await shared.person("bob")
    tabs = await shared.together(ada)
    token = (await tabs.tab().open("/ui/profile")).page.forms[0].fields["form_token"]
    await shared.signs_in(tabs, bob)
    counted = {table: shared.people.rows(f"select count(*) from {table}") for table in ("events", "audit_entries", "users", "sessions")}
    wrong: list[str] = []
    for one in FORMS:
        if one.path == "/ui/stop-acting":
            continue
        fields = {**FIELDS, "form_token": token, "answer": ANSWERS.get(one.path, "accept")}
        answer = await tabs.request("POST", path_of(one), fields, with_file=isinstance(one.accepts, FormWithFile))
        if answer.status != 409 or b"belongs to another account" not in answer.body:
            wrong.append(f"{one}: {answer.status}")
            continue
        (onward,) = PageReader(answer.body).links
        place = parse_qs(urlsplit(onward).query)["to"][0]
        shown = {page.path for page in PAGES if page.method == "GET"}
        if urlsplit(onward).path != ACCOUNTS or not any(_fits(place, page) for page in shown):
            wrong.append(f"{one} leads to {onward}")
    assert wrong == [], "\n".join(wrong)
    assert counted == {table: shared.people.rows(f"select count(*) from {table}") for table in counted}


def _fits(place: str, page: str) -> bool:
    here, there = urlsplit(place).path.split("/"), page.split("/")
    return len(here) == len(there) and all(one == other or other.startswith("{") for one, other in zip(here, there, strict=True))


@pytest.mark.parametrize("ended", ["signed out", "revoked"])
async def test_so_is_the_form_of_an_account_that_is_gone(shared: Shared, ended: str) -> None:
    ada, bob = await shared.person("ada"), await shared.person("bob")
    tabs = await shared.together(ada, bob)
    await shared.use(tabs, ada)
    page = await tabs.tab().open("/ui/profile")
    if ended == "signed out":
        await (await tabs.tab().open("/ui/profile")).send(0)
    else:
        shared.people.change("update sessions set revoked_at = now() where user_id = %s", ada.user)
    await shared.use(tabs, bob)
    await page.send(1)
    is_page(page.shown, 409, "belongs to another account")
    assert list(choices(await tabs.tab().open(page.page.links[0]))) == [bob.email]


async def test_a_form_from_before_a_new_proof_of_the_same_account_is_only_out_of_date(shared: Shared) -> None:
    ada, bob = await shared.person("ada"), await shared.person("bob")
    tabs = await shared.together(bob, ada)
    page = await tabs.tab().open("/ui/profile")
    await shared.signs_in(tabs, ada)
    await page.send(1)
    is_page(page.shown, 403, "out of date")


async def test_a_form_that_was_meant_is_sent_after_the_choice(shared: Shared) -> None:
    ada, bob = await shared.person("ada"), await shared.person("bob")
    tabs = await shared.together(ada)
    page = await tabs.tab().open("/ui/sessions")
    await shared.signs_in(tabs, bob)
    await page.send(0)
    is_page(page.shown, 409)
    assert shared.lives(ada)
    assert shared.lives(bob)
    assert page.page.links == ["/ui/accounts?to=%2Fui"]
    await page.open(page.page.links[0])
    await page.send(account=choices(page)[ada.email])
    await page.send(0)
    assert (page.place, shared.lives(ada), shared.lives(bob)) == ("/ui/signed-out", False, True)


class SharedSets(SeveralAccounts, Sets):
    """A browser in which several people are signed in, beside a television set."""


@pytest.fixture
def sets(postern: Postern, people: People, log: CapturedLog) -> SharedSets:
    return SharedSets(postern, people, unlimited(postern), log)


async def test_the_code_of_a_device_is_the_choice_of_one_account(sets: SharedSets) -> None:
    cyn, bob = await sets.person("cyn"), await sets.person("bob")
    tabs = await sets.together(cyn, bob)
    codes = await sets.ask_for_codes(scope="openid email")
    tab = await tabs.tab().open("/ui/device")
    await tab.send(user_code=codes.user_code)
    assert tab.place.startswith("/ui/choose-account?flow=")
    await tab.send(account=choices(tab)[cyn.email])
    assert tab.place.startswith("/ui/device/decision?flow=")
    assert cyn.email in tab.page.text
    place, form = tab.place, tab.page.forms[0].fields
    # Bob's account is used in another tab: neither the page nor its form is Bob's.
    await sets.use(tabs, bob)
    is_page(await tabs.request("GET", place), 409, "belongs to another account")
    is_page(await tabs.request("POST", place, {**form, "answer": "approve"}), 409, "belongs to another account")
    assert sets.people.rows("select state from device_codes") == [{"state": "pending"}]
    await sets.use(tabs, cyn)
    await tab.send(answer="approve")
    assert tab.place.startswith("/ui/device/approved")
    assert [row["user_id"] for row in sets.people.rows("select user_id from device_codes")] == [cyn.user]


async def test_a_device_asks_one_account_nothing(sets: SharedSets) -> None:
    tabs = await sets.together(await sets.person("cyn"))
    codes = await sets.ask_for_codes(scope="openid email")
    tab = await tabs.tab().open("/ui/device")
    await tab.send(user_code=codes.user_code)
    assert tab.place.startswith("/ui/device/decision?flow=")


async def test_back_to_a_page_of_consent_that_another_account_has_passed(shared: Shared) -> None:
    """The browser shows the old page from its memory. Its form is Ada's, while Bob's account is in use."""
    ada, bob = await shared.person("ada"), await shared.person("bob")
    tabs = await shared.together(ada)
    old: Tab = await tabs.tab().open(shared.asking())
    await shared.signs_in(tabs, bob)
    new = await _consented(shared, tabs, bob)
    assert shared.code(left(new)["code"])["user_id"] == bob.user
    await old.send(answer="allow")
    is_page(old.shown, 409)
    assert [code["user_id"] for code in shared.codes()] == [bob.user]


async def _consented(shared: Shared, tabs: Tabs, person: Person) -> Tab:
    tab = await tabs.tab().open(shared.asking(login_hint=person.email))
    return await tab.send(answer="allow")


def test_forms_of_account_pages_are_all_under_the_rule_that_binds_them() -> None:
    of_account = [one for one in PAGES if one.method == "POST" and one.handler.__module__.startswith("entrypoints.http.pages.account.")]
    assert {one.caller for one in of_account} == {BROWSER}
