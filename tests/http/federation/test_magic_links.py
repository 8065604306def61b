"""Sign-in links by mail: requested on the sign-in page or by an application, and opened in the same browser or in another one."""

from html import unescape
from urllib.parse import parse_qsl, urlsplit

import pytest
import trio

from core.domain.secrets import Token
from entrypoints.bootstrap import Postern
from tests.http.browsing import Tab, Tabs
from tests.http.client import Client, Received
from tests.http.federation.arriving import CALLBACK, Arriving, left
from tests.http.people import BASE_URL, People, Person
from tests.http.postbox import Postbox
from tests.http.signing_in import PASSWORD, enable_mfa

PATH = "/api/auth/magic-link"
ANSWER = "If there is an account with this email address that can sign in with a link, an email with a link was sent."


@pytest.fixture
async def ada(people: People) -> Person:
    return await people.with_password(PASSWORD, "ada@example.org")


@pytest.fixture
def postbox(postern: Postern) -> Postbox:
    return Postbox(postern)


async def ask(scene: Arriving, email: str = "ada@example.org", **more: str) -> Received:
    return await scene.unlimited.post(PATH, {"email": email, **more})


async def asked_on_the_page(tabs: Tabs, start: str = "/ui/sign-in", email: str = "ada@example.org") -> Tab:
    """A tab at the page that tells the person to look into the mail."""
    tab = await tabs.tab().open(start)
    await tab.send(email=email)
    (form,) = [number for number, form in enumerate(tab.page.forms) if form.action == "/ui/sign-in/mail-link"]
    return await tab.send(form)


async def link(postbox: Postbox) -> str:
    return (await postbox.link()).removeprefix(BASE_URL)


async def who(postern: Postern, tabs: Tabs) -> object:
    caller = await postern.tenancy.callers.resolve_browser(Token(tabs.session or ""))
    return None if caller is None else caller.user


async def test_a_link_is_mailed_and_signs_in_once(scene: Arriving, ada: Person, postbox: Postbox, postern: Postern) -> None:
    answer = await ask(scene)
    assert (answer.status, answer.json()) == (200, {"message": ANSWER})
    (mail,) = await postbox.empty()
    assert (mail.to, mail.subject) == ("ada@example.org", "Your sign-in link")
    assert "15 minutes" in mail.text
    (stored,) = scene.people.rows("select purpose, extract(epoch from expires_at - created_at) as seconds from mailed_tokens")
    assert stored == {"purpose": "magic_link", "seconds": 900}

    await ask(scene)
    place = await link(postbox)
    tabs = scene.browser()
    # A mail program that opens the link first does not use it up.
    for _ in range(3):
        assert (await scene.browser().tab().open(place)).status == 200
    tab = await (await tabs.tab().open(place)).send()
    assert tab.place == "/ui"
    assert await who(postern, tabs) == ada.user
    assert scene.people.rows("select provider, success from login_events") == [{"provider": "link", "success": True}]
    again = await scene.browser().tab().open(place)
    assert again.status == 400
    assert "was already used" in again.page.text
    assert "sign-in page" in again.page.text


async def test_a_newer_link_replaces_the_older(scene: Arriving, ada: Person, postbox: Postbox) -> None:
    await ask(scene, ada.email)
    first = await link(postbox)
    await ask(scene, ada.email)
    second = await link(postbox)
    assert (await scene.browser().tab().open(first)).status == 400
    assert (await scene.browser().tab().open(second)).status == 200


async def test_of_fifty_at_once_one_signs_in(scene: Arriving, ada: Person, postbox: Postbox) -> None:
    await ask(scene, ada.email)
    place = await link(postbox)
    browsers = [scene.browser() for _ in range(50)]
    tabs = [await browser.tab().open(place) for browser in browsers]
    async with trio.open_nursery() as nursery:
        for tab in tabs:
            nursery.start_soon(tab.send)
    assert sorted(tab.status for tab in tabs) == [200] + [400] * 49
    assert len([browser for browser in browsers if browser.session]) == 1
    assert len(scene.people.rows("select from login_events where success")) == 1


@pytest.mark.parametrize(
    "change",
    [
        "delete from users",
        "update users set deactivated_at = now()",
        "update users set email_verified_at = null",
    ],
)
async def test_who_may_not_sign_in_gets_none_and_the_answer_is_the_same(
    change: str, scene: Arriving, ada: Person, postbox: Postbox
) -> None:
    scene.people.change(change)
    answer = await ask(scene, ada.email)
    assert (answer.status, answer.json()) == (200, {"message": ANSWER})
    assert await postbox.empty() == []
    assert scene.people.rows("select from mailed_tokens") == []


@pytest.mark.parametrize(
    "change", ["update users set deactivated_at = now()", "update users set password_changed_at = now() + interval '1 s'"]
)
async def test_a_link_of_an_account_that_changed_since_does_nothing(change: str, scene: Arriving, ada: Person, postbox: Postbox) -> None:
    await ask(scene, ada.email)
    tabs = scene.browser()
    tab = await tabs.tab().open(await link(postbox))
    scene.people.change(change)
    await tab.send()
    assert (tab.status, tabs.session) == (400, None)


async def test_it_ends_after_a_quarter_of_an_hour(scene: Arriving, ada: Person, postbox: Postbox) -> None:
    await ask(scene, ada.email)
    tab = await scene.browser().tab().open(await link(postbox))
    scene.people.change("update mailed_tokens set expires_at = now()")
    await tab.send()
    assert tab.status == 400
    assert "expired" in tab.page.text


async def test_a_second_factor_is_asked_for(scene: Arriving, ada: Person, postbox: Postbox, postern: Postern) -> None:
    totp = await enable_mfa(scene.unlimited, scene.people, ada)
    await postbox.empty()
    await ask(scene)
    tabs = scene.browser()
    tab = await (await tabs.tab().open(await link(postbox))).send()
    assert tab.place.startswith("/ui/sign-in/second-factor")
    assert tabs.session is None
    scene.people.change("update mfa_secrets set last_step = last_step - 120")
    await tab.send(code=totp.now())
    assert tab.place == "/ui"
    assert await who(postern, tabs) == ada.user


async def test_in_the_browser_that_asked_the_flow_goes_on(scene: Arriving, ada: Person, postbox: Postbox) -> None:
    scene.allow(ada)
    tabs = scene.browser()
    tab = await asked_on_the_page(tabs, scene.asking())
    assert "ada@example.org" in tab.page.text
    place = await link(postbox)
    opened = await tabs.tab().open(place)
    assert "another browser" not in opened.page.text
    assert left(await opened.send())["state"] == "a b&c"
    assert [row["user_id"] for row in scene.codes()] == [ada.user]


async def test_another_browser_is_signed_in_itself_and_is_told_so(scene: Arriving, ada: Person, postbox: Postbox, postern: Postern) -> None:
    asking, other = scene.browser(), scene.browser()
    tab = await asked_on_the_page(asking, scene.asking())
    opened = await other.tab().open(await link(postbox))
    assert "in another browser" in opened.page.text
    assert (await opened.send()).place == "/ui"
    assert await who(postern, other) == ada.user
    # The browser that asked is where it was, and no application got a code.
    assert asking.session is None
    assert scene.codes() == []
    assert (await tab.open(tab.place)).status == 200


async def test_the_page_says_the_same_for_nobody(scene: Arriving, ada: Person, postbox: Postbox) -> None:
    known = await asked_on_the_page(scene.browser(), email=ada.email)
    unknown = await asked_on_the_page(scene.browser(), email="who@example.org")
    assert known.page.text.replace(ada.email, "") == unknown.page.text.replace("who@example.org", "")
    assert [mail.to for mail in await postbox.empty()] == [ada.email]


async def test_what_is_no_address_is_asked_for_again(scene: Arriving) -> None:
    tab = await asked_on_the_page(scene.browser(), email="a@b..c")
    assert tab.status == 400
    assert tab.page.inputs["email"]["value"] == "a@b..c"


async def test_a_flow_without_an_address_asks_for_it(scene: Arriving, ada: Person) -> None:
    tabs = scene.browser()
    tab = await tabs.tab().open("/ui/sign-in")
    await tab.send(email=ada.email)
    scene.people.change("update flows set email = ''")
    (form,) = [number for number, form in enumerate(tab.page.forms) if form.action == "/ui/sign-in/mail-link"]
    assert (await tab.send(form)).place.startswith("/ui/sign-in?flow=")


async def test_whoever_has_signed_in_meanwhile_goes_on(scene: Arriving, ada: Person, postbox: Postbox) -> None:
    tabs = scene.browser()
    tab = await tabs.tab().open("/ui/sign-in")
    await tab.send(email=ada.email)
    (form,) = [number for number, form in enumerate(tab.page.forms) if form.action == "/ui/sign-in/mail-link"]
    page = tab.page.forms[form]
    await tab.send(email=ada.email, password=PASSWORD)
    assert tab.place == "/ui"
    answer = await tabs.request("POST", page.action, page.fields)
    assert (answer.status, answer.header("location")) == (303, "/ui")
    assert await postbox.empty() == []


async def test_whoever_has_typed_the_password_and_owes_a_code_goes_on_by_the_link(scene: Arriving, ada: Person, postbox: Postbox) -> None:
    """The same browser opens the link, so the person goes on to the same place."""
    totp = await enable_mfa(scene.unlimited, scene.people, ada)
    await postbox.empty()
    tabs = scene.browser()
    tab = await tabs.tab().open("/ui/sign-in?to=/ui/devices")
    await tab.send(email=ada.email)
    forms = tab.page.forms
    (asks,) = [form for form in forms if form.action == "/ui/sign-in/mail-link"]
    await tabs.request("POST", asks.action, asks.fields)
    await tab.send(password=PASSWORD)
    assert tab.place.startswith("/ui/sign-in/second-factor")
    opened = await tabs.tab().open(await link(postbox))
    assert "another browser" not in opened.page.text
    await opened.send()
    assert opened.place.startswith("/ui/sign-in/second-factor")
    scene.people.change("update mfa_secrets set last_step = last_step - 120")
    await opened.send(code=totp.now())
    assert opened.place == "/ui/devices"
    (session,) = scene.people.rows("select authenticated_by from sessions where device_id is not null order by id desc limit 1")
    assert session["authenticated_by"][0] == "link"


async def test_whoever_has_signed_in_otherwise_meanwhile_is_told_of_no_other_browser(
    scene: Arriving, ada: Person, postbox: Postbox
) -> None:
    tabs = scene.browser()
    tab = await tabs.tab().open("/ui/sign-in?to=/ui/devices")
    await tab.send(email=ada.email)
    (asks,) = [form for form in tab.page.forms if form.action == "/ui/sign-in/mail-link"]
    await tabs.request("POST", asks.action, asks.fields)
    await tab.send(password=PASSWORD)
    assert tab.place == "/ui/devices"
    opened = await tabs.tab().open(await link(postbox))
    assert (opened.status, "another browser" in opened.page.text) == (200, False)
    await opened.send()
    assert opened.place == "/ui/devices"


async def test_whoever_signs_in_otherwise_before_they_press_the_button_goes_on(scene: Arriving, ada: Person, postbox: Postbox) -> None:
    tabs = scene.browser()
    tab = await tabs.tab().open("/ui/sign-in?to=/ui/devices")
    await tab.send(email=ada.email)
    (asks,) = [form for form in tab.page.forms if form.action == "/ui/sign-in/mail-link"]
    await tabs.request("POST", asks.action, asks.fields)
    place = await link(postbox)
    opened = await tabs.tab().open(place)
    await tab.send(password=PASSWORD)
    assert tab.place == "/ui/devices"
    await opened.send()
    assert (opened.status, opened.place) == (200, "/ui/devices")
    # The link is not used up.
    assert (await tabs.tab().open(place)).status == 200


async def test_whoever_signs_in_as_somebody_else_meanwhile_is_not_taken_for_whom_the_button_names(
    scene: Arriving, ada: Person, postbox: Postbox
) -> None:
    bob = await scene.people.with_password(PASSWORD, "bob@example.org")
    tabs = scene.browser()
    tab = await asked_on_the_page(tabs, email=ada.email)
    opened = await tabs.tab().open(await link(postbox))
    await tab.open(f"/ui/sign-in?flow={opened.page.forms[0].fields['flow']}")
    await tab.send(email=bob.email)
    await tab.send(password=PASSWORD)
    assert tab.place == "/ui"
    await opened.send()
    assert opened.status == 400
    assert "out of date" in opened.page.text


async def test_a_link_from_a_flow_that_is_over_signs_in_to_the_account(scene: Arriving, ada: Person, postbox: Postbox) -> None:
    tabs = scene.browser()
    await asked_on_the_page(tabs, email=ada.email)
    place = await link(postbox)
    scene.people.change("update flows set expires_at = now()")
    assert (await (await tabs.tab().open(place)).send()).place == "/ui"


@pytest.mark.parametrize("named", [{"redirect_uri": CALLBACK}, {"redirect_uri": ""}, {}])
async def test_an_application_is_led_to_with_a_code(named: dict[str, str], scene: Arriving, ada: Person, postbox: Postbox) -> None:
    scene.secret(scene.app)
    scene.people.change("update all_services set redirect_uris = array[%s, 'https://app.example.com/other'] where slug = 'app'", CALLBACK)
    scene.allow(ada, scopes="openid profile email")
    answer = await ask(scene, org_slug="acme", service_slug="app", state="x&y", **named)
    assert answer.status == 200
    tab = await scene.browser().tab().open(await link(postbox))
    await tab.send()
    # After a form no redirect leads to another site; a page does.
    leaving = unescape(tab.page.refresh or tab.page.links[-1])
    assert (tab.status, leaving.partition("?")[0]) == (200, "/oauth/authorize")
    told = await tab.tabs.request("GET", leaving)
    location = told.header("location") or ""
    assert location.startswith(f"{CALLBACK}?")
    assert dict(parse_qsl(urlsplit(location).query))["state"] == "x&y"
    assert [row["user_id"] for row in scene.codes()] == [ada.user]


@pytest.mark.parametrize(
    "change",
    [
        "delete from client_secrets",
        "update all_services set redirect_uris = '{}'",
        "update all_services set service_type = 'mobile'",
        "update all_services set deleted_at = now()",
        "update all_organizations set status = 'suspended'",
    ],
)
async def test_an_application_that_no_link_can_lead_to_is_left_out(change: str, scene: Arriving, ada: Person, postbox: Postbox) -> None:
    scene.secret(scene.app)
    scene.people.change(change)
    for named in ({"redirect_uri": CALLBACK}, {}):
        answer = await ask(scene, ada.email, org_slug="acme", service_slug="app", **named)
        assert (answer.status, answer.json()) == (200, {"message": ANSWER})
        assert "client_id" not in await link(postbox)


async def test_a_link_that_was_tampered_with_leads_nowhere_else(scene: Arriving, ada: Person, postbox: Postbox) -> None:
    scene.secret(scene.app)
    await ask(scene, ada.email, org_slug="acme", service_slug="app", redirect_uri=CALLBACK)
    place = (await link(postbox)).replace("app.example.com", "evil.example")
    tab = await (await scene.browser().tab().open(place)).send()
    refused = await tab.tabs.request("GET", unescape(tab.page.refresh or tab.page.links[-1]))
    assert (refused.status, refused.header("location")) == (400, None)
    assert scene.codes() == []


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"email": "nobody"}, "email"),
        ({"email": "a@example.org", "service_slug": "app"}, "org_slug"),
        ({"email": "a@example.org", "state": "x" * 1001}, "state"),
    ],
)
async def test_bad_input_is_named(body: dict[str, str], field: str, client: Client) -> None:
    answer = await client.post(PATH, body)
    assert (answer.status, answer.error_code) == (400, "BAD_REQUEST")
    assert field in answer.json()["error"]


async def test_an_organization_turns_them_off_for_its_members(scene: Arriving, ada: Person, postbox: Postbox) -> None:
    people = scene.people
    globex = scene.tenants.add("globex")
    owner = scene.tenants.member(globex, "owner")
    people.change(
        "insert into memberships (id, org_id, user_id, role, created_at, own_since) values (%s, %s, %s, 'member', now(), now())",
        scene.postern.foundation.ids.new(),
        globex.id,
        ada.user,
    )
    await ask(scene)
    before = await scene.browser().tab().open(await link(postbox))
    rules = "/api/organizations/globex/sign-in-rules"
    people.change("update sessions set proved_at = now()")
    answer = await scene.request("PATCH", rules, {"sign_in_links": False}, by=owner)
    assert (answer.status, answer.json()["sign_in_links"]) == (200, False)
    (event,) = people.rows("select details from events where name = 'organization.sign_in_rules.updated'")
    assert event["details"] == {"old_sign_in_links": True, "new_sign_in_links": False}

    await before.send()
    assert before.status == 400
    assert "does not allow" in before.page.text
    assert before.tabs.session is None
    assert (await ask(scene)).json() == {"message": ANSWER}
    assert await postbox.empty() == []
    # Other people are not affected, and nobody is while the organization is closed.
    bob = await people.with_password(PASSWORD, "bob@example.org")
    await ask(scene, bob.email)
    assert [mail.to for mail in await postbox.empty()] == [bob.email]
    people.change("update all_organizations set status = 'suspended' where slug = 'globex'")
    await ask(scene)
    assert [mail.to for mail in await postbox.empty()] == [ada.email]


async def test_too_many_mails_to_one_address_are_not_sent(scene: Arriving, ada: Person, postbox: Postbox) -> None:
    for _ in range(20):
        assert (await ask(scene, ada.email)).status == 200
    assert 0 < len(await postbox.empty()) < 20
