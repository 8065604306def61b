"""SECURITY 6: an outsider registers the address of a person at an organization. When a program opens the link in the mail to that person,
the outsider gains nothing: no membership by domain and no invitations. A proof by the address's owner does not help the outsider either.
"""

from dataclasses import field
from typing import Any

import pytest

from entrypoints.bootstrap import Postern
from tests.conftest import CapturedLog
from tests.http import conftest as http
from tests.http.browsing import Tabs
from tests.http.inviting import Inviting
from tests.http.people import BASE_URL, People
from tests.http.postbox import link_in, token_in
from tests.http.routing import route
from tests.http.signing_in import LOGIN, PASSWORD, unlimited

database_url, postern, people = http.database_url, http.postern, http.people

DOMAIN = "corp.example"
ADA = f"ada@{DOMAIN}"
OWN = "a word of the owner's own"


class Corp(Inviting):
    """Corp has a domain whose people join by signing in. Another organization has invited Ada as an administrator."""

    outsider: Tabs = field(init=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        self.outsider = Tabs(self.client)
        self.globex = self.tenants.add("globex")
        self.rival = self.resident(self.globex, "owner", "gil")
        route(self.people, self.acme, DOMAIN, provider=None, login="password_allowed", join="on")

    async def attacked(self, *, by_page: bool) -> str:
        """The outsider registers Ada's address. Returns the path of the link that Ada gets."""
        await self.invite(ADA, "admin", by=self.rival, of=self.globex)
        if by_page:
            tab = await self.outsider.tab().open("/ui/register")
            await tab.send(email=ADA, password=PASSWORD)
            assert tab.place.startswith("/ui/check-mail")
        else:
            assert (await self.client.post("/api/auth/register", {"email": ADA, "password": PASSWORD})).status == 200
        mail = next(mail for mail in await self.postbox.empty() if "Verify" in mail.subject)
        self.log.remember(token_in(link_in(mail)))
        return link_in(mail).removeprefix(BASE_URL)

    def account(self) -> dict[str, Any]:
        (row,) = self.people.rows("select id, email_verified_at, password_hash from users where email = %s", ADA)
        return row

    async def outsider_is_out(self) -> None:
        """Checks that the outsider gets in neither by the API nor on the pages."""
        assert (await self.client.post(LOGIN, {"email": ADA, "password": PASSWORD})).status == 401
        tab = await self.outsider.tab().open("/ui/sign-in")
        await tab.send(email=ADA)
        await tab.send(password=PASSWORD)
        assert (tab.status, self.outsider.session) == (400, None)


@pytest.fixture
def corp(postern: Postern, people: People, log: CapturedLog) -> Corp:
    return Corp(postern, people, unlimited(postern), log)


@pytest.mark.parametrize("by_page", [True, False])
async def test_a_scanner_of_mail_proves_nothing_and_the_owner_gets_an_account_of_their_own(corp: Corp, by_page: bool) -> None:
    link = await corp.attacked(by_page=by_page)
    # A program with a browser of its own opens every link, follows the links of the page, and sends each form that needs no input.
    scanner = Tabs(corp.client)
    for method in ("GET", "HEAD"):
        assert (await scanner.request(method, link)).status == 200
    page = (await scanner.tab().open(link)).page
    for onward in page.links:
        await scanner.tab().open(onward)
    for form in page.forms:
        assert (await scanner.request("POST", form.action, form.fields)).status == 400
    assert corp.account()["email_verified_at"] is None
    await corp.outsider_is_out()
    assert ADA not in corp.members()
    assert corp.statuses() == ["pending"]

    # Ada reads her mail. She does not know the outsider's password.
    ada = Tabs(corp.client)
    tab = await ada.tab().open(link)
    await tab.send(password="her own guess")
    assert tab.status == 400
    (choose,) = [place for place in tab.page.links if "/new-password?" in place]
    await (await tab.open(choose)).send(new_password=OWN, repeated=OWN)
    assert corp.account()["email_verified_at"] is not None
    await corp.outsider_is_out()

    # Ada gets in by her domain, and finds her invitation.
    signed_in = (await corp.client.post(LOGIN, {"email": ADA, "password": OWN})).ok(200)
    assert corp.members()[ADA] == "member"
    listed = await corp.client.get("/api/invitations", token=signed_in["access_token"])
    assert [one["role"] for one in listed.json()] == ["admin"]


async def test_the_button_of_the_browser_that_registered_is_worth_nothing_without_the_mail(corp: Corp) -> None:
    await corp.attacked(by_page=True)
    for token in ("", "x", "0198c2a0-0000-7000-8000-000000000001"):
        assert (await corp.outsider.request("POST", "/ui/verify-email", {"token": token})).status == 400
    # Asking for another mail tells them nothing either, and mails Ada.
    await corp.client.post("/api/auth/resend-verification", {"email": ADA})
    assert {mail.to for mail in await corp.postbox.empty()} == {ADA}
    assert corp.account()["email_verified_at"] is None


async def test_the_owner_says_that_it_was_not_them(corp: Corp) -> None:
    link = await corp.attacked(by_page=True)
    ada = Tabs(corp.client)
    tab = await ada.tab().open(link)
    (refuse,) = [place for place in tab.page.links if "/not-me?" in place]
    await (await tab.open(refuse)).send()
    assert corp.people.rows("select from users where email = %s", ADA) == []
    assert corp.statuses() == ["pending"]
    await corp.outsider_is_out()
