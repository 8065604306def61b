"""The programs that the console and the guides show for Next.js, React and Vue run as they stand, and sign a person in, in Chromium. The
ordinary run does not collect this file (conftest.py). `make frameworks` installs the libraries and names it, and so does `make check-all`.
"""

import os
from collections.abc import Iterator
from contextlib import suppress

import httpx
import pytest
import trio

from ops.guides.tenants import PASSWORD, Tenant, tenant
from ops.starts.installed import NIGHTLY
from tests.browser.checks import enter
from tests.browser.chromium import PROGRAM, Chromium, Refused
from tests.browser.conftest import browser_process, chromium
from tests.browser.page import Page, new_page
from tests.e2e.starts.programs import SIGN_IN, SIGN_OUT, console_of, running
from tests.patience import PATIENCE
from tests.tools import needs

__all__ = ["browser_process", "chromium"]  # fixtures
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        os.environ.get("CI") != "true" and not (NIGHTLY / "node_modules").exists(), reason="make frameworks installs the libraries, by npm"
    ),
    needs(PROGRAM),
]


@pytest.fixture(scope="module")
def house() -> Iterator[Tenant]:
    with tenant() as made:
        yield made


@pytest.fixture(scope="module")
def ada(house: Tenant) -> Iterator[httpx.Client]:
    with console_of(house) as client:
        yield client


@pytest.mark.parametrize("key", ["nextjs", "react", "vue"])
async def test_a_program_runs_as_it_stands_and_signs_a_person_in(key: str, house: Tenant, ada: httpx.Client, chromium: Chromium) -> None:
    with running(house, ada, key) as program:
        async with new_page(chromium, program.at, scripts=True) as page:
            await page.open("/")
            await shows(page, SIGN_IN)
            await press(page, SIGN_IN, f"{house.issuer}/ui/sign-in")
            await enter(page, {"E-mail address": house.ada.email})
            await enter(page, {"Password": PASSWORD})
            await page.click("Allow")
            await shows(page, f"Hello Ada Lovelace {SIGN_OUT}")
            assert await page.place() == f"{program.at}/"
            # The session is one that lasts beyond the page.
            await page.reload()
            await shows(page, f"Hello Ada Lovelace {SIGN_OUT}")
            if key == "nextjs":
                await answers(page)
            await page.click(SIGN_OUT)
            if key == "nextjs":
                # NextAuth sends no ID token along, so Postern asks.
                await page.arrived(f"{house.issuer}/oauth/logout")
                await page.click(SIGN_OUT)
            await shows(page, SIGN_IN)
            # Signed out of Postern, too: who signs in again is asked who they are.
            await press(page, SIGN_IN, f"{house.issuer}/ui/sign-in")


async def press(page: Page, name: str, place: str) -> None:
    """Presses a button that leads there, and again if the page's scripts had not come to it yet."""
    with trio.fail_after(PATIENCE):
        while not page.heard.place.startswith(place):
            # On its way to another page there is no button.
            with suppress(AssertionError, Refused):
                await page.click(name)
            with trio.move_on_after(1):
                await page.arrived(place)


async def answers(page: Page) -> None:
    """Waits until React has come to the button that the server wrote. Before that, a click is lost: a person would click again."""
    with trio.fail_after(PATIENCE):
        while not await page.evaluate("Object.keys(document.querySelector('button')).some((name) => name.startsWith('__reactProps'))"):
            await trio.sleep(0.05)


async def shows(page: Page, text: str) -> None:
    """Waits until the page, which scripts write, shows this and no more."""
    seen = ""
    with trio.move_on_after(PATIENCE):
        while seen != text:
            # Between two pages there is no document, or one without a body.
            with suppress(AssertionError, Refused):
                seen = " ".join(str(await page.evaluate("document.body.innerText")).split())
            await trio.sleep(0.05)
    assert seen == text, await page.place()
