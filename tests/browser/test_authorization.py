"""From an application and back, in a browser: to https, to this machine, to an application's own scheme; by redirect and by form."""

from collections.abc import AsyncIterator, Mapping
from urllib.parse import parse_qs, urlencode, urlsplit

import pytest

from entrypoints.bootstrap import Postern
from entrypoints.http.server.heads import Scope
from ops.browser.chromium import Chromium
from ops.browser.page import Page, new_page
from tests.browser.checks import enter, require_keyboard, tab_to
from tests.browser.conftest import Site
from tests.conftest import CapturedLog
from tests.http.client import Client
from tests.http.federation.arriving import CALLBACK, VERIFIER, Arriving
from tests.http.people import BASE_URL, People, Person
from tests.http.running_server import Receive, RunningServer, Send, answer, application, running
from tests.http.signing_in import PASSWORD


@pytest.fixture
def scene(postern: Postern, people: People, client: Client, log: CapturedLog) -> Arriving:
    return Arriving(postern, people, client, log)


@pytest.fixture
async def ada(people: People) -> Person:
    return await people.with_password(PASSWORD, "ada@example.org")


@pytest.fixture
async def native() -> AsyncIterator[tuple[RunningServer, list[str]]]:
    """A program on the person's machine that waits for its answer."""
    asked: list[str] = []

    async def handle(scope: Scope, _receive: Receive, send: Send) -> None:
        asked.append(f"{scope['path']}?{scope['query_string'].decode()}")
        await answer(send, b"<!doctype html><title>Done</title><h1>Done</h1>", headers=[(b"content-type", b"text/html")])

    async with running(application(handle)) as server:
        yield server, asked


async def sign_in(page: Page, ada: Person) -> None:
    await enter(page, {"Email address": ada.email})
    await enter(page, {"Password": PASSWORD})


def answered(address: str) -> Mapping[str, str]:
    return {name: values[0] for name, values in parse_qs(urlsplit(address).query).items()}


async def test_to_an_application_on_the_web(page: Page, site: Site, scene: Arriving, ada: Person) -> None:
    await page.open(scene.asking())
    assert "Sign in to App" in await page.text()
    await sign_in(page, ada)
    assert await require_keyboard(page) == ["Allow", "Deny", "Use another account"]
    await tab_to(page, "Allow")
    await page.press("Enter")
    await page.arrived(CALLBACK)
    method, _, address = site.visits[-1].partition(" ")
    told = answered(address)
    assert (method, told["state"], told["iss"]) == ("GET", "a b&c", BASE_URL)
    assert scene.code(told["code"])["redeemed_at"] is None
    # The next time, the person is not asked.
    await page.open(scene.asking(state="again"))
    await page.arrived(CALLBACK)
    assert answered(site.visits[-1])["state"] == "again"


async def test_who_does_not_allow_it_goes_back(plain_page: Page, site: Site, scene: Arriving, ada: Person) -> None:
    page = plain_page
    await page.open(scene.asking())
    await sign_in(page, ada)
    await page.click("Deny")
    await page.arrived(CALLBACK)
    assert answered(site.visits[-1])["error"] == "access_denied"


async def test_by_a_form(page: Page, site: Site, scene: Arriving, ada: Person) -> None:
    await page.open(scene.asking(response_mode="form_post"))
    await sign_in(page, ada)
    if page.scripts:
        await page.click("Allow")
    else:
        # Without our script, the form that leaves waits for its button.
        await page.follow("Allow")
        await page.click("Continue")
    await page.arrived(CALLBACK)
    method, address, body = site.visits[-1].split(" ")
    assert (method, address) == ("POST", CALLBACK)
    assert parse_qs(body)["state"] == ["a b&c"]


async def test_to_a_program_on_this_machine(
    plain_page: Page, scene: Arriving, ada: Person, native: tuple[RunningServer, list[str]]
) -> None:
    page, (server, asked) = plain_page, native
    await page.open(scene.asking(scene.desktop, redirect_uri=f"http://127.0.0.1:{server.port}/callback"))
    await sign_in(page, ada)
    assert "You continue to an application on your device" in await page.text()
    await page.click("Allow")
    await page.arrived(f"http://127.0.0.1:{server.port}/callback")
    assert "code=" in asked[0]


async def test_to_an_applications_own_scheme(plain_page: Page, scene: Arriving, ada: Person) -> None:
    page = plain_page
    await page.open(scene.asking(scene.desktop, redirect_uri="com.example.app:/callback"))
    await sign_in(page, ada)
    address = await page.leave("Allow", "com.example.app:/callback")
    assert answered(address)["state"] == "a b&c"


async def test_signing_out_on_the_way_back(plain_page: Page, scene: Arriving, ada: Person) -> None:
    page = plain_page
    scene.allow(ada)
    await page.open(scene.asking())
    await sign_in(page, ada)
    await page.arrived(CALLBACK)
    await page.open(f"/oauth/logout?client_id={scene.client_id(scene.app)}")
    assert await require_keyboard(page) == ["Sign out", "Stay signed in"]
    await page.follow("Sign out")
    await page.open(scene.asking())
    assert "Sign in to App" in await page.text()


FRAME = "https://app.example.com/bye"


async def signed_in_to(page: Page, site: Site, scene: Arriving, ada: Person) -> str:
    """The person has signed in to the application, which hears of sign-outs in a frame. The address at which this browser signs out."""
    scene.set(scene.app, frontchannel_logout_uri=FRAME, post_logout_redirect_uris=[CALLBACK])
    scene.allow(ada)
    await page.open(scene.asking())
    await sign_in(page, ada)
    await page.arrived(CALLBACK)
    code = answered(site.visits[-1].partition(" ")[2])["code"]
    client = scene.client_id(scene.app)
    fields = {"grant_type": "authorization_code", "code": code, "redirect_uri": CALLBACK, "code_verifier": VERIFIER, "client_id": client}
    (await scene.browser().request("POST", "/oauth/token", fields)).ok()
    return f"/oauth/logout?{urlencode({'client_id': client, 'post_logout_redirect_uri': CALLBACK, 'state': 'out'})}"


async def test_an_application_hears_of_the_sign_out_in_a_frame(page: Page, site: Site, scene: Arriving, ada: Person) -> None:
    await page.open(await signed_in_to(page, site, scene, ada))
    await page.click("Sign out")
    await page.arrived(CALLBACK)
    assert [visit.partition("?")[0] for visit in site.visits[-2:]] == [f"GET {FRAME}", f"GET {CALLBACK}"]


async def test_a_frame_that_never_answers_stops_nobody(scripted_page: Page, site: Site, scene: Arriving, ada: Person) -> None:
    """Without scripts, the browser waits for it, and the person has a link."""
    site.silent.add(FRAME)
    await scripted_page.open(await signed_in_to(scripted_page, site, scene, ada))
    await scripted_page.click("Sign out")
    await scripted_page.arrived(CALLBACK)
    assert "state=out" in site.visits[-1]


async def test_a_frame_neither_leads_away_nor_frames_us(chromium: Chromium, site: Site, scene: Arriving, ada: Person) -> None:
    leads_away = b"<script>try { top.location = 'https://evil.example/' } catch {}</script>"
    site.forms[FRAME] = b'<iframe src="' + BASE_URL.encode() + b'/ui/sign-in"></iframe>' + leads_away
    async with new_page(chromium, BASE_URL, scripts=True) as page:
        await page.open(await signed_in_to(page, site, scene, ada))
        await page.click("Sign out")
        await page.arrived(CALLBACK)
        assert any("window is sandboxed" in violation for violation in page.violations), page.violations
        assert any("frame-ancestors" in violation for violation in page.violations), page.violations
    assert not any("evil.example" in visit for visit in site.visits)
