"""Signing in on the pages: a person's steps, and the effects of tabs, reloads, the back button and double clicks."""

from urllib.parse import quote

import pytest
import trio

from adapters.postgres.identity.proofs.sign_in import SignInRows
from core.domain.identity.flows import form_token
from core.domain.identity.sign_in import Confirmed, LastLook
from core.domain.secrets import Token
from entrypoints.bootstrap import Postern
from entrypoints.http.machinery.browser_cookies import keep_session
from tests.http.browsing import Tab, Tabs
from tests.http.client import Client
from tests.http.people import People, Person
from tests.http.signing_in import PASSWORD, enable_mfa, unlimited
from tests.meanwhile import meanwhile

SIGN_IN = "/ui/sign-in"


@pytest.fixture
def tabs(postern: Postern) -> Tabs:
    return Tabs(unlimited(postern))


@pytest.fixture
async def ada(people: People) -> Person:
    return await people.with_password(PASSWORD, "ada@example.org")


async def to_password(tabs: Tabs, email: str = "ada@example.org", target: str = SIGN_IN) -> Tab:
    tab = await tabs.tab().open(target)
    assert tab.status == 200
    return await tab.send(email=email)


async def whose(tabs: Tabs, postern: Postern) -> str | None:
    caller = None if tabs.session is None else await postern.tenancy.callers.resolve_browser(Token(tabs.session))
    return None if caller is None else caller.email.address


async def test_the_address_first_then_the_password(tabs: Tabs, postern: Postern, people: People, ada: Person) -> None:
    tab = await tabs.tab().open(SIGN_IN)
    assert tab.page.inputs["email"]["autocomplete"] == "username webauthn"
    await tab.send(email=" ada@example.org ")
    assert tab.place.startswith("/ui/sign-in/password?flow=")
    assert tab.page.inputs["email"]["value"] == "ada@example.org"
    assert tab.page.inputs["password"]["autocomplete"] == "current-password"
    await tab.send(password=PASSWORD)
    assert (tab.place, tab.status) == ("/ui", 200)
    assert await whose(tabs, postern) == "ada@example.org"
    (session,) = people.rows("select * from sessions")
    assert (session["user_id"], session["authenticated_by"], session["parent_id"]) == (ada.user, ["pwd"], None)
    assert session["proved_at"] is not None
    assert people.rows("select * from refresh_tokens") == []
    # A signed-in person is not asked again.
    assert (await tabs.tab().open(f"{SIGN_IN}?to=/ui/reset-password")).place == "/ui/reset-password"


async def test_a_wrong_password_brings_the_page_back(tabs: Tabs, postern: Postern, ada: Person) -> None:
    tab = await to_password(tabs)
    for wrong in ("mistyped", "", "x" * 200):
        await tab.send(password=wrong)
        assert tab.status == 400
        assert tab.page.inputs["password"]["aria-invalid"] == "true"
        assert tab.page.inputs["email"]["value"] == ada.email
        assert wrong.encode() not in tab.shown.body or not wrong
    assert tabs.session is None
    await tab.send(password=PASSWORD)
    assert await whose(tabs, postern) == ada.email


async def test_an_account_that_there_is_not_looks_the_same(tabs: Tabs, ada: Person) -> None:
    seen = []
    for email in (ada.email, "eve@example.org"):
        tab = await tabs.tab().open(SIGN_IN)
        first = await tab.send(email=email)
        pages = [(first.status, first.shown.body)]
        await tab.send(password="wrong")
        pages.append((tab.status, tab.shown.body))
        page = tab.page
        hidden = (page.forms[0].fields["flow"], page.forms[0].fields["form_token"], email)
        for one in hidden:
            pages = [(status, body.replace(one.encode(), b"-")) for status, body in pages]
        seen.append(pages)
    assert seen[0] == seen[1]


@pytest.mark.parametrize("email", ["", "ada", "@example.org", "ada@", "a b@example.org", "x" * 320 + "@example.org"])
async def test_what_is_no_address_is_asked_again(email: str, tabs: Tabs) -> None:
    tab = await tabs.tab().open(SIGN_IN)
    await tab.send(email=email)
    assert tab.status == 400
    assert tab.page.inputs["email"]["aria-invalid"] == "true"


async def test_a_second_factor_is_asked_for_and_a_trusted_device_is_not(tabs: Tabs, postern: Postern, people: People, ada: Person) -> None:
    totp = await enable_mfa(tabs.client, people, ada)
    tab = await (await to_password(tabs)).send(password=PASSWORD)
    assert tab.place.startswith("/ui/sign-in/second-factor?flow=")
    assert tab.page.inputs["code"]["autocomplete"] == "one-time-code"
    assert tabs.session is None
    await tab.send(code="000000")
    assert (tab.status, tabs.session) == (400, None)
    code = totp.now()
    await tab.send(code=f"{code[:3]} {code[3:]}", trust_device="yes")
    assert tab.place == "/ui"
    assert await whose(tabs, postern) == ada.email
    (session,) = people.rows("select * from sessions where id <> %s", ada.session)
    assert session["authenticated_by"] == ["pwd", "otp", "mfa"]
    assert session["second_factor_at"] is not None

    del tabs.cookies["__Host-postern_session"]
    await (await to_password(tabs)).send(password=PASSWORD)
    assert await whose(tabs, postern) == ada.email


async def test_a_code_signs_nobody_in_by_a_flow_that_another_proof_has_used_meanwhile(
    tabs: Tabs, people: People, ada: Person, monkeypatch: pytest.MonkeyPatch
) -> None:
    totp = await enable_mfa(tabs.client, people, ada)
    tab = await (await to_password(tabs)).send(password=PASSWORD)
    look = SignInRows.confirm

    async def after_another(store: SignInRows, asked: LastLook) -> Confirmed | None:
        people.change("update flows set signed_in_at = now(), proof_digest = 'another' where id = %s", asked.flow)
        return await look(store, asked)

    monkeypatch.setattr(SignInRows, "confirm", after_another)
    await tab.send(code=totp.now())
    assert (tab.status, tabs.session) == (400, None)
    assert [row["id"] for row in people.rows("select id from sessions")] == [ada.session]


async def test_after_five_wrong_codes_the_password_is_asked_for_again(tabs: Tabs, people: People, ada: Person) -> None:
    totp = await enable_mfa(tabs.client, people, ada)
    tab = await (await to_password(tabs)).send(password=PASSWORD)
    for _ in range(5):
        await tab.send(code="000000")
    await tab.send(code=totp.now())
    assert (tab.status, tab.page.forms[0].action) == (400, "/ui/sign-in/password")
    await tab.send(password=PASSWORD)
    await tab.send(code=totp.now())
    assert tab.place == "/ui"


async def test_the_same_form_twice_is_one_sign_in(tabs: Tabs, people: People, ada: Person) -> None:
    """The first answer of a double click never reaches the browser."""
    tab = await to_password(tabs, ada.email)
    form = tab.page.forms[0]
    fields = {**form.fields, "password": PASSWORD}
    first = await tabs.request("POST", form.action, fields)
    kept = tabs.cookies.pop("__Host-postern_session")
    second = await tabs.request("POST", form.action, fields)
    assert [first.status, second.status] == [303, 303]
    assert tabs.session == kept
    assert len(people.rows("select from sessions")) == 1
    # Later, or with another password, the form counts as new.
    del tabs.cookies["__Host-postern_session"]
    assert (await tabs.request("POST", form.action, {**fields, "password": "other"})).status == 400
    people.change("update flows set signed_in_at = signed_in_at - interval '1 minute'")
    assert (await tabs.request("POST", form.action, fields)).status == 400
    assert tabs.session is None


async def test_so_is_a_form_that_comes_again_while_its_password_is_examined(
    tabs: Tabs, postern: Postern, people: People, ada: Person, monkeypatch: pytest.MonkeyPatch
) -> None:
    form = (await to_password(tabs)).page.forms[0]
    fields = {**form.fields, "password": PASSWORD}
    quicker = Tabs(tabs.client)
    quicker.cookies.update(tabs.cookies)
    clicks = [quicker]

    async def click_again() -> None:
        if clicks:
            assert (await clicks.pop().request("POST", form.action, fields)).status == 303

    meanwhile(monkeypatch, postern.identity.passwords, "examine", click_again)
    assert (await tabs.request("POST", form.action, fields)).status == 303
    assert tabs.session == quicker.session
    assert await whose(tabs, postern) == ada.email
    assert len(people.rows("select from sessions")) == 1


@pytest.mark.parametrize("with_code", [False, True])
async def test_of_many_at_once_all_get_the_one_session(with_code: bool, tabs: Tabs, postern: Postern, people: People, ada: Person) -> None:
    totp = await enable_mfa(tabs.client, people, ada) if with_code else None
    tab = await to_password(tabs)
    if totp is not None:
        await tab.send(password=PASSWORD)
    form = tab.page.forms[0]
    fields = {**form.fields, **({"password": PASSWORD} if totp is None else {"code": totp.now()})}
    browsers = [Tabs(tabs.client) for _ in range(8)]

    async def send(browser: Tabs) -> None:
        browser.cookies.update(tabs.cookies)
        assert (await browser.request("POST", form.action, fields)).status == 303

    async with trio.open_nursery() as nursery:
        for browser in browsers:
            nursery.start_soon(send, browser)
    assert len({browser.session for browser in browsers}) == 1
    assert len(people.rows("select from sessions where id <> %s", ada.session)) == 1
    assert await whose(browsers[0], postern) == ada.email


async def test_going_back_after_signing_in_goes_on(tabs: Tabs, ada: Person) -> None:
    tab = await to_password(tabs, ada.email, f"{SIGN_IN}?to=/ui/reset-password%3Ftoken%3Dx")
    behind = tab.place
    form = tab.page.forms[0]
    await tab.send(password=PASSWORD)
    for place in (behind, behind.replace("/password", ""), behind.replace("password", "second-factor")):
        assert (await tabs.tab().open(place)).place == "/ui/reset-password?token=x"
    again = await tabs.request("POST", form.action, {**form.fields, "password": "something else"})
    assert (again.status, again.header("location")) == (303, "/ui/reset-password?token=x")


async def test_tabs_with_different_flows_do_not_disturb_each_other(tabs: Tabs, postern: Postern, people: People, ada: Person) -> None:
    bob = await people.with_password(PASSWORD, "bob@example.org")
    one = await to_password(tabs, ada.email, f"{SIGN_IN}?to=/ui/one")
    other = await to_password(tabs, bob.email, f"{SIGN_IN}?to=/ui/other")
    await one.send(password=PASSWORD)
    assert one.place == "/ui/one"
    first = tabs.session
    await other.send(password=PASSWORD)
    assert (other.place, await whose(tabs, postern)) == ("/ui/other", bob.email)
    # The first person's account stays signed in, beside the one in use.
    assert first is not None
    assert tabs.cookies["__Host-postern_accounts"] == first
    assert await postern.tenancy.callers.resolve_browser(Token(first)) is not None


async def test_two_addresses_in_one_flow_send_what_their_page_shows(tabs: Tabs, postern: Postern, people: People, ada: Person) -> None:
    await people.with_password("the other password of bob", "bob@example.org")
    tab = await to_password(tabs)
    copy = await tabs.tab().open(f"{SIGN_IN}?flow={tab.page.forms[0].fields['flow']}")
    await copy.send(email="bob@example.org")
    await tab.send(password=PASSWORD)
    assert await whose(tabs, postern) == ada.email


async def test_a_fresh_proof_renews_the_same_session_under_a_new_cookie(tabs: Tabs, people: People, ada: Person) -> None:
    await (await to_password(tabs)).send(password=PASSWORD)
    first = tabs.session
    people.change("update sessions set proved_at = now() - interval '1 day'")
    tab = await tabs.tab().open(f"{SIGN_IN}?again=yes&to=/ui/x")
    assert tab.place.startswith("/ui/sign-in/password?flow=")
    assert tab.page.inputs["email"]["value"] == ada.email
    await tab.send(password=PASSWORD)
    assert tab.place == "/ui/x"
    assert tabs.session not in {first, None}
    (session,) = people.rows("select proved_at > now() - interval '1 minute' as fresh from sessions")
    assert session["fresh"]
    tabs.cookies["__Host-postern_session"] = first or ""
    assert (await tabs.tab().open(SIGN_IN)).page.forms


async def test_signing_out_ends_it_and_what_was_opened_from_it(tabs: Tabs, postern: Postern, people: People, ada: Person) -> None:
    await (await to_password(tabs)).send(password=PASSWORD)
    (session,) = people.rows("select id from sessions")
    people.change(
        "insert into sessions (id, user_id, parent_id, depth, created_at, last_seen_at, expires_at)"
        " values (%s, %s, %s, 1, now(), now(), now() + interval '1 day')",
        postern.foundation.ids.new(),
        ada.user,
        session["id"],
    )
    await sign_out(tabs)
    assert tabs.session is None
    assert people.rows("select from sessions where revoked_at is null") == []
    # The same again, in a tab that still shows the button.
    answer = await tabs.request("POST", "/ui/sign-out", {"form_token": "x"})
    assert answer.status == 403


async def sign_out(tabs: Tabs) -> None:
    token = form_token(Token(tabs.session or ""), "session")
    answer = await tabs.request("POST", "/ui/sign-out", {"form_token": token})
    assert (answer.status, answer.header("location")) == (303, "/ui/signed-out")
    assert (await tabs.tab().open("/ui/signed-out")).status == 200


@pytest.mark.parametrize(
    "place",
    [
        "//evil.example",
        "https://evil.example",
        "/ui/../..//evil.example",
        "/uiX",
        "/\\evil.example",
        "/ui/\\x",
        "/ui/ä",
        "/ui/\n",
        "javascript:x",
    ],
)
async def test_nobody_is_led_to_another_site(place: str, tabs: Tabs, ada: Person) -> None:
    tab = await to_password(tabs, ada.email, f"{SIGN_IN}?to={quote(place)}")
    form = tab.page.forms[0]
    answer = await tabs.request("POST", form.action, {**form.fields, "password": PASSWORD})
    location = answer.header("location") or ""
    assert location == "/ui" or (location.startswith("/ui/") and "\\" not in location and place == "/ui/../..//evil.example")


@pytest.mark.parametrize("flow", ["x", "0199d3a0-0000-7000-8000-000000000001"])
@pytest.mark.parametrize("page", ["/ui/sign-in", "/ui/sign-in/password", "/ui/sign-in/second-factor"])
async def test_a_flow_that_there_is_not_is_a_page_that_is_out_of_date(flow: str, page: str, client: Client) -> None:
    tab = await Tabs(client).tab().open(f"{page}?flow={flow}")
    assert (tab.status, tab.page.links) == (400, ["/ui/sign-in"])


async def test_a_flow_ends_after_an_hour_and_the_first_page_never(tabs: Tabs, people: People, ada: Person) -> None:
    first = await tabs.tab().open(SIGN_IN)
    tab = await to_password(tabs)
    people.change("update flows set created_at = created_at - interval '1 hour', expires_at = expires_at - interval '1 hour'")
    await tab.send(password=PASSWORD)
    assert (tab.status, tab.page.links) == (400, ["/ui/sign-in"])
    await first.send(email=ada.email)
    assert first.place.startswith("/ui/sign-in/password")


def test_over_http_the_cookies_have_plain_names() -> None:
    ((_, cookie),) = keep_session(Token("x"), "http://127.0.0.1:8000")
    assert cookie.startswith(b"postern_session=x;")
    assert b"Secure" not in cookie
