"""The link that signs a platform owner in, once."""

import pytest
import trio

from core.domain.errors import BadRequest, NotFound, Unauthorized
from core.domain.identity.browser_sessions import Visit
from core.domain.identity.callers import Caller
from core.domain.identity.devices import Client
from core.domain.identity.flows import FlowPurpose, SignInRequirements
from core.domain.mail import Email
from core.domain.secrets import Password, Token
from entrypoints.bootstrap import Postern
from tests.conftest import CapturedLog
from tests.http.browsing import Tabs
from tests.http.people import BASE_URL, People, Person
from tests.http.postbox import token_in
from tests.http.signing_in import PASSWORD, enable_mfa, unlimited
from tests.meanwhile import meanwhile

PAGE = "/ui/sign-in/link"


@pytest.fixture
def tabs(postern: Postern) -> Tabs:
    return Tabs(unlimited(postern))


@pytest.fixture
async def ada(people: People) -> Person:
    ada = await people.with_password(PASSWORD, "ada@example.org")
    people.change("update users set is_platform_owner = true")
    return ada


async def made(postern: Postern, log: CapturedLog, email: str = "ada@example.org") -> str:
    link = (await postern.identity.sign_in_links.issue(Email(email), "root")).reveal()
    log.remember(token_in(link))
    return link.removeprefix(BASE_URL)


async def test_it_signs_in_by_its_button_and_only_once(tabs: Tabs, postern: Postern, people: People, ada: Person, log: CapturedLog) -> None:
    link = await made(postern, log)
    # To look at the page does not use the link up.
    tab = await (await tabs.tab().open(link)).open(link)
    assert (tab.status, tabs.session) == (200, None)
    assert f"Sign in as {ada.email}" in tab.page.text
    form = tab.page.forms[0]
    await tab.send()
    assert tab.place == "/ui/first-steps"
    caller = await postern.tenancy.callers.resolve_browser(Token(tabs.session or ""))
    assert caller is not None
    assert (caller.user, caller.authentication_methods) == (ada.user, ("link",))
    # A double click.
    kept = tabs.cookies.pop("__Host-postern_session")
    assert (await tabs.request("POST", form.action, form.fields)).status == 303
    assert tabs.session == kept
    # The link is opened once more.
    used = await Tabs(tabs.client).tab().open(link)
    assert used.status == 400
    assert "was already used" in used.page.text
    assert "postern owner link" in used.page.text
    assert [row["action"] for row in people.rows("select action from audit_log order by created_at")] == [
        "security.sign_in_link.created",
        "security.sign_in_link.used",
    ]
    assert people.rows("select provider, success from login_events") == [{"provider": "link", "success": True}]


async def test_of_fifty_at_once_one_wins(postern: Postern, people: People, ada: Person, log: CapturedLog) -> None:
    link = await made(postern, log)
    client = unlimited(postern)
    browsers = [Tabs(client) for _ in range(50)]
    tabs = [await browser.tab().open(link) for browser in browsers]
    async with trio.open_nursery() as nursery:
        for tab in tabs:
            nursery.start_soon(tab.send)
    assert sorted(tab.status for tab in tabs) == [200] + [400] * 49
    (winner,) = [browser.session for browser in browsers if browser.session]
    caller = await postern.tenancy.callers.resolve_browser(Token(winner))
    assert caller is not None
    assert caller.user == ada.user
    assert len(people.rows("select from sessions")) == 1


async def test_a_second_factor_is_asked_for_also_on_a_trusted_device(
    tabs: Tabs, postern: Postern, people: People, ada: Person, log: CapturedLog
) -> None:
    totp = await enable_mfa(tabs.client, people, ada)
    for trust in ({"trust_device": "yes"}, {}):
        link = await made(postern, log)
        tab = await tabs.tab().open(link)
        form = tab.page.forms[0]
        await tab.send()
        assert tab.place.startswith("/ui/sign-in/second-factor")
        again = await tabs.request("POST", form.action, form.fields)
        assert (again.header("location") or "").startswith("/ui/sign-in/second-factor")
        assert "__Host-postern_session" not in tabs.cookies
        people.change("update mfa_secrets set last_step = last_step - 120")
        await tab.send(code=totp.now(), **trust)
        assert tab.place == "/ui/first-steps"
        del tabs.cookies["__Host-postern_session"]


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ("update mailed_tokens set expires_at = now()", "expired"),
        ("update mailed_tokens set used_at = now()", "used"),
        ("update users set email = 'x@example.org', email_key = 'x@example.org'", "not valid"),
        ("delete from mailed_tokens", "not valid"),
    ],
)
async def test_one_that_is_over_says_so(
    change: str, says: str, tabs: Tabs, postern: Postern, people: People, ada: Person, log: CapturedLog
) -> None:
    tab = await tabs.tab().open(await made(postern, log))
    people.change(change)
    await tab.send()
    assert (tab.status, tabs.session) == (400, None)
    assert says in tab.page.text
    assert ada.email not in tab.page.text


async def test_one_that_somebody_uses_meanwhile_signs_nobody_in(
    tabs: Tabs, postern: Postern, people: People, ada: Person, log: CapturedLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    tab = await tabs.tab().open(await made(postern, log, ada.email))
    use = "update mailed_tokens set used_at = now()"
    meanwhile(monkeypatch, postern.identity.sign_in_links.attempts, "find", lambda: people.change(use))
    await tab.send()
    assert (tab.status, tabs.session) == (400, None)
    assert "was already used" in tab.page.text
    assert people.rows("select from sessions") == people.rows("select from login_events where success") == []


@pytest.mark.parametrize("change", ["deactivated_at = now()", "password_changed_at = now() + interval '1 minute'"])
async def test_an_account_that_has_changed_since_is_not_signed_in(
    change: str, tabs: Tabs, postern: Postern, people: People, ada: Person, log: CapturedLog
) -> None:
    tab = await tabs.tab().open(await made(postern, log))
    people.change("update users set " + change + " where id = %s", ada.user)
    await tab.send()
    assert (tab.status, tabs.session) == (400, None)
    assert people.rows("select used_at from mailed_tokens") == [{"used_at": None}]


async def test_a_new_one_takes_the_place_of_the_last(tabs: Tabs, postern: Postern, ada: Person, log: CapturedLog) -> None:
    first, second = await made(postern, log, ada.email), await made(postern, log, ada.email)
    assert (await tabs.tab().open(first)).status == 400
    assert (await tabs.tab().open(second)).status == 200


async def test_it_is_for_platform_owners(postern: Postern, people: People, ada: Person, log: CapturedLog) -> None:
    with pytest.raises(NotFound):
        await made(postern, log, "nobody@example.org")
    people.add("bob@example.org")
    with pytest.raises(BadRequest, match="not a platform owner"):
        await made(postern, log, "bob@example.org")
    people.change("update users set deactivated_at = now() where id = %s", ada.user)
    with pytest.raises(BadRequest, match="deactivated"):
        await made(postern, log)
    assert people.rows("select from mailed_tokens") == []


async def test_a_second_factor_that_comes_to_be_meanwhile_is_owed(postern: Postern, people: People, ada: Person, log: CapturedLog) -> None:
    link = Token(token_in(await made(postern, log)))
    browser, client = postern.foundation.secrets.token(), Client(None, "")
    flow = await postern.identity.flows.begin(browser, FlowPurpose.ACCOUNT, {}, SignInRequirements())
    arrival = await postern.identity.sign_in_links.make(link, client)
    await enable_mfa(unlimited(postern), people, ada)
    with pytest.raises(Unauthorized):
        await postern.identity.browser_sessions.sign_in_with_proof(Visit(flow, browser, client, None), link, arrival)
    assert people.rows("select from mailed_tokens where used_at is null") != []


async def test_whoever_guesses_at_the_password_does_not_lock_the_link_out(
    tabs: Tabs, postern: Postern, ada: Person, log: CapturedLog
) -> None:
    tab = await tabs.tab().open("/ui/sign-in")
    await tab.send(email=ada.email)
    for _ in range(11):
        await tab.send(password="guess")
        if tab.status == 429:
            break
    assert tab.status == 429
    opened = await Tabs(tabs.client).tab().open(await made(postern, log))
    await opened.send()
    assert opened.place == "/ui/first-steps"


async def test_a_session_that_ends_during_the_sign_in_is_not_gone_on_with(postern: Postern, people: People, ada: Person) -> None:
    browser, client = postern.foundation.secrets.token(), Client(None, "")

    async def sign_in(current: Caller | None) -> Caller | None:
        flow = await postern.identity.flows.begin(browser, FlowPurpose.ACCOUNT, {}, SignInRequirements())
        entered = await postern.identity.browser_sessions.sign_in_with_password(
            Visit(flow, browser, client, current), Email(ada.email), Password(PASSWORD)
        )
        assert entered is not None
        return await postern.tenancy.callers.resolve_browser(entered.token)

    first = await sign_in(None)
    assert first is not None
    people.change("update sessions set revoked_at = now()")
    second = await sign_in(first)
    assert second is not None
    assert second.session != first.session
