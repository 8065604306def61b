"""The programs that the console and the guides show for Next.js, React and Vue run as they stand, and sign a person in, in Chromium. The
ordinary run does not collect this file (conftest.py). `make frameworks` installs the libraries and names it, and so does `make check-all`.
"""

import os
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import httpx
import pytest
import trio

from ops.browser.chromium import PROGRAM, Chromium, Refused
from ops.browser.page import Page, new_page
from ops.guides.tenants import PASSWORD, Tenant, tenant
from ops.starts.installed import NIGHTLY
from tests.browser.checks import enter
from tests.browser.conftest import browser_process, chromium
from tests.e2e.starts.programs import SIGN_IN, SIGN_OUT, console_of, opens, running
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
            await slow_down(page)
            await page.open("/")
            await shows(page, SIGN_IN)
            await press(page, SIGN_IN, f"{house.issuer}/ui/sign-in")
            await enter(page, {"Email address": house.ada.email})
            await enter(page, {"Password": PASSWORD})
            await page.click("Allow")
            await shows(page, f"Hello Ada Lovelace {SIGN_OUT}")
            assert await page.place() == f"{program.at}/"
            # The session is one that lasts beyond the page.
            await opens_anew(page)
            await shows(page, f"Hello Ada Lovelace {SIGN_OUT}")
            if key == "nextjs":
                # NextAuth sends no ID token along, so Postern asks.
                await press(page, SIGN_OUT, f"{house.issuer}/oauth/logout")
            await answers(page)
            await page.click(SIGN_OUT)
            await shows(page, SIGN_IN)
            # Signed out of Postern, too: who signs in again is asked who they are. “Open” in Postern begins the sign-in without a press.
            await press(page, SIGN_IN, f"{house.issuer}/ui/sign-in")
            await page.open(opens(house, program))
            await page.arrived(f"{house.issuer}/ui/sign-in")


async def slow_down(page: Page) -> None:
    """Scripts take as long as on a busy machine, so that the test meets the moments between two states of a page every time."""
    await page.chromium.ask("Emulation.setCPUThrottlingRate", page.session, rate=6)


async def press(page: Page, name: str, place: str) -> None:
    """Presses a button that leads there, once: a second press begins a second sign-in, whose cookies end the first."""
    await answers(page)
    await page.click(name)
    await page.arrived(place)


async def answers(page: Page) -> None:
    """Waits until the page has loaded and its button does something. React comes to a button that the server wrote only after a while, and
    a click before that is lost.
    """
    ready = (
        "document.readyState === 'complete' && (button => button && (!document.querySelector('script[src*=\"/_next/\"]')"
        " || Object.keys(button).some(name => name.startsWith('__reactProps'))))(document.querySelector('button'))"
    )
    with trio.fail_after(PATIENCE):
        while not await _asked(page, f"Boolean({ready})"):
            await trio.sleep(0.05)


async def opens_anew(page: Page) -> None:
    """Reloads the page, and waits until the former document is gone. Its own load may end after the reload has begun."""
    await page.evaluate("window.former = true; true")
    await page.reload()
    with trio.fail_after(PATIENCE):
        while await _asked(page, "window.former === true") is not False:
            await trio.sleep(0.05)


async def shows(page: Page, text: str) -> None:
    """Waits until the page, which scripts write, shows this and no more."""
    seen = ""
    with trio.move_on_after(PATIENCE):
        while seen != text:
            seen = " ".join(str(await _asked(page, "document.body.innerText")).split())
            await trio.sleep(0.05)
    assert seen == text, await page.place()


async def _asked(page: Page, expression: str) -> Any:
    """None between two pages, where there is no document, or one without a body."""
    with suppress(AssertionError, Refused):
        return await page.evaluate(expression)
    return None
