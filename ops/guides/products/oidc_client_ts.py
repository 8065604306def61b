"""An application in the browser with oidc-client-ts, served by Vite. Chromium signs in."""

from contextlib import suppress
from typing import Final

import trio

from ops.browser.chromium import Chromium, Refused, started
from ops.browser.page import Page, new_page
from ops.guides.products import Product
from ops.guides.tenants import PASSWORD, Person
from ops.guides.trying import Trial, chromium_program, require

_PATIENCE: Final = 60.0


def _attempt(trial: Trial) -> None:
    trial.set_up("https://board.example.org")
    print(f"oidc-client-ts {trial.node_version('oidc-client-ts')}")
    vite = trial.installed / "node_modules" / ".bin" / "vite"
    trial.start(vite, "--host", "127.0.0.1", "--port", str(trial.port), "--strictPort")
    with started(chromium_program(), trial.place / "chromium", examples_at="127.0.0.1:9") as chromium:
        trio.run(_look, trial, chromium)


async def _look(trial: Trial, process: Chromium) -> None:
    async with process.attached() as chromium:
        for person, name, word in ((trial.tenant.ada, "Ada Lovelace", "administrator"), (trial.tenant.bob, "Bob Byte", "member")):
            async with new_page(chromium, trial.at, scripts=True) as page:
                await _sign_in(page, trial, person)
                hello = f"Hello {name}, {word}, {person.id}"
                await _until(page, hello)
                require(True, f"the application shows: {hello}")
                before = await _refresh_token(page)
                await page.click("Renew")
                with trio.fail_after(_PATIENCE):
                    while await _refresh_token(page) == before:  # noqa: ASYNC110 - the page is in another process
                        await trio.sleep(0.1)
                require(True, "the library renews its tokens by the refresh token")
                await page.click("Sign out")
                # Back at the application, which begins a sign-in again, and Postern asks who comes.
                await page.arrived(f"{trial.tenant.issuer}/ui/sign-in")
                require(True, "the sign-out leads through Postern, and back")


async def _sign_in(page: Page, trial: Trial, person: Person) -> None:
    await page.open("/")
    await page.arrived(f"{trial.tenant.issuer}/ui/sign-in")
    await page.fill("E-mail address", person.email)
    await page.follow("Continue")
    await page.fill("Password", PASSWORD)
    await page.follow("Sign in")
    await page.click("Allow")


async def _refresh_token(page: Page) -> str:
    kept = "JSON.parse(sessionStorage.getItem(Object.keys(sessionStorage).find(one => one.startsWith('oidc.user:')))).refresh_token"
    return str(await page.evaluate(kept))


async def _until(page: Page, words: str) -> None:
    """Waits for words on the page, which its scripts write."""
    shown = ""
    with trio.move_on_after(_PATIENCE):
        while words not in shown:
            with suppress(AssertionError, Refused):  # between two pages there is none
                shown = str(await page.evaluate("document.body.innerText"))
            await trio.sleep(0.1)
        return
    raise SystemExit(f"NOT  {await page.place()} shows: {shown} {page.violations}")


PRODUCT = Product(name="oidc_client_ts", page="oidc-client-ts", attempt=_attempt, node=("oidc-client-ts@3.5.0", "vite@8.3.8"))
