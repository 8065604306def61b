"""Registration, from the first page to the sign-in; and the links in mails, whose pages do what the mails say."""

import pytest

from core.domain.identity.account_mails import AccountMail
from core.domain.mail import Email
from core.domain.secrets import Token
from entrypoints.bootstrap import Postern
from tests.conftest import CapturedLog
from tests.http.browsing import Tab, Tabs
from tests.http.cast import all_at_once
from tests.http.client import Client, Received
from tests.http.inviting import Inviting
from tests.http.people import BASE_URL, People, Person
from tests.http.postbox import Postbox, link_in
from tests.http.signing_in import PASSWORD, unlimited

NEW = "a fresh and lively password"


@pytest.fixture
def tabs(postern: Postern) -> Tabs:
    return Tabs(unlimited(postern))


@pytest.fixture
def postbox(postern: Postern) -> Postbox:
    return Postbox(postern)


async def follow(tabs: Tabs, link: str) -> Tab:
    """Opens a mailed link in a new tab."""
    assert link.startswith(BASE_URL)
    return await tabs.tab().open(link.removeprefix(BASE_URL))


async def whose(tabs: Tabs, postern: Postern) -> str | None:
    caller = None if tabs.session is None else await postern.tenancy.callers.resolve_browser(Token(tabs.session))
    return None if caller is None else caller.email.address


async def sign_in(tab: Tab, email: str, password: str) -> None:
    if "password" not in tab.page.inputs:
        await tab.send(email=email)
    await tab.send(password=password)


async def test_from_the_first_page_to_the_account(tabs: Tabs, postern: Postern, people: People, postbox: Postbox) -> None:
    tab = await tabs.tab().open("/ui/sign-in?to=/ui/x")
    (register,) = [link for link in tab.page.links if link.startswith("/ui/register")]
    await tab.open(register)
    assert tab.page.inputs["password"]["autocomplete"] == "new-password"
    await tab.send(email="bob@example.org", password=PASSWORD)
    assert tab.place.startswith("/ui/check-mail?flow=")
    assert "A verification link was sent to bob@example.org" in tab.page.text
    # The address must be confirmed first. A person who asks for another link gets the one that works.
    early = await tabs.tab().open(tab.page.links[-1])
    await early.send(password=PASSWORD)
    assert early.status == 400
    assert "not verified yet" in early.page.text
    await early.send(1)
    assert early.place.startswith("/ui/check-mail")
    confirmed = await follow(tabs, link_in((await postbox.empty())[-1]))
    assert people.rows("select from users where email_verified_at is not null") == []
    await confirmed.send()
    assert "Your email address is verified" in confirmed.page.text
    # Both tabs lead on: the tab that the mail opened, and the first tab.
    assert confirmed.page.links == [tab.page.links[-1]]
    await tab.open(tab.page.links[-1])
    assert tab.page.inputs["email"]["value"] == "bob@example.org"
    await tab.send(password=PASSWORD)
    assert (tab.place, await whose(tabs, postern)) == ("/ui/x", "bob@example.org")


@pytest.mark.parametrize(
    ("email", "password", "wrong", "says"),
    [
        ("bob", PASSWORD, "email", "for example name@example.org"),
        ("bob@example.org", "short", "password", "at least 8"),
        ("ada@example.org", "three wet matches", "email", "An account with this email address already exists"),
    ],
)
async def test_what_is_wrong_stands_beside_its_field(email: str, password: str, wrong: str, says: str, tabs: Tabs, people: People) -> None:
    await people.with_password(PASSWORD, "ada@example.org")
    tab = await tabs.tab().open("/ui/register")
    await tab.send(email=email, password=password)
    assert tab.status == 400
    assert tab.page.inputs[wrong]["aria-invalid"] == "true"
    assert says in tab.page.text
    assert tab.page.inputs["email"]["value"] == email
    assert "value" not in tab.page.inputs["password"]


async def test_whoever_registers_again_after_a_while_is_told_of_the_account(tabs: Tabs, people: People) -> None:
    await people.with_password(PASSWORD, "ada@example.org")
    people.change("update users set created_at = created_at - interval '1 hour'")
    tab = await tabs.tab().open("/ui/register")
    await tab.send(email="ada@example.org", password=PASSWORD)
    assert (tab.status, "An account with this email address already exists" in tab.page.text) == (400, True)
    assert len(people.rows("select from users")) == 1


async def test_two_clicks_register_once(tabs: Tabs, people: People, postern: Postern) -> None:
    """After a double click, a browser drops the first answer."""
    tab = await tabs.tab().open("/ui/register")
    form = tab.page.forms[0]
    fields = {**form.fields, "email": "bob@example.org", "password": PASSWORD}

    async def send(**other: str) -> Received:
        return await tabs.request("POST", form.action, {**fields, **other})

    first, second = await all_at_once(send, send)
    for answer in (first, second, await send()):
        assert answer.status == 303
        assert (answer.header("location") or "").startswith("/ui/check-mail?flow=")
    assert people.rows("select email from users") == [{"email": "bob@example.org"}]
    (mail,) = await Postbox(postern).empty()
    assert mail.to == "bob@example.org"
    assert (await send(password="three wet matches")).status == 400
    people.change("update users set created_at = created_at - interval '11 seconds'")
    late = await send()
    assert (late.status, b"An account with this email address already exists" in late.body) == (400, True)


async def test_the_page_and_the_mail_have_the_looks_of_the_organization(
    tabs: Tabs, people: People, postern: Postern, log: CapturedLog
) -> None:
    scene = Inviting(postern, people, tabs.client, log)
    tab = await tabs.tab().open("/ui/register?org_slug=acme")
    assert "Acme" in tab.page.text
    await tab.send(email="short", password="x")
    assert "Acme" in tab.page.text
    await tab.send(email="bob@example.org", password=PASSWORD)
    assert "Acme" in tab.page.text
    (mail,) = await scene.postbox.empty()
    assert "Acme" in mail.text
    for unknown in ("nothing", "acme%00", "%ff"):
        tab = await tabs.tab().open(f"/ui/register?org_slug={unknown}")
        assert (tab.status, "Acme" in tab.page.text) == (200, False), unknown


async def test_a_forgotten_password_is_the_same_for_every_address(tabs: Tabs, people: People, postbox: Postbox) -> None:
    await people.with_password(PASSWORD, "ada@example.org")
    seen = []
    for email in ("ada@example.org", "eve@example.org"):
        tab = await tabs.tab().open("/ui/forgot-password")
        await tab.send(email=email)
        text = tab.shown.body.replace(b"<wbr>", b"").replace(email.encode(), b"-")
        for own in ("flow", "form_token"):
            text = text.replace(tab.page.forms[0].fields[own].encode(), b"-")
        seen.append((tab.status, text))
    assert seen[0] == seen[1]
    assert [mail.to for mail in await postbox.empty()] == ["ada@example.org"]
    tab = await tabs.tab().open("/ui/forgot-password")
    await tab.send(email="nobody")
    assert (tab.status, tab.page.inputs["email"]["aria-invalid"]) == (400, "true")


async def test_from_the_password_page_the_address_is_known(tabs: Tabs) -> None:
    tab = await tabs.tab().open("/ui/sign-in")
    await tab.send(email="ada@example.org")
    (forgotten,) = [link for link in tab.page.links if link.startswith("/ui/forgot-password")]
    await tab.open(forgotten)
    assert tab.page.inputs["email"]["value"] == "ada@example.org"
    (back,) = tab.page.links
    await tab.open(back)
    (register,) = [link for link in tab.page.links if link.startswith("/ui/register")]
    await tab.open(register)
    await tab.send(password="short")
    assert tab.page.inputs["email"]["value"] == "ada@example.org"
    await tab.send(password=PASSWORD)
    assert tab.place.startswith("/ui/check-mail?flow=")


# Each kind of mail that has a link.


@pytest.mark.parametrize("kind", [AccountMail.RESET, AccountMail.SET_PASSWORD])
async def test_links_to_choose_a_password(kind: AccountMail, tabs: Tabs, postern: Postern, people: People, postbox: Postbox) -> None:
    ada = await people.with_password(PASSWORD, "ada@example.org")
    await postern.identity.accounts.ask_for_mail(kind, Email(ada.email), "")
    tab = await follow(tabs, await postbox.link())
    await tab.send(new_password=NEW, repeated=NEW)
    assert tab.place == "/ui/password-chosen"
    await tab.open(tab.page.links[0])
    await sign_in(tab, ada.email, NEW)
    assert await whose(tabs, postern) == ada.email


async def test_links_to_confirm_an_address_and_to_begin(tabs: Tabs, postern: Postern, people: People, postbox: Postbox) -> None:
    ada = await people.with_password(PASSWORD, "ada@example.org", verified=False)
    await postern.identity.accounts.ask_for_mail(AccountMail.VERIFICATION, Email(ada.email), "")
    tab = await follow(tabs, await postbox.link())
    await tab.send(password=PASSWORD)
    assert "Your email address is verified" in tab.page.text
    onward = tab.page.links[-1]
    (welcome,) = await postbox.empty()
    assert f"{BASE_URL}/ui" in welcome.text
    assert (await tabs.tab().open("/ui")).status == 200
    await tab.open(onward.removeprefix(BASE_URL))
    await sign_in(tab, ada.email, PASSWORD)
    assert await whose(tabs, postern) == ada.email


async def test_the_link_to_a_new_address(tabs: Tabs, client: Client, people: People, postbox: Postbox) -> None:
    ada: Person = people.add("ada@example.org")
    await client.request("PATCH", "/api/user", body={"email": "ada@example.com"}, token=await people.token(ada))
    mails = {mail.to: mail for mail in await postbox.empty()}
    tab = await follow(tabs, link_in(mails["ada@example.com"]))
    assert people.rows("select email from users") == [{"email": "ada@example.org"}]
    await tab.send()
    assert "new email address is verified" in tab.page.text
    assert people.rows("select email from users") == [{"email": "ada@example.com"}]


@pytest.mark.parametrize("signed_in", [False, True])
async def test_the_link_of_an_invitation(signed_in: bool, tabs: Tabs, postern: Postern, people: People, log: CapturedLog) -> None:
    scene = Inviting(postern, people, tabs.client, log)
    bob = await people.with_password(PASSWORD, "bob@example.org")
    if signed_in:
        await sign_in(await tabs.tab().open("/ui/sign-in"), bob.email, PASSWORD)
    await scene.invite()
    tab = await follow_redirected(tabs, await scene.postbox.link())
    assert "You are invited to" in tab.page.text
    await tab.send(answer="accept")
    assert scene.members()["bob@example.org"] == "member"
    if signed_in:
        assert tab.place == "/ui/organizations/acme?done=joined"
        return
    assert tab.place.startswith("/ui/invitations/accepted?token=")
    await tab.open(tab.page.links[-1])
    assert tab.place != "/ui"


async def follow_redirected(tabs: Tabs, link: str) -> Tab:
    answer = await tabs.request("GET", link.removeprefix(BASE_URL))
    return await follow(tabs, answer.header("location") or "")
