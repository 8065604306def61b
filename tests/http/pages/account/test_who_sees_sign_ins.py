"""What an organization's log of sign-ins says about people who came by one of its applications, from the application's request on."""

import pytest

from core.domain.identifiers import OrganizationId
from entrypoints.bootstrap import Postern
from tests.authenticator import Passkey
from tests.conftest import CapturedLog
from tests.http.browsing import Tab, Tabs
from tests.http.client import Client
from tests.http.federation.arriving import CALLBACK, SESSION_COOKIE, VERIFIER, Arriving, left, told
from tests.http.pages.test_passkey_pages import passkey_of, use
from tests.http.people import People, Person
from tests.http.postbox import Postbox, code_in, link_in, token_in
from tests.http.signing_in import PASSWORD, enable_mfa

_ADA = "ada@example.org"


class Seen(Arriving):
    """Acme's log, as its owner reads it."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.owner = self.tenants.join(self.people.add("owner@acme.example"), self.acme, "owner")

    async def member(self, *, listed: bool = False) -> Person:
        return self.tenants.join(await self.people.with_password(PASSWORD, _ADA), self.acme, listed=listed)

    async def log_of(self, query: str = "") -> list[tuple[str, str, str | None]]:
        """The log, oldest first: the application, the way and the reason why somebody did not get in."""
        token = await self.people.token(self.people.session_of(self.owner))
        listed = (await self.unlimited.get(f"/api/organizations/acme/sign-ins{query}", token=token)).ok()["sign_ins"]
        return [(one["service_slug"], one["provider"], one["failure"]) for one in reversed(listed)]

    async def redeem(self, code: str) -> None:
        form = {"grant_type": "authorization_code", "redirect_uri": CALLBACK, "code_verifier": VERIFIER, "code": code}
        (await self.unlimited.post("/auth/token", {**form, "client_id": self.client_id(self.app)})).ok()


@pytest.fixture
def seen(postern: Postern, people: People, client: Client, log: CapturedLog) -> Seen:
    return Seen(postern, people, client, log)


async def _to_password(tabs: Tabs, address: str) -> Tab:
    return await (await tabs.tab().open(address)).send(email=_ADA)


async def test_a_members_attempts_are_seen_with_their_way_and_each_sign_in_once(seen: Seen) -> None:
    await seen.member()
    browser = seen.browser()
    tab = await _to_password(browser, seen.asking())
    for _ in range(4):
        tab = await tab.send(password="a wrong password")
        assert tab.status == 400
    tab = await (await tab.send(password=PASSWORD)).send(answer="allow")
    await seen.redeem(left(tab)["code"])
    wrong = [("app", "password", "wrong_password")] * 4
    assert await seen.log_of() == [*wrong, ("app", "password", None)]
    assert await seen.log_of("?success=false") == wrong
    # A sign-in that rests on the session is another.
    await seen.redeem(told(await browser.request("GET", seen.asking()))["code"])
    assert (await seen.log_of())[5:] == [("app", "session", None)]
    token = await seen.people.token(seen.people.session_of(seen.owner))
    counted = (await seen.unlimited.get("/api/organizations/acme/analytics/logins-by-provider", token=token)).json()
    assert {one["provider"]: one["count"] for one in counted} == {"password": 1, "session": 1}


async def test_the_pages_say_the_ways_in_words_and_count_what_failed(seen: Seen) -> None:
    await seen.member()
    tab = await _to_password(seen.browser(), seen.asking())
    await (await tab.send(password="a wrong password")).send(password=PASSWORD)
    tabs = seen.signed_in(seen.people.session_of(seen.owner))
    page = (await tabs.tab().open("/ui/o/acme/sign-ins")).page.text
    for said in ("Password", "Wrong password", "Signed in"):
        assert said in page, said
    # It stands in the list of ways to choose from, and nowhere else.
    assert page.count("Existing session") == 1
    failed = await seen.postern.platform.analytics.failures(OrganizationId(seen.acme.id))
    assert [one.logins for one in failed.days] == [1]
    assert "Failed sign-ins" in (await tabs.tab().open("/ui/o/acme")).page.text


async def test_one_who_signs_in_for_the_first_time_is_seen_once_the_application_has_its_answer(seen: Seen) -> None:
    await seen.people.with_password(PASSWORD, _ADA)
    tab = await _to_password(seen.browser(), seen.asking())
    tab = await (await tab.send(password="a wrong password")).send(password=PASSWORD)
    assert await seen.log_of() == []
    await seen.redeem(left(await tab.send(answer="allow"))["code"])
    assert await seen.log_of() == [("app", "password", None)]
    # From now on the person is known here.
    tab = await _to_password(seen.browser(), seen.asking())
    await seen.redeem(left(await (await tab.send(password="a wrong password")).send(password=PASSWORD))["code"])
    assert (await seen.log_of())[1:] == [("app", "password", "wrong_password"), ("app", "password", None)]


async def test_each_factor_and_each_way_names_the_application(seen: Seen) -> None:
    ada = await seen.member()
    passkey = await passkey_of(seen.unlimited, seen.people, ada)
    await use(await seen.browser().tab().open(seen.asking()), passkey, challenge="d3Jvbmc")
    tab = await seen.browser().tab().open(seen.asking())
    damaged = Passkey.made()
    damaged.credential_id, damaged.user_handle = passkey.credential_id, passkey.user_handle
    assert (await use(tab, damaged)).status == 400
    await use(await seen.browser().tab().open(seen.asking()), passkey)
    assert await seen.log_of() == [("app", "passkey", "wrong_passkey"), ("app", "passkey", None)]
    totp = await enable_mfa(seen.unlimited, seen.people, ada)
    tab = await (await _to_password(seen.browser(), seen.asking())).send(password=PASSWORD)
    tab = await tab.send(code="000000" if totp.now() != "000000" else "000001")
    assert tab.status == 400
    await tab.send(code=totp.now())
    assert (await seen.log_of())[2:] == [("app", "password", "wrong_code"), ("app", "password", None)]


async def test_a_mailed_code_names_the_application(seen: Seen, postern: Postern, log: CapturedLog) -> None:
    await seen.member()
    tab = await _to_password(seen.browser(), seen.asking())
    tab = await tab.send([form.action for form in tab.page.forms].index("/ui/sign-in/mail-link"))
    (mail,) = await Postbox(postern).empty()
    log.remember(token_in(link_in(mail)), code_in(mail))
    code = code_in(mail)
    tab = await tab.send(code=f"{(int(code) + 1) % 10**8:08}")
    await tab.send(code=code)
    assert await seen.log_of() == [("app", "link", "wrong_code"), ("app", "link", None)]


@pytest.mark.parametrize(("policy", "reason"), [("members", "not_member"), ("assigned", "no_role")])
async def test_a_refused_visit_is_a_kind_of_its_own_in_the_log_of_whom_the_organization_knows(seen: Seen, policy: str, reason: str) -> None:
    ada = seen.people.add(_ADA)
    seen.tenants.uses(ada, seen.app)
    seen.people.change("update service_users set own_since = now()")
    seen.set(seen.app, sign_in_policy=policy)
    tab = await seen.signed_in(ada).tab().open(seen.asking())
    assert tab.status == 403
    assert await seen.log_of() == [("app", "session", reason)]
    # Whoever looks again was refused once, and a silent request leaves nothing.
    await tab.open(tab.place)
    await seen.signed_in(seen.people.session_of(ada)).request("GET", seen.asking(prompt="none"))
    assert len(await seen.log_of()) == 1
    # It is no failed sign-in for webhooks and figures.
    assert seen.people.rows("select from events where name like 'user.login%%'") == []
    tabs = seen.signed_in(seen.people.session_of(seen.owner))
    assert "Denied: " in (await tabs.tab().open("/ui/o/acme/sign-ins")).page.text
    assert "Denied: " in (await seen.signed_in(seen.people.session_of(ada)).tab().open("/ui/sign-ins")).page.text
    figures = await seen.postern.platform.analytics.failures(OrganizationId(seen.acme.id))
    assert figures.days == []


async def test_somebody_else_in_the_browser_is_not_the_one_of_the_flow(seen: Seen) -> None:
    """The flow belongs to the account that signed in by it, so nobody else gets a code of it."""
    await seen.member()
    bob = seen.people.add("bob@example.org")
    seen.allow(bob)
    tab = await (await _to_password(seen.browser(), seen.asking())).send(password=PASSWORD)
    tab.tabs.cookies[SESSION_COOKIE] = seen.signed_in(seen.people.session_of(bob)).cookies[SESSION_COOKIE]
    tab = await tab.open(tab.place)
    assert tab.status == 409
    assert await seen.log_of() == [("app", "password", None)]
