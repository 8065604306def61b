"""Bound sessions in a browser that makes keys: the whole Chromium, with keys in software in place of a TPM. Its shell without windows, in
which all other pages are tried, has no part for them.
"""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import trio

from entrypoints.bootstrap import Postern
from ops.browser import chromium as browsers
from ops.browser.page import Page, new_page
from tests.browser.checks import enter
from tests.browser.conftest import ADDRESS, Site
from tests.http import conftest as http
from tests.http.people import BASE_URL, People
from tests.http.signing_in import PASSWORD
from tests.patience import PATIENCE
from tests.tools import place_of

BOUND = "__Host-postern_bound"
APPLICATION = "https://application.example/page"
_FEATURES = "--enable-features=DeviceBoundSessions,EnableBoundSessionCredentialsSoftwareKeysForManualTesting"


@pytest.fixture
async def postern(database_url: str, tmp_path: Path) -> AsyncIterator[Postern]:
    async with http.postern_on(database_url, tmp_path, {"POSTERN_BOUND_SESSIONS": "offer"}) as opened:
        await http.with_keys(opened)
        yield opened


@pytest.fixture
async def binding_page(site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Page]:  # noqa: ARG001 - it must run
    program = place_of("chromium")
    monkeypatch.setattr(browsers, "_FLAGS", (*browsers._FLAGS, _FEATURES))
    with browsers.started(program, tmp_path / "chromium", examples_at=f"{ADDRESS[0]}:{ADDRESS[1]}") as process:
        async with process.attached() as chromium, new_page(chromium, BASE_URL, scripts=True) as page:
            yield page


class AnsweredPaths:
    """What the browser asks for: each answer to a path, in turn."""

    def __init__(self, site: Site) -> None:
        self.answers: list[tuple[str, int]] = []
        self._application, site.application = site.application, self

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        async def tell(message: Any) -> None:
            if message["type"] == "http.response.start":
                self.answers.append((scope["path"], message["status"]))
            await send(message)

        await self._application(scope, receive, tell)

    async def until(self, path: str, status: int) -> list[int]:
        """Waits for this answer. Returns the statuses of all renewals until then, and forgets them."""
        with trio.fail_after(PATIENCE):
            while (path, status) not in self.answers:
                await trio.sleep(0.02)
        renewals = [given for asked, given in self.answers if asked == "/bound-session/renew"]
        self.answers.clear()
        return renewals


async def test_chromium_binds_its_session_renews_it_and_ends_it(site: Site, people: People, binding_page: Page) -> None:
    page, asked = binding_page, AnsweredPaths(site)
    ada = await people.with_password(PASSWORD, "ada@example.org")
    await page.open("/ui/sign-in")
    await enter(page, {"Email address": ada.email})
    await enter(page, {"Password": PASSWORD})
    await asked.until("/bound-session", 200)
    assert len(people.rows("select from browser_sessions where bound_to is not null")) == 1
    # Nobody types anything: neither on our page, nor on the way from an application of another site, whose first visit this is.
    await _lose_cookie(page)
    await page.open("/ui/sessions")
    assert await asked.until("/ui/sessions", 200) == [403, 200]
    assert "Bound to this device" in await page.text()
    await page.open(APPLICATION)
    await _lose_cookie(page)
    async with page.loading():
        await page.evaluate(f"void (location.href = '{BASE_URL}/ui/profile')")
    assert await asked.until("/ui/profile", 200) == [403, 200]
    await page.evaluate("void [...document.forms].find(form => form.action.includes('/ui/sign-out')).submit()")
    # The browser hears that nothing is bound to its key any more.
    assert await asked.until("/ui/signed-out", 200) == [200]
    await page.open("/ui/sign-in")
    assert await asked.until("/ui/sign-in", 200) == []


async def _lose_cookie(page: Page) -> None:
    """As if its ten minutes were over."""
    await page.chromium.ask("Network.deleteCookies", page.session, name=BOUND, url=BASE_URL)
