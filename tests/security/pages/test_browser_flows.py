"""Other sites and other people cannot use a person's browser: CSRF, login CSRF, session fixation, framing, and the browser's cache of
pages.
"""

import pytest

from core.domain.identity.flows import form_token
from core.domain.secrets import Token
from entrypoints.bootstrap import Postern
from tests.http import conftest as http
from tests.http.browsing import Tab, Tabs
from tests.http.client import Client
from tests.http.people import People, Person
from tests.http.signing_in import PASSWORD, unlimited

database_url, postern, people = http.database_url, http.postern, http.people
SESSION, FLOW = "__Host-postern_session", "__Host-postern_flow"
PAGES = ("/ui/sign-in", "/ui/register", "/ui/forgot-password", "/ui/signed-out", "/ui/sign-in/password?flow=x", "/ui/sign-in/link?token=x")


@pytest.fixture
def client(postern: Postern) -> Client:
    return unlimited(postern)


@pytest.fixture
async def ada(people: People) -> Person:
    return await people.with_password(PASSWORD, "ada@example.org")


async def at_password(client: Client, email: str) -> Tab:
    tab = await Tabs(client).tab().open("/ui/sign-in")
    return await tab.send(email=email)


async def at_home(client: Client, email: str) -> Tab:
    tab = await (await at_password(client, email)).send(password=PASSWORD)
    assert tab.tabs.session is not None
    return tab


async def test_a_form_without_its_token_does_nothing(client: Client, people: People, ada: Person) -> None:
    """The form is refused even if the request looks as if it came from our own page."""
    tab = await at_password(client, ada.email)
    form = tab.page.forms[0]
    other = await at_password(client, ada.email)
    stolen = other.page.forms[0].fields["form_token"]
    for token in ("", "x", "é", stolen, form.fields["form_token"][::-1], form_token(Token(tab.tabs.cookies[FLOW]), "flow ")):
        answer = await tab.tabs.request("POST", form.action, {**form.fields, "password": PASSWORD, "form_token": token})
        assert answer.status == 403
    assert people.rows("select from sessions") == []
    await tab.send(password=PASSWORD)
    assert tab.tabs.session is not None


async def test_another_site_cannot_sign_anybody_out(client: Client, people: People, ada: Person) -> None:
    tab = await at_home(client, ada.email)
    answer = await client.request(
        "POST",
        "/ui/sign-out",
        body=b"form_token=",
        headers=(
            ("cookie", f"{SESSION}={tab.tabs.session}"),
            ("content-type", "application/x-www-form-urlencoded"),
            ("sec-fetch-site", "cross-site"),
        ),
    )
    assert answer.status == 403
    assert (await tab.tabs.request("POST", "/ui/sign-out", {})).status == 403
    assert people.rows("select revoked_at from sessions") == [{"revoked_at": None}]


async def test_nobody_is_signed_in_as_somebody_else(client: Client, people: People, ada: Person) -> None:
    """Login CSRF: a thief carries their own sign-in, up to the last form, over to the browser of another person."""
    mallory = await at_password(client, (await people.with_password(PASSWORD, "mallory@example.org")).email)
    form = mallory.page.forms[0]
    victim = await at_password(client, ada.email)
    answer = await victim.tabs.request("POST", form.action, {**form.fields, "password": PASSWORD})
    assert answer.status == 403
    # The thief sends only the link of the flow, or puts the flow's id into a form of the victim's own.
    assert (await victim.tabs.tab().open(mallory.place)).status == 400
    token = form_token(Token(victim.tabs.cookies[FLOW]), f"flow {form.fields['flow']}")
    answer = await victim.tabs.request("POST", form.action, {**form.fields, "form_token": token, "password": PASSWORD})
    assert (answer.status, victim.tabs.session) == (400, None)
    assert people.rows("select from sessions") == []


async def test_no_session_that_was_there_before_becomes_ones_own(client: Client, postern: Postern, people: People, ada: Person) -> None:
    """Session fixation: a thief puts a cookie into the browser, a made-up cookie or that of the thief's session, and waits
    for a sign-in.
    """
    mallory = await at_home(client, (await people.with_password(PASSWORD, "mallory@example.org")).email)
    for planted in (mallory.tabs.session or "", postern.foundation.secrets.token().reveal()):
        victim = await at_password(client, ada.email)
        victim.tabs.cookies[SESSION] = planted
        await victim.send(password=PASSWORD)
        assert victim.tabs.session not in {planted, None}
        # The thief's session stays the thief's, beside the victim's, and the chooser says whose it is.
        caller = await postern.tenancy.callers.resolve_browser(Token(planted))
        assert caller is None or caller.email.address == "mallory@example.org"
    # Each sign-in has a new cookie and a session of its own.
    assert len(people.rows("select from browser_sessions join sessions on id = session_id where revoked_at is null")) == 3


async def test_a_cookie_that_a_neighbour_could_have_set_is_not_read(client: Client, ada: Person) -> None:
    tab = await at_home(client, ada.email)
    neighbour = Tabs(client)
    neighbour.cookies = {"postern_session": tab.tabs.cookies[SESSION], "postern_flow": tab.tabs.cookies[FLOW]}
    assert (await neighbour.tab().open("/ui/sign-in")).page.forms
    assert FLOW in neighbour.cookies


async def test_the_cookies_are_for_our_host_alone_and_for_no_script(client: Client, ada: Person) -> None:
    seen = {}
    tabs = Tabs(client)
    tab = await tabs.tab().open("/ui/sign-in")
    answers = [tab.shown]
    await tab.send(email=ada.email)
    form = tab.page.forms[0]
    answers.append(await tabs.request("POST", form.action, {**form.fields, "password": PASSWORD}))
    for answer in answers:
        for name, value in answer.headers:
            if name == "set-cookie":
                seen[value.partition("=")[0]] = value
    assert set(seen) >= {SESSION, FLOW}
    for name in (SESSION, FLOW):
        attributes = {one.strip() for one in seen[name].split(";")[1:]}
        assert attributes >= {"Path=/", "HttpOnly", "SameSite=Lax", "Secure"}
        assert not any(one.startswith("Domain") for one in attributes)


@pytest.mark.parametrize("page", PAGES)
async def test_no_page_is_framed_kept_or_told_about(page: str, client: Client) -> None:
    answer = await client.get(page)
    policy = answer.header("content-security-policy") or ""
    assert "frame-ancestors 'none'" in policy
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert answer.header("cache-control") == "no-store"
    assert answer.header("referrer-policy") == "no-referrer"


async def test_what_the_database_knows_opens_nothing(client: Client, people: People, ada: Person) -> None:
    tab = await at_home(client, ada.email)
    kept = str(people.rows("select * from browser_sessions") + people.rows("select * from flows"))
    for cookie in tab.tabs.cookies.values():
        assert cookie not in kept
        assert Token(cookie).digest().hex() not in (await tab.tabs.tab().open("/ui/sign-in")).shown.body.decode()
    assert PASSWORD not in kept


async def test_an_account_that_ends_ends_its_browsers(client: Client, postern: Postern, people: People, ada: Person) -> None:
    tab = await at_home(client, ada.email)
    cookie = Token(tab.tabs.session or "")
    assert await postern.tenancy.callers.resolve_browser(cookie) is not None
    people.change("update users set deactivated_at = now() where id = %s", ada.user)
    assert await postern.tenancy.callers.resolve_browser(cookie) is None
