"""Several accounts at a service provider, at a provider that is connected, and in the notices of a sign-out."""

from urllib.parse import urlencode, urlsplit

import pytest

from entrypoints.bootstrap import Postern
from ops.browser.page_reader import PageReader
from tests.conftest import CapturedLog
from tests.http.browsing import Tabs, choices
from tests.http.federation.arriving import is_page
from tests.http.federation.front_channel.test_frames import ONWARD, frames_in, refresh_of, signed_in_to
from tests.http.federation.providing import Providing, asking, authn_request, in_form, in_query, logout_request, sent, slo, sso
from tests.http.pages.accounts.conftest import SeveralAccounts, Shared
from tests.http.people import People
from tests.http.signing_in import PASSWORD, unlimited

FRAME = "https://app.example.com/bye"
CHOOSE = "/ui/choose-account?flow="


class SeveralAtServiceProvider(SeveralAccounts, Providing):
    """A browser in which several people are signed in, and a service provider."""

    async def come(self, **asked: str) -> Tabs:
        """Ada and Bob have allowed the service provider. Bob's account is in use."""
        await self.ready(**asked)
        people = [self.allow(await self.person(name)) for name in ("ada", "bob")]
        return await self.together(*people)


@pytest.fixture
def saml(postern: Postern, people: People, log: CapturedLog) -> SeveralAtServiceProvider:
    return SeveralAtServiceProvider(postern, people, unlimited(postern), log)


def named(subject: str) -> str:
    return f"<saml:Subject><saml:NameID>{subject}</saml:NameID></saml:Subject>"


async def test_a_service_provider_gets_the_account_that_is_chosen(saml: SeveralAtServiceProvider) -> None:
    tabs = await saml.come()
    tab = await saml.opened(tabs.tab(), asking())
    assert tab.place.startswith(CHOOSE)
    await tab.send(account=choices(tab)["ada@example.org"])
    assert sent(tab.shown).text(".//a:NameID") == "ada@example.org"
    # By the form of another site, which brings no cookies, it is the same.
    site = [("content-type", "application/x-www-form-urlencoded"), ("sec-fetch-site", "cross-site"), ("origin", "https://evil.example")]
    body = urlencode(in_form(authn_request())).encode()
    place = (await saml.unlimited.request("POST", sso(), body=body, headers=site)).header("location") or ""
    tab = await saml.opened(tabs.tab(), place)
    assert tab.place.startswith(CHOOSE)
    await tab.send(answer="current")
    assert sent(tab.shown).text(".//a:NameID") == "ada@example.org"
    body = urlencode(in_form(authn_request(IsPassive="true"))).encode()
    place = (await saml.unlimited.request("POST", sso(), body=body, headers=site)).header("location") or ""
    assert sent((await saml.opened(tabs.tab(), place)).shown).status == "NoPassive"


async def test_the_consent_of_one_account_is_not_asked_of_another(saml: SeveralAtServiceProvider) -> None:
    tabs = await saml.come()
    saml.people.change("delete from consents")
    tab = await saml.opened(tabs.tab(), asking(authn_request(inside=named("bob@example.org"))))
    assert "Allow App to access your account?" in tab.page.text
    place, form = tab.place, tab.page.forms[0].fields
    listed = await tabs.tab().open("/ui/accounts")
    await listed.send(account=choices(listed)["ada@example.org"])
    is_page(await tabs.request("GET", place), 409, "belongs to another account")
    is_page(await tabs.request("POST", "/ui/saml", {**form, "answer": "allow"}), 409, "belongs to another account")
    assert saml.people.rows("select from consents") == []


async def test_a_request_with_a_subject(saml: SeveralAtServiceProvider) -> None:
    tabs = await saml.come()
    got = sent(await tabs.request("GET", asking(authn_request(inside=named("Bob@example.org")))))
    assert (got.status, got.text(".//a:NameID")) == ("Success", "bob@example.org")
    tab = await saml.opened(tabs.tab(), asking(authn_request(inside=named("ada@example.org"))))
    assert tab.place.startswith(CHOOSE)
    assert tab.page.text.index("Continue as ada@") < tab.page.text.index("Continue as bob@")
    # Whoever chooses the other one is not told of.
    await tab.send(answer="current")
    assert sent(tab.shown).status == "UnknownPrincipal"


async def test_a_passive_request_and_one_that_demands_a_sign_in(saml: SeveralAtServiceProvider) -> None:
    tabs = await saml.come()
    assert sent(await tabs.request("GET", asking(authn_request(IsPassive="true")))).status == "NoPassive"
    tab = await saml.opened(tabs.tab(), asking(authn_request(ForceAuthn="true")))
    assert tab.place.startswith(CHOOSE)
    await tab.send(account=choices(tab)["ada@example.org"])
    assert tab.place.startswith("/ui/sign-in/password?flow=")
    assert tab.page.inputs["email"]["value"] == "ada@example.org"
    await tab.send(password=PASSWORD)
    assert sent(tab.shown).text(".//a:NameID") == "ada@example.org"


async def test_each_account_is_signed_out_with_its_own_notices(shared: Shared) -> None:
    """The page of one sign-out leads to the page of the next one."""
    ada, bob = await shared.person("ada"), await shared.person("bob")
    shared.set(shared.app, frontchannel_logout_uri=FRAME, frontchannel_logout_session_required=True)
    tabs = await shared.together(ada)
    of_ada = await signed_in_to(shared, tabs, ada, shared.app)
    await shared.signs_in(tabs, bob)
    # The application opened a session for each account: the hint says for which.
    shared.allow(bob)
    shared.people.change("delete from consents where user_id = %s", ada.user)
    place = (await tabs.request("GET", f"/oauth/logout?id_token_hint={await shared.id_token(ada)}")).header("location") or ""
    assert place.startswith(ONWARD)
    (frame,) = frames_in(await tabs.request("GET", place))
    assert of_ada in frame
    assert (shared.lives(ada), shared.lives(bob)) == (False, True)


async def test_the_notices_of_all_follow_each_other(shared: Shared) -> None:
    ada, bob = await shared.person("ada"), await shared.person("bob")
    shared.set(shared.app, frontchannel_logout_uri=FRAME, frontchannel_logout_session_required=True)
    ids = []
    tabs = await shared.together(ada)
    ids.append(await signed_in_to(shared, tabs, ada, shared.app))
    other = await shared.together(bob)
    ids.append(await signed_in_to(shared, other, bob, shared.app))
    # Bob signs in in Ada's browser, whose session goes on there.
    tabs.cookies["__Host-postern_accounts"] = other.cookies["__Host-postern_session"]
    token = (await tabs.tab().open("/ui/profile")).page.forms[0].fields["form_token"]
    place = (await tabs.request("POST", "/ui/sign-out/all", {"form_token": token})).header("location") or ""
    seen = []
    while place.startswith(ONWARD):
        page = await tabs.request("GET", place)
        seen += frames_in(page)
        place = refresh_of(page)
    assert len(seen) == 2
    assert all(session in frame for session, frame in zip(ids, seen, strict=True))
    assert urlsplit(place).path == "/ui/signed-out"
    assert not shared.lives(ada)
    assert not shared.lives(bob)


@pytest.mark.parametrize("by", ["redirect", "form"])
async def test_the_page_after_a_single_logout_says_that_the_others_stay(saml: SeveralAtServiceProvider, by: str) -> None:
    tabs = await saml.come()
    came = sent(await tabs.request("GET", asking(authn_request(inside=named("bob@example.org")))))
    asked = logout_request(came.text(".//a:NameID"), came.attribute(".//a:AuthnStatement", "SessionIndex"))
    if by == "redirect":
        last = await tabs.request("GET", f"{slo()}?{in_query(asked)}")
    else:
        # The form of another site brings no cookies, so the page comes with the next request.
        done = await tabs.request("POST", slo(), in_form(asked))
        assert (done.status, done.header("location")) == (303, "/ui/signed-out")
        last = await tabs.request("GET", "/ui/signed-out")
    is_page(last, 200, "Other accounts are still signed in in this browser")
    assert PageReader(last.body).links == ["/ui/accounts"]
    assert await saml.here(tabs) == ["ada@example.org"]
