"""Front-channel logout (OpenID Connect Front-Channel Logout 1.0): the page that loads applications' pages in frames after a sign-out."""

import re
from html import unescape
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit
from uuid import UUID

import pytest

from core.domain.identifiers import OrganizationId, SessionId
from core.domain.identity.browser_sessions import MOST_FRAMES, FrameAddress, frames, origin_of, origins
from tests.http.browsing import Tabs
from tests.http.client import Received
from tests.http.federation.arriving import CALLBACK, VERIFIER, Arriving, told
from tests.http.people import BASE_URL, Person
from tests.http.tenants import UsedService

AFTER = "https://app.example.com/after"
FRAME = "https://app.example.com/bye"
ONWARD = "/ui/saml/sign-out?flow="
ORGANIZATION = OrganizationId(UUID(int=9))


def frames_in(answer: Received) -> list[str]:
    return [unescape(address) for address in re.findall(r'<iframe src="([^"]+)"', answer.body.decode())]


def policy_of(answer: Received) -> dict[str, str]:
    (header,) = [value for name, value in answer.headers if name == "content-security-policy"]
    return {name: sources for name, _, sources in (one.partition(" ") for one in header.split("; "))}


def refresh_of(answer: Received) -> str:
    (found,) = re.findall(r'<meta http-equiv="refresh" content="0; url=([^"]+)">', answer.body.decode())
    return unescape(found)


async def signed_in_to(scene: Arriving, browser: Tabs, person: Person, service: UsedService, back: str = CALLBACK) -> str:
    """The person signs in to the application from this browser. The session that its ID token names."""
    scene.allow(person, service)
    answer = told(await browser.request("GET", scene.asking(service, prompt="none", redirect_uri=back)), back)
    fields = {
        "grant_type": "authorization_code",
        "code": answer["code"],
        "redirect_uri": back,
        "code_verifier": VERIFIER,
        "client_id": scene.client_id(service),
    }
    got = (await browser.request("POST", "/oauth/token", fields)).ok()
    return str((await scene.postern.foundation.token_verifier.verify_issued(got["access_token"]))["sid"])


@pytest.fixture
def owner(scene: Arriving) -> Person:
    return scene.resident(scene.acme, "owner")


async def change(scene: Arriving, owner: Person, slug: str = "app", **fields: Any) -> Received:
    return await scene.request("PATCH", f"/api/organizations/acme/services/{slug}", fields, by=owner)


@pytest.fixture
async def framed(scene: Arriving, owner: Person) -> Arriving:
    (await change(scene, owner, frontchannel_logout_uri=FRAME, post_logout_redirect_uris=[AFTER])).ok()
    return scene


async def test_a_service_says_its_page(scene: Arriving, owner: Person) -> None:
    shown = (await change(scene, owner, frontchannel_logout_uri=f"{FRAME}?a=1", frontchannel_logout_session_required=True)).ok()
    assert (shown["frontchannel_logout_uri"], shown["frontchannel_logout_session_required"]) == (f"{FRAME}?a=1", True)
    (entry,) = scene.audited("service.updated")
    assert entry["details"] == {
        "service_slug": "app",
        "service_name": "App",
        "changed": ["frontchannel_logout_uri", "frontchannel_logout_session_required"],
        "old_frontchannel_logout_uri": None,
        "frontchannel_logout_uri": f"{FRAME}?a=1",
        "old_frontchannel_logout_session_required": False,
        "frontchannel_logout_session_required": True,
    }
    assert (await change(scene, owner, frontchannel_logout_uri=None)).ok()["frontchannel_logout_uri"] is None
    body = {"slug": "new", "name": "New", "service_type": "web", "redirect_uris": [CALLBACK], "frontchannel_logout_uri": FRAME}
    created = (await scene.request("POST", "/api/organizations/acme/services", body, by=owner)).ok()
    assert created["service"]["frontchannel_logout_uri"] == FRAME


@pytest.mark.parametrize(
    "address",
    [
        "javascript:alert(1)",
        "data:text/html,x",
        "https://other.example/bye",
        "https://app.example.com.evil.example/bye",
        "https://app.example.com:8443/bye",
        "http://app.example.com/bye",
        "https://ada@app.example.com/bye",
        "https://app.example.com/bye#top",
        "https://app.example.com/a b",
        "https://app.example.com/;script-src *",
        "com.example.app:/bye",
        "//app.example.com/bye",
        "",
    ],
)
async def test_no_other_page_is_framed(scene: Arriving, owner: Person, address: str) -> None:
    answer = await change(scene, owner, frontchannel_logout_uri=address)
    assert answer.status in {400, 422}, answer.body
    assert "frontchannel_logout_uri" in answer.body.decode()
    (row,) = scene.people.rows("select frontchannel_logout_uri from services where id = %s", scene.app.id)
    assert row == {"frontchannel_logout_uri": None}


async def test_the_page_stays_where_people_come_back_to(framed: Arriving, owner: Person) -> None:
    answer = await change(framed, owner, redirect_uris=["https://elsewhere.example/callback"])
    assert answer.status == 400
    assert "frontchannel_logout_uri: must have the scheme, host and port of one of the redirect URIs" in answer.body.decode()


async def test_an_application_behind_a_proxy_has_none(scene: Arriving, owner: Person) -> None:
    scene.tenants.service(scene.acme, "wiki", "proxy")
    answer = await change(scene, owner, "wiki", frontchannel_logout_uri=FRAME)
    assert answer.status == 400
    assert "behind a reverse proxy" in answer.body.decode()


async def test_an_application_that_leads_to_a_sign_out_gets_its_person_back(framed: Arriving, ada: Person) -> None:
    browser = framed.signed_in(ada)
    await signed_in_to(framed, browser, ada, framed.app)
    hint = await framed.id_token(ada)
    asked = f"/oauth/logout?{urlencode({'id_token_hint': hint, 'post_logout_redirect_uri': AFTER, 'state': 's', 'ui_locales': 'de'})}"
    answer = await browser.request("GET", asked)
    place = answer.header("location") or ""
    assert place.startswith(ONWARD)
    assert browser.session is None
    shown = await browser.request("GET", place)
    assert frames_in(shown) == [FRAME]
    assert policy_of(shown)["frame-src"] == "https://app.example.com"
    assert policy_of(shown)["frame-ancestors"] == policy_of(shown)["default-src"] == "'none'"
    assert refresh_of(shown) == f"{AFTER}?state=s"
    assert f'href="{AFTER}?state=s"' in shown.body.decode()
    assert "Sie sind abgemeldet" in shown.body.decode()
    # A frame leads this page nowhere, and learns no address of ours.
    assert 'sandbox="allow-scripts allow-same-origin" referrerpolicy="no-referrer"' in shown.body.decode()


async def test_the_page_names_the_session_where_the_application_needs_it(framed: Arriving, ada: Person) -> None:
    framed.set(framed.app, frontchannel_logout_uri=f"{FRAME}?a=1", frontchannel_logout_session_required=True)
    browser = framed.signed_in(ada)
    first = await signed_in_to(framed, browser, ada, framed.app)
    framed.people.change("delete from consents")
    second = await signed_in_to(framed, browser, ada, framed.app)
    tab = await (await browser.tab().open("/ui")).send()
    assert [parse_qs(urlsplit(one).query) for one in frames_in(tab.shown)] == [
        {"a": ["1"], "iss": [BASE_URL], "sid": [sid]} for sid in (second, first)
    ]
    assert refresh_of(tab.shown) == "/ui/signed-out"


async def test_signing_out_here_after_a_double_click(framed: Arriving, ada: Person) -> None:
    """Also from the console, whose menu has the same form."""
    browser = framed.signed_in(ada)
    await signed_in_to(framed, browser, ada, framed.app)
    await browser.request("GET", "/ui/sign-in")
    page = await browser.tab().open("/ui")
    form = next(one for one in page.page.forms if one.action == "/ui/sign-out")
    cookies = dict(browser.cookies)
    first = await browser.request("POST", "/ui/sign-out", dict(form.fields))
    browser.cookies = {**cookies, **{name: value for name, value in browser.cookies.items() if "flow" in name}}
    second = await browser.request("POST", "/ui/sign-out", dict(form.fields))
    assert first.header("location") == second.header("location")
    shown = await browser.request("GET", second.header("location") or "")
    assert frames_in(shown) == [FRAME]
    # Reloading shows the same for a moment.
    assert frames_in(await browser.request("GET", second.header("location") or "")) == [FRAME]


async def test_nobody_else_sees_the_applications(framed: Arriving, ada: Person) -> None:
    """Of another tenant, of another person and another browser there is nothing in the page, whatever the browser asks for."""
    globex = framed.tenants.add("globex")
    other = framed.application(globex, "secret-project", "https://globex.example/back")
    framed.set(other, frontchannel_logout_uri="https://globex.example/bye")
    bob, browser = framed.people.add("bob@example.org"), framed.signed_in(ada)
    await signed_in_to(framed, framed.signed_in(bob), bob, other, "https://globex.example/back")
    elsewhere = framed.signed_in(framed.people.session_of(ada))
    await signed_in_to(framed, elsewhere, ada, other, "https://globex.example/back")
    await signed_in_to(framed, browser, ada, framed.app)
    tab = await (await browser.tab().open("/ui")).send()
    assert frames_in(tab.shown) == [FRAME]
    assert "globex" not in tab.shown.body.decode()
    assert policy_of(tab.shown)["frame-src"] == "https://app.example.com"
    # The other browser's flow is not this one's.
    stolen = await (await framed.browser().tab().open(tab.place)).open(tab.place)
    assert stolen.status == 400
    assert not frames_in(stolen.shown)
    # Nobody's sign-out shows nothing.
    nobody = await framed.browser().tab().open("/oauth/logout")
    assert nobody.place == "/ui/signed-out"
    assert not frames_in(nobody.shown)


async def test_who_wants_no_frames_gets_none(scene: Arriving, ada: Person) -> None:
    browser = scene.signed_in(ada)
    await signed_in_to(scene, browser, ada, scene.app)
    tab = await (await browser.tab().open("/ui")).send()
    assert tab.place == "/ui/signed-out"
    assert not scene.people.rows("select from flows where purpose = 'saml_logout'")


@pytest.mark.parametrize("how", ["update all_organizations set status = 'suspended'", "update all_services set deleted_at = now()"])
async def test_an_organization_that_is_suspended_and_a_service_that_is_gone_hear_nothing(framed: Arriving, ada: Person, how: str) -> None:
    browser = framed.signed_in(ada)
    await signed_in_to(framed, browser, ada, framed.app)
    framed.people.change(how)
    tab = await (await browser.tab().open("/ui")).send()
    assert tab.place == "/ui/signed-out"


async def test_at_most_ten_frames(framed: Arriving, ada: Person) -> None:
    browser = framed.signed_in(ada)
    for number in range(MOST_FRAMES + 2):
        one = framed.application(framed.acme, f"app-{number}", f"https://app-{number}.example/back")
        framed.set(one, frontchannel_logout_uri=f"https://app-{number}.example/bye")
        await signed_in_to(framed, browser, ada, one, f"https://app-{number}.example/back")
    tab = await (await browser.tab().open("/ui")).send()
    shown = frames_in(tab.shown)
    assert shown == [f"https://app-{number}.example/bye" for number in reversed(range(2, MOST_FRAMES + 2))]
    assert policy_of(tab.shown)["frame-src"].split() == [f"https://app-{number}.example" for number in reversed(range(2, MOST_FRAMES + 2))]


async def test_ending_other_sessions_frames_nothing(framed: Arriving, ada: Person) -> None:
    """The applications of other browsers are signed in to in this one, too, perhaps: their frames would end these sessions."""
    browser, elsewhere = framed.signed_in(ada), framed.signed_in(framed.people.session_of(ada))
    await signed_in_to(framed, elsewhere, ada, framed.app)
    page = await browser.tab().open("/ui/sessions/end-others")
    actions = [form.action for form in page.page.forms]
    tab = await page.send(actions.index("/ui/sessions/end-others"))
    assert tab.place.startswith("/ui/sessions")
    assert not frames_in(tab.shown)


async def test_discovery_says_so(scene: Arriving) -> None:
    said = (await scene.client.get("/.well-known/openid-configuration")).ok()
    assert said["frontchannel_logout_supported"] is said["frontchannel_logout_session_supported"] is True


async def test_the_page_that_says_so_knows_that_it_was_in_part(scene: Arriving) -> None:
    answer = await scene.client.get("/ui/signed-out?partly=yes&ui_locales=fr")
    assert "Vous êtes déconnecté" in answer.body.decode()
    assert "prévenues" in answer.body.decode() or "prévenir" in answer.body.decode()


def test_addresses_of_frames() -> None:
    sessions = [SessionId(UUID(int=number)) for number in range(3)]
    plain = [FrameAddress(session, "https://a.example/x", False, ORGANIZATION) for session in sessions]
    assert frames(plain, "https://id.example") == ("https://a.example/x",)
    named = FrameAddress(sessions[1], "https://a.example", True, ORGANIZATION)
    assert frames([named], "https://id.example") == (f"https://a.example?iss=https%3A%2F%2Fid.example&sid={sessions[1]}",)


@pytest.mark.parametrize(
    ("address", "origin"),
    [
        ("https://A.example:443/x", "https://a.example"),
        ("http://localhost:80", "http://localhost"),
        ("http://localhost:8080/x", "http://localhost:8080"),
        ("https://[::1]:9/x?y", "https://[::1]:9"),
        ("com.example.app:/x", None),
        ("https://a.example;x", None),
    ],
)
def test_origins(address: str, origin: str | None) -> None:
    assert origin_of(address) == origin
    assert origins([address, address]) == (() if origin is None else (origin,))
