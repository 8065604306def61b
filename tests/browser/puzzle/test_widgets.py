"""The page of a widget in a browser: the maker's script runs there, answers, and reaches nothing of ours."""

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Final
from urllib.parse import parse_qs

import pytest
import trio

from entrypoints.bootstrap import Postern
from ops.browser.page import Page
from tests.adapters.widgets.maker_server import widget_maker, with_widget
from tests.browser.checks import enter, require_keyboard, require_sound
from tests.browser.conftest import Site
from tests.browser.puzzle.test_puzzles import HERE
from tests.http.conftest import postern_on, with_keys
from tests.http.pages.test_puzzles import make_mails_busy
from tests.http.people import People
from tests.http.signing_in import PASSWORD
from tests.receiver import answering

SCRIPT: Final = "https://widget.example.net/api.js"
MAKER: Final = "https://widget.example.net"
# It answers as the maker's script does, and then tries what a script of our own origin could do elsewhere.
OF_MAKER: Final = b"""
const element = document.querySelector(".cf-turnstile");
const answer = document.createElement("input");
answer.type = "hidden";
answer.name = "cf-turnstile-response";
answer.value = `0.${element.dataset.action}.${element.dataset.cdata}`;
element.append(answer);
const shown = document.createElement("p");
shown.textContent = "You look like a person.";
element.append(shown);
window.reached = (async () => {
  const reached = {};
  reached.cookie = document.cookie;
  reached.window = window.open("/ui/sign-in") !== null;
  reached.answer = await fetch("/ui/sign-in").then(() => true, () => false);
  reached.worker = await new Promise(done => {
    try {
      const worker = new Worker("/assets/x.js");
      worker.onerror = () => done(false);
      worker.onmessage = () => done(true);
    } catch {
      done(false);
    }
  });
  reached.service = await navigator.serviceWorker.register("/assets/x.js").then(() => true, () => false);
  reached.frame = await new Promise(done => {
    const frame = document.createElement("iframe");
    frame.onload = () => done(frame.contentDocument !== null && frame.contentDocument.forms.length > 0);
    frame.src = "/ui/sign-in";
    element.append(frame);
  });
  reached.passkey = await navigator.credentials.get({
    publicKey: { challenge: new Uint8Array(32), rpId: location.hostname }
  }).then(() => "", error => error.name);
  return reached;
})();
"""


async def _verdict(stream: trio.abc.Stream, call: Any) -> bool:
    said = parse_qs(call.body.decode())["response"][0].split(".")
    told = {"success": len(said) == 3, "hostname": "id.example.org", "action": said[1], "cdata": said[-1]}
    return await answering(200, json.dumps(told).encode())(stream, call)


@pytest.fixture
async def postern(database_url: str, tmp_path: Path) -> AsyncIterator[Postern]:
    async with widget_maker() as maker, postern_on(database_url, tmp_path) as opened:
        await with_keys(opened)
        maker.says(_verdict)
        yield with_widget(opened, maker, script=SCRIPT, scripts=(MAKER,), frames=(MAKER,), connections=(MAKER,))


async def test_the_widget_stands_on_a_page_of_its_own_and_leads_back(
    scripted_page: Page, site: Site, postern: Postern, people: People
) -> None:
    page = scripted_page
    site.scripts[SCRIPT] = OF_MAKER.partition(b"window.reached")[0]
    await make_mails_busy(postern, HERE)
    await page.open("/ui/register")
    await enter(page, {"Email address": "bob@example.org", "Choose a password": PASSWORD})
    assert "Confirm that you are human" in await page.text()
    await require_sound(page)
    await require_keyboard(page)
    await page.follow("Continue")
    assert "A verification link was sent to bob@example.org" in await page.text()
    assert len(people.rows("select from users")) == 1


async def test_the_script_of_the_maker_reaches_nothing_of_ours(scripted_page: Page, site: Site, postern: Postern) -> None:
    page = scripted_page
    site.scripts[SCRIPT] = OF_MAKER
    await make_mails_busy(postern, HERE)
    await page.open("/ui/register")
    await enter(page, {"Email address": "bob@example.org", "Choose a password": PASSWORD})
    assert await page.evaluate("window.reached") == {
        "cookie": "",
        "window": False,
        "answer": False,
        "worker": False,
        "service": False,
        "frame": False,
        "passkey": "NotAllowedError",
    }
    assert PASSWORD not in await page.evaluate("document.documentElement.outerHTML")
    # Chromium says what it has kept from the script.
    assert page.violations
    page.heard.violations.clear()


async def test_without_scripts_the_page_says_how_long_to_wait(plain_page: Page, postern: Postern) -> None:
    page = plain_page
    await make_mails_busy(postern, HERE)
    await page.open("/ui/register")
    await enter(page, {"Email address": "bob@example.org", "Choose a password": PASSWORD})
    assert "wait one hour. You can then send this form once without the check." in await page.text()
    await require_sound(page)
    await require_keyboard(page)
