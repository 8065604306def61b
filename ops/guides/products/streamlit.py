"""A Streamlit application. It is a program in the browser, so Chromium signs in."""

from collections.abc import Callable
from contextlib import suppress

import trio

from ops.browser.chromium import Chromium, Refused, started
from ops.browser.page import Page, new_page
from ops.guides.products import Product
from ops.guides.tenants import PASSWORD, Person
from ops.guides.trying import Trial, chromium_program, require

_PATIENCE = 60.0


def _attempt(trial: Trial) -> None:
    trial.set_up("https://board.example.org")
    print(f"Streamlit {trial.version('streamlit')}")
    address = ("--server.address", "127.0.0.1", "--server.port", str(trial.port), "--server.headless", "true")
    trial.start(trial.program("streamlit"), "run", "app.py", *address, ready="/_stcore/health")
    with started(chromium_program(), trial.place / "chromium", examples_at="127.0.0.1:9") as chromium:
        trio.run(_look, trial, chromium)


async def _look(trial: Trial, process: Chromium) -> None:
    async with process.attached() as chromium:
        for person, name, is_admin in ((trial.tenant.ada, "Ada Lovelace", True), (trial.tenant.bob, "Bob Byte", False)):
            async with new_page(chromium, trial.at, scripts=True) as page:
                await _sign_in(page, trial, person)
                # The page comes in parts, and the button may come last.
                shown = await _until(page, lambda text: "Your data is kept" in text and "Sign out" in text)
                require(f"Hello, {name}" in shown, f"the application says hello to {name}")
                require(person.id in shown, f"the data of {person.email} is kept under the sub of the person")
                require(("what administrators see" in shown) is is_admin, f"{person.email} is {'an' if is_admin else 'no'} administrator")
                await _press(page, "Sign out")
                await _until(page, lambda text: "Sign in with Postern" in text)
                require(True, "the sign-out leads through Postern, and back")


async def _sign_in(page: Page, trial: Trial, person: Person) -> None:
    await page.open("/")
    await _until(page, lambda text: "Sign in with Postern" in text)
    await _press(page, "Sign in with Postern")
    await page.arrived(trial.tenant.issuer)
    await page.fill("E-mail address", person.email)
    await page.follow("Continue")
    await page.fill("Password", PASSWORD)
    await page.follow("Sign in")
    await page.follow("Allow")


async def _press(page: Page, name: str) -> None:
    """Streamlit gives a button and a part of it the same name."""
    await page.evaluate(f"[...document.querySelectorAll('button')].find(one => one.innerText.trim() === {name!r}).click()")


async def _until(page: Page, condition: Callable[[str], bool]) -> str:
    """Waits for words on the page, which comes in parts."""
    with trio.move_on_after(_PATIENCE):
        while not condition(shown := await _shown(page)):  # noqa: ASYNC110 - the page is in another process
            await trio.sleep(0.2)
        return shown
    raise SystemExit(f"NOT  {await page.place()} shows: {await _shown(page)}")


async def _shown(page: Page) -> str:
    """Empty between two pages."""
    with suppress(Refused):
        return " ".join(str(await page.evaluate("document.body?.innerText ?? ''")).split())
    return ""


PRODUCT = Product(name="streamlit", page="streamlit", attempt=_attempt, python=("streamlit[auth]",))
