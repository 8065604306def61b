"""Sign-in on the pages for people whose domain has a provider: the address leads to the provider, and no page avoids it."""

from typing import Final
from urllib.parse import parse_qs, urlsplit

import pytest

from core.domain.mail import Email
from entrypoints.bootstrap import Postern
from tests.conftest import CapturedLog
from tests.http.browsing import Tab, Tabs
from tests.http.pages.test_passkey_pages import passkey_of, use
from tests.http.people import BASE_URL, People, Person
from tests.http.postbox import Postbox, link_in
from tests.http.routing import change_route, route
from tests.http.signing_in import PASSWORD, unlimited
from tests.http.tenants import Tenant, Tenants

SIGN_IN: Final = "/ui/sign-in"
NAME: Final = "acme.example"


@pytest.fixture
def tabs(postern: Postern) -> Tabs:
    return Tabs(unlimited(postern))


@pytest.fixture
async def ada(people: People) -> Person:
    return await people.with_password(PASSWORD, f"ada@{NAME}")


@pytest.fixture
def acme(postern: Postern, people: People) -> Tenant:
    return Tenants(postern, people).add("acme")


async def to_password(tabs: Tabs, email: str = f"ada@{NAME}") -> Tab:
    tab = await tabs.tab().open(SIGN_IN)
    return await tab.send(email=email)


def led_to(address: str) -> tuple[str, dict[str, str]]:
    parts = urlsplit(address)
    return parts.path, {name: value for name, (value,) in parse_qs(parts.query).items()}


async def test_the_address_leads_to_the_provider(tabs: Tabs, people: People, acme: Tenant, log: CapturedLog) -> None:
    route(people, acme, NAME)
    # The same with and without such an account.
    tab = await to_password(tabs, f"nobody@{NAME}")
    assert (tab.status, tab.place) == (200, SIGN_IN)
    path, given = led_to(tab.page.refresh)
    (flow,) = people.rows("select id from flows")
    assert (path, given) == ("/auth/websuite", {"org": "acme", "login_hint": f"nobody@{NAME}", "flow": str(flow["id"])})
    assert tab.page.refresh in tab.page.links
    assert "Google" in tab.page.text
    assert log.events("request")[-1]["db_round_trips"] <= 5


async def test_the_page_of_the_password_leads_there_too(tabs: Tabs, people: People, acme: Tenant, ada: Person, log: CapturedLog) -> None:
    tab = await to_password(tabs)
    place = tab.place
    assert place.startswith("/ui/sign-in/password")
    route(people, acme, NAME)
    again = await tabs.tab().open(place)
    assert (again.status, again.place) == (200, place)
    path, given = led_to(again.page.refresh)
    assert (path, given["login_hint"]) == ("/auth/websuite", ada.email)
    assert log.events("request")[-1]["db_round_trips"] <= 3


async def test_a_password_that_is_sent_all_the_same_is_refused(tabs: Tabs, people: People, acme: Tenant, ada: Person) -> None:
    tab = await to_password(tabs, ada.email)
    route(people, acme, NAME)
    for password in (PASSWORD, "a wrong one"):
        await tab.send(password=password)
        assert tab.status == 400
        assert "People with this email address sign in with" in tab.page.text
        assert any(link.startswith("/auth/websuite?") for link in tab.page.links)
    assert tabs.session is None


async def test_where_both_will_do_there_is_a_choice(tabs: Tabs, people: People, acme: Tenant, ada: Person) -> None:
    route(people, acme, NAME, login="password_allowed")
    tab = await to_password(tabs, ada.email)
    assert "Sign in with Google" in tab.page.text
    assert any(link.startswith("/auth/websuite?") for link in tab.page.links)
    await tab.send(password="a wrong one")
    assert "Sign in with Google" in tab.page.text
    await tab.send(password=PASSWORD)
    assert tabs.session


async def test_a_provider_that_cannot_be_used_is_not_offered(tabs: Tabs, people: People, acme: Tenant, ada: Person) -> None:
    route(people, acme, NAME, login="password_fallback_if_provider_unavailable")
    people.change("delete from oauth_credentials")
    tab = await to_password(tabs, ada.email)
    assert "Sign in with" not in tab.page.text
    await tab.send(password=PASSWORD)
    assert tabs.session


async def test_where_nothing_else_will_do_people_are_sent_to_a_provider_that_is_gone(tabs: Tabs, people: People, acme: Tenant) -> None:
    route(people, acme, NAME)
    people.change("delete from oauth_credentials")
    tab = await to_password(tabs)
    assert tab.page.refresh.startswith("/auth/websuite?")
    assert "Continue to Google" in tab.page.text


async def test_a_forgotten_password_leads_there(tabs: Tabs, postern: Postern, people: People, acme: Tenant, ada: Person) -> None:
    route(people, acme, NAME)
    tab = await tabs.tab().open("/ui/forgot-password")
    await tab.send(email=ada.email)
    assert tab.page.refresh.startswith("/auth/websuite?")
    assert await Postbox(postern).empty() == []


async def test_asking_for_a_link_leads_there(tabs: Tabs, postern: Postern, people: People, acme: Tenant, ada: Person) -> None:
    tab = await to_password(tabs, ada.email)
    route(people, acme, NAME)
    await tab.send(1)
    assert tab.page.refresh.startswith("/auth/websuite?")
    assert await Postbox(postern).empty() == []


async def test_a_link_that_is_under_way_is_of_no_use(tabs: Tabs, postern: Postern, people: People, acme: Tenant, ada: Person) -> None:
    tab = await to_password(tabs, ada.email)
    await tab.send(1)
    (mail,) = await Postbox(postern).empty()
    route(people, acme, NAME)
    await tab.open(link_in(mail).removeprefix(BASE_URL))
    await tab.send()
    assert (tab.status, tabs.session) == (400, None)
    assert "People with this email address sign in with" in tab.page.text
    assert any(link.startswith("/auth/websuite?") for link in tab.page.links)
    # The link was not used up.
    change_route(people, NAME, login_policy="password_allowed")
    await tab.open(link_in(mail).removeprefix(BASE_URL))
    await tab.send()
    assert tabs.session


async def test_a_passkey_leads_there(tabs: Tabs, people: People, acme: Tenant, ada: Person) -> None:
    passkey = await passkey_of(tabs.client, people, ada)
    route(people, acme, NAME)
    tab = await tabs.tab().open(SIGN_IN)
    await use(tab, passkey)
    assert (tab.status, tabs.session) == (400, None)
    assert "People with this email address sign in with" in tab.page.text
    (link,) = [link for link in tab.page.links if link.startswith("/auth/websuite?")]
    assert led_to(link)[1]["login_hint"] == ada.email
    change_route(people, NAME, login_policy="password_allowed")
    tab = await tabs.tab().open(SIGN_IN)
    await use(tab, passkey)
    assert tabs.session


async def test_a_reset_that_is_under_way_is_of_no_use(tabs: Tabs, postern: Postern, people: People, acme: Tenant, ada: Person) -> None:
    tab = await tabs.tab().open("/ui/forgot-password")
    await tab.send(email=ada.email)
    (mail,) = await Postbox(postern).empty()
    place = link_in(mail).removeprefix(BASE_URL)
    await tab.open(place)
    assert tab.status == 200
    route(people, acme, NAME)
    await tab.send(new_password="another moon over it", repeated="another moon over it")
    assert (tab.status, "enter your email address to continue to the identity provider" in tab.page.text) == (403, True)
    await tab.open(place)
    assert tab.status == 403


async def test_an_operators_link_signs_in_all_the_same(tabs: Tabs, postern: Postern, people: People, acme: Tenant, ada: Person) -> None:

    people.change("update users set is_platform_owner = true")
    route(people, acme, NAME)
    link = (await postern.identity.sign_in_links.issue(Email(ada.email))).reveal()
    tab = await tabs.tab().open(link.removeprefix(BASE_URL))
    await tab.send()
    assert tabs.session


async def test_the_page_that_asks_for_a_proof_leads_to_a_new_sign_in(tabs: Tabs, people: People, acme: Tenant, ada: Person) -> None:
    tab = await to_password(tabs, ada.email)
    await tab.send(password=PASSWORD)
    people.change("update sessions set proved_at = now() - interval '1 hour'")
    await tab.open("/ui/prove?to=/ui/profile/email&need=account")
    prove = tab.page.forms
    assert any("password" in form.fields for form in prove), tab.page.text
    route(people, acme, NAME)
    await tab.send(next(index for index, form in enumerate(prove) if "password" in form.fields), password=PASSWORD)
    assert tab.place.startswith(("/ui/sign-in", "/auth/websuite"))
    answer = await tabs.request("GET", "/ui/prove?to=/ui/profile/email&need=account")
    assert (answer.status, (answer.header("location") or "").startswith("/ui/sign-in")) == (303, True)


@pytest.mark.parametrize("language", ["de", "es", "fr"])
async def test_it_is_told_in_the_readers_language(postern: Postern, people: People, acme: Tenant, language: str) -> None:
    route(people, acme, NAME)
    tab = await to_password(Tabs(unlimited(postern), language=language))
    assert "Google" in tab.page.text
    assert "Continue to" not in tab.page.text
