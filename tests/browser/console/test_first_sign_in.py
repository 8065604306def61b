"""The first sign-in appears to somebody who has just added an application: in one browser, with a real application on loopback."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import parse_qs, urlencode, urlsplit

import pytest
import trio

from core.domain.federation.oauth.oidc import TOKEN_ENDPOINT
from core.domain.tenancy.roles import BuiltInRole
from entrypoints.bootstrap import Postern
from ops.browser.page import NARROW, WIDE, Page, tab_beside
from tests.browser.checks import require_keyboard, require_sound, tab_to
from tests.browser.test_invitation_pages import scene
from tests.http.federation.arriving import AUTHORIZE, CHALLENGE, VERIFIER
from tests.http.inviting import Inviting
from tests.http.people import BASE_URL
from tests.patience import PATIENCE
from tests.receiver import Call, Receiver, receiving
from tests.security.organizations.console import COOKIE, signed_in

__all__ = ["scene"]
APPLICATIONS: Final = "/ui/o/acme/applications"
OVER: Final = "document.querySelector('[data-look]').hidden"
# Whether the page asks in the moment in which its tab comes back, and not when it would have asked anyway.
ASKS_AT_ONCE: Final = """(() => {
  const own = globalThis.fetch
  let asked = false
  globalThis.fetch = (...all) => { asked = true; return own(...all) }
  document.dispatchEvent(new Event('visibilitychange'))
  globalThis.fetch = own
  return asked
})()"""
WAITS_AT: Final = "document.querySelector('.awaits').getBoundingClientRect().top"


@dataclass
class BoardOnLoopback:
    """An application on this machine: it sends people to Postern, and exchanges the code that they come back with."""

    scene: Inviting
    path: str = "/callback"
    """Where it has people come back to."""
    client_id: str = ""
    secret: str = ""
    port: int = 0

    @property
    def at(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def answer(self, stream: trio.abc.Stream, call: Call) -> bool:
        place = urlsplit(call.target)
        if place.path == "/":
            asked = {
                "client_id": self.client_id,
                "redirect_uri": f"{self.at}{self.path}",
                "response_type": "code",
                "scope": "openid email",
                "state": "s",
                "code_challenge": CHALLENGE,
                "code_challenge_method": "S256",
            }
            lines = ["HTTP/1.1 302 Found", f"location: {BASE_URL}{AUTHORIZE}?{urlencode(asked)}", "content-length: 0"]
            body = b""
        else:
            told = parse_qs(place.query)
            body = b"<!doctype html><html lang=en><title>Board</title><h1>Board: " + await self._greeting(told) + b"</h1>"
            lines = ["HTTP/1.1 200 OK", "content-type: text/html", f"content-length: {len(body)}"]
        await stream.send_all("\r\n".join([*lines, "", ""]).encode() + body)
        return True

    async def _greeting(self, told: dict[str, list[str]]) -> bytes:
        if "code" not in told:
            return b"nobody"
        fields = {
            "grant_type": "authorization_code",
            "code": told["code"][0],
            "redirect_uri": f"{self.at}{self.path}",
            "code_verifier": VERIFIER,
            "client_id": self.client_id,
            "client_secret": self.secret,
        }
        form = [("content-type", "application/x-www-form-urlencoded")]
        answer = await self.scene.client.request("POST", TOKEN_ENDPOINT, body=urlencode(fields).encode(), headers=form)
        return b"welcome" if "id_token" in answer.ok() else b"nobody"


@asynccontextmanager
async def board_of(scene: Inviting) -> AsyncIterator[BoardOnLoopback]:
    board = BoardOnLoopback(scene)

    async def answer(stream: trio.abc.Stream, call: Call) -> bool:
        return await board.answer(stream, call)

    receiver: Receiver
    async with receiving(answer) as receiver, trio.open_nursery() as nursery:
        # A mistake is seen once the recorder has written it.
        await nursery.start(lambda task_status: scene.postern.federation.refusal_recorder.run(task_status=task_status))
        board.port = receiver.port
        yield board
        nursery.cancel_scope.cancel()


@pytest.fixture
async def board(scene: Inviting) -> AsyncIterator[BoardOnLoopback]:
    async with board_of(scene) as made:
        yield made


async def add(page: Page, board: BoardOnLoopback) -> None:
    """Adds the application in the console, and gives it what the page shows."""
    scene = board.scene
    await page.keep_cookie(COOKIE, signed_in(scene.postern, scene.people, scene.ada))
    await page.open(f"{APPLICATIONS}/~new")
    await page.fill("Name", "Board")
    await page.click("Web application with a server")
    await page.fill("Where are people redirected after sign-in?", f"{board.at}/callback")
    await page.click("Members of the organization")
    await page.follow("Create application")
    (service,) = scene.people.rows("select client_id::text as id from services where name = 'Board'")
    board.client_id = str(service["id"])
    board.secret = str(await page.evaluate("document.getElementById('secret').innerText")).strip()


async def until(page: Page, said: str) -> None:
    """Waits as the person does: the page changes by itself, or, without scripts, when they look again."""
    with trio.fail_after(PATIENCE):
        while said not in await page.text():
            if page.scripts:
                await trio.sleep(0.1)
            else:
                await page.follow("Refresh")


async def open_board(page: Page, board: BoardOnLoopback) -> Page:
    tab = await tab_beside(page)
    await tab.open(f"{board.at}/")
    return tab


async def come_back(tab: Page, board: BoardOnLoopback) -> None:
    """Ada allows the application, which is on this machine and is asked about each time."""
    await tab.follow("Allow")
    await tab.arrived(f"{board.at}{board.path}")
    with trio.fail_after(PATIENCE):
        while "Board: welcome" not in await tab.text():
            await trio.sleep(0.05)


async def test_a_mistake_and_then_the_sign_in_appear_while_somebody_waits(page: Page, board: BoardOnLoopback) -> None:
    await add(page, board)
    assert "Waiting for the first sign-in" in await page.text()
    await require_sound(page)
    seen = len(page.documents)

    # The application comes back to somewhere else than it was registered with.
    board.path = "/elsewhere"
    tab = await open_board(page, board)
    assert tab.status == 400
    wrong = f"{board.at}/elsewhere"
    await until(page, wrong)
    if page.scripts:
        assert len(page.documents) == seen, "nobody has reloaded the page"
    await require_sound(page)
    await tab_to(page, f"Add {wrong}")
    async with page.loading():
        await page.press("Enter")
    assert board.scene.people.rows("select redirect_uris as uris from services where name = 'Board'") == [
        {"uris": [f"{board.at}/callback", wrong]}
    ]
    await require_sound(page)
    await require_keyboard(page)
    seen = len(page.documents)

    tab = await open_board(page, board)
    await come_back(tab, board)
    await until(page, f"{board.scene.ada.email} signed in")
    text = await page.text()
    assert board.scene.ada.email in text
    assert str(board.scene.ada.user) in text
    assert "Waiting for" not in text
    if page.scripts:
        assert len(page.documents) == seen, "nobody has reloaded the page"
        assert await page.evaluate(OVER), "nobody looks again for what is over"
    await page.show(width=NARROW)
    await require_sound(page)
    await require_keyboard(page)


async def test_the_page_looks_at_once_when_its_tab_comes_back(scripted_page: Page, board: BoardOnLoopback) -> None:
    await add(scripted_page, board)
    with trio.fail_after(PATIENCE):
        # It may be asking just now.
        while not await scripted_page.evaluate(ASKS_AT_ONCE):
            await trio.sleep(0.05)


@pytest.mark.parametrize(("width", "tall"), [(WIDE, 800), (NARROW, 844)])
async def test_the_wait_is_in_sight_from_the_first_second(plain_page: Page, board: BoardOnLoopback, width: int, tall: int) -> None:
    await plain_page.show(width=width)
    await add(plain_page, board)
    assert await plain_page.evaluate(WAITS_AT) < tall - 100
    assert not await plain_page.overflow()


async def test_nothing_moves_under_the_button_that_somebody_is_about_to_press(scripted_page: Page, board: BoardOnLoopback) -> None:
    page = scripted_page
    await add(page, board)
    board.path = "/elsewhere"
    await open_board(page, board)
    wrong = f"{board.at}/elsewhere"
    await until(page, wrong)
    await tab_to(page, f"Add {wrong}")

    board.path = "/callback"
    await come_back(await open_board(page, board), board)
    with trio.fail_after(PATIENCE):
        while not await page.evaluate(OVER):
            await trio.sleep(0.1)
    assert await page.focused() == f"Add {wrong}"
    assert f"{board.scene.ada.email} signed in" not in await page.text()
    # What came meanwhile is shown as soon as they leave it.
    await page.press("Tab")
    await until(page, f"{board.scene.ada.email} signed in")


async def test_an_address_on_the_web_is_text_that_nobody_adds_by_a_press(scripted_page: Page, board: BoardOnLoopback) -> None:
    """Any page on the web can send the browser that waits, with an address of its own."""
    page = scripted_page
    await add(page, board)
    tab = await tab_beside(page)
    asked = {"client_id": board.client_id, "redirect_uri": "https://evil.example/callback", "response_type": "code", "scope": "openid"}
    await tab.open(f"{AUTHORIZE}?{urlencode(asked)}")
    await until(page, "https://evil.example/callback")
    assert "if it is yours" in await page.text()
    assert not await page.evaluate("[...document.querySelectorAll('button')].some(one => one.innerText.includes('evil'))")
    await require_sound(page)


async def test_the_page_says_when_it_stops(scripted_page: Page, board: BoardOnLoopback) -> None:
    page = scripted_page
    await add(page, board)
    board.scene.people.change(
        "update awaited_sign_ins set began_at = began_at - interval '10 minutes', ends_at = ends_at - interval '10 minutes'"
    )
    await until(page, "This page stopped waiting")
    await require_sound(page)
    await tab_to(page, "Wait for 10 more minutes")
    async with page.loading():
        await page.press("Enter")
    await until(page, "Waiting for the first sign-in")
    await require_sound(page)


def _member(scene: Inviting, email: str) -> Any:
    person = scene.people.add(email)
    scene.tenants.join(person, scene.acme, BuiltInRole.MEMBER.value)
    return person


async def test_why_who_and_what_are_asked_by_keyboard_alone(plain_page: Page, scene: Inviting, postern: Postern) -> None:
    page = plain_page
    grace = _member(scene, "grace@example.org")
    board = scene.tenants.service(scene.acme, "board")
    scene.people.change("update all_services set sign_in_policy = 'assigned' where id = %s", board.id)
    await page.keep_cookie(COOKIE, signed_in(postern, scene.people, scene.ada))
    await page.open("/ui/o/acme/people/why")
    await require_sound(page)
    await tab_to(page, "Email address")
    await page.type(grace.email)
    async with page.loading():
        await page.press("Enter")
    assert f"Sign-in troubleshooter: {grace.email}" in await page.title()
    for place in ("", f"/ui/o/acme/people/users/{grace.user}/opens", f"{APPLICATIONS}/board/who"):
        if place:
            await page.open(place)
        await require_sound(page)
        await require_keyboard(page)
