"""The guides of applications behind a proxy, followed in a browser at their own names: `https://wiki.example.com` through the lines of its
guide, and `https://id.example.com` through those of a proxy before the daemon. Only ports and certificates are the test's.
"""

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest
import trio

from core.domain.secrets import Password
from entrypoints.bootstrap import Postern
from entrypoints.http.server.limits import ServerSettings
from ops.browser.chromium import PROGRAM, Chromium, started
from ops.browser.page import Page, new_page, tab_beside
from ops.free_ports import free_port
from tests.browser.checks import enter
from tests.conftest import CapturedLog
from tests.http.client import Client
from tests.http.people import People
from tests.http.running_server import running
from tests.http.signing_in import PASSWORD
from tests.patience import PATIENCE
from tests.security.proxied.behind import BASE, HOST, AtGuidesNames, Base, Trusting, at_the_guides_address, before, proxy
from tests.tools import needs, place_of

pytestmark = needs("nginx", "caddy", "haproxy", "openssl")

WIKI: Final = f"https://{HOST}"
ADA: Final = "ada@acme.example"
# Each guide, and each recipe for a proxy in front of Postern. Without such a recipe, Postern itself is at the guide's address.
WALKS: Final = (
    ("nginx", ""),
    ("caddy", ""),
    ("haproxy", ""),
    ("caddy", "operations/install.md, nginx"),
    ("haproxy", "ops/machines/haproxy.cfg"),
    ("nginx", "operations/install.md, Caddy"),
    ("caddy", "ops/machines/nginx.conf"),
)


@dataclass(frozen=True)
class Found:
    """The ports where the browser finds the two names."""

    base: int
    wiki: int


@pytest.fixture(scope="module")
def found() -> Found:
    return Found(free_port(), free_port())


@pytest.fixture(scope="module")
def browser_process(found: Found, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chromium]:
    others = {HOST: f"127.0.0.1:{found.wiki}", BASE.removeprefix("https://"): f"127.0.0.1:{found.base}"}
    with started(place_of(PROGRAM), tmp_path_factory.mktemp("chromium"), examples_at="~NOTFOUND", others=others) as chromium:
        yield chromium


@pytest.fixture
async def postern(database_url: str, tmp_path: Path) -> AsyncIterator[Postern]:
    async with at_the_guides_address(database_url, tmp_path) as opened:
        yield opened


@pytest.fixture
async def wiki(postern: Postern, people: People, client: Client, log: CapturedLog) -> AtGuidesNames:
    wiki = AtGuidesNames(postern, people, client, log)
    hashed = await postern.identity.passwords.hash(Password(PASSWORD))
    people.change("update users set password_hash = %s where id = %s", hashed, wiki.ada.user)
    return wiki


@pytest.mark.parametrize(("kind", "recipe"), WALKS)
async def test_a_person_signs_in_sends_a_form_and_sends_it_again_after_the_end_of_the_session(
    kind: str, recipe: str, wiki: AtGuidesNames, found: Found, chromium: Chromium, tmp_path: Path
) -> None:
    secret = await wiki.wiki(hosts=[HOST])
    base = Base.make(tmp_path / "base", found.base)
    async with (
        _postern(wiki, recipe, base) as postern,
        proxy(kind, postern, secret, port=found.wiki) as behind,
        new_page(chromium, WIKI, scripts=True) as page,
    ):
        await _signs_in(page, behind.trusting)
        await _meets_a_refusal(page)
        await page.open("/form")
        await page.fill("Text", "A long letter")
        signed_out = await tab_beside(page)
        await signed_out.open("/.postern/sign-out")
        assert "You are signed out of this application" in await signed_out.text()
        await _is_told_that_the_form_was_not_sent(page, behind.trusting)
        await _sends_it_again(page, behind.trusting)
        assert page.violations == []


@asynccontextmanager
async def _postern(wiki: AtGuidesNames, recipe: str, base: Base) -> AsyncIterator[Base | str]:
    """Postern at the guide's address. Behind another proxy, it has an own address, too, where the application's proxy asks."""
    if recipe:
        async with running(wiki.unlimited.application) as daemon, before(recipe, base, daemon.port):
            yield f"http://127.0.0.1:{daemon.port}"
    else:
        settings = ServerSettings(certificate=base.certificates.certificate, certificate_key=base.certificates.key)
        async with running(wiki.unlimited.application, settings, address=("127.0.0.1", base.port)):
            yield base


async def _signs_in(page: Page, trusting: Trusting) -> None:
    await page.open("/page?x=1")
    went = [one.location for one in page.documents if one.location]
    assert went[0] == f"{WIKI}/.postern/sign-in?to=%2Fpage%3Fx%3D1"
    assert went[1].startswith(f"{BASE}/oauth/authorize?"), went
    assert (await page.place()).startswith(f"{BASE}/"), went
    await enter(page, {"Email address": ADA})
    await enter(page, {"Password": PASSWORD})
    await page.arrived(f"{WIKI}/page?x=1")
    assert ADA in await page.text()
    assert trusting.heard[-1].values("remote-user") == [ADA]


async def _meets_a_refusal(page: Page) -> None:
    await page.open("/admin")
    assert page.status == 403
    assert "You do not have access to this page" in await page.text()


async def _is_told_that_the_form_was_not_sent(page: Page, trusting: Trusting) -> None:
    # A program of the page gets no words.
    script = "fetch('/save', {method: 'POST', body: 'x'}).then(async one => [one.status, await one.text()])"
    assert await page.evaluate(script) == [401, ""]
    await page.follow("Save")
    assert (page.status, await page.place()) == (401, f"{WIKI}/save")
    shown = await page.text()
    assert "Your session has ended" in shown
    assert "was not sent to The Wiki" in shown
    assert "letter" not in str(await page.evaluate("document.documentElement.outerHTML"))
    # The page wears its own style, which comes through the proxy, too.
    assert await page.evaluate("document.styleSheets.length") > 0
    assert not [one for one in trusting.heard if one.line.startswith("POST")]


async def _sends_it_again(page: Page, trusting: Trusting) -> None:
    known = len(trusting.heard)
    await page.click("Sign in on a new tab")
    with trio.fail_after(PATIENCE):
        while not any(one.line.startswith("GET / ") and one.values("remote-user") == [ADA] for one in trusting.heard[known:]):
            await trio.sleep(0.02)
    await page.back()
    assert await page.place() == f"{WIKI}/form"
    assert await page.evaluate("document.querySelector('input').value") == "A long letter"
    await page.follow("Save")
    assert page.status == 200
    (sent,) = (one for one in trusting.heard if one.line.startswith("POST"))
    assert (sent.line, sent.values("remote-user"), sent.body) == ("POST /save HTTP/1.1", [ADA], b"text=A+long+letter")
