"""The way of somebody who has Caddy and an application that signs nobody in: from the first start to the first person who comes in."""

from typing import Final
from urllib.parse import urlsplit

from ops.browser.chromium import Chromium
from ops.browser.page import WIDE, new_page
from tests.browser.conftest import Site
from tests.browser.test_first_application import Walk, elsewhere, server  # noqa: F401 - fixtures
from tests.e2e.postern import Postern as Server
from tests.http.federation.proxied.behind_proxies import COOKIE, PAGE
from tests.security.proxied.behind import HOST, proxy
from tests.tools import needs

# From the organization's page: each click, each field, the copying, the reload of Caddy, and the address of the application.
MOST_ACTIONS: Final = 8

pytestmark = needs("caddy")


async def test_from_the_first_start_to_the_first_person_behind_a_proxy(
    server: Server,  # noqa: F811
    elsewhere: Site,  # noqa: F811
    chromium: Chromium,
) -> None:
    base = f"http://127.0.0.1:{server.port}"
    async with new_page(chromium, base, scripts=False) as page:
        await page.show(width=WIDE)
        await Walk(page).found_acme(server)

        walk = Walk(page)
        await walk.follow("Create application")
        await walk.act("choose what it is", page.click("Application behind a reverse proxy"))
        await walk.fill("Name", "Wiki")
        await walk.fill("At which host name do people open the application?", f"https://{HOST}/")
        await walk.follow("Create application")
        lines = str(
            await page.evaluate("[...document.querySelectorAll('pre')].find(one => one.textContent.includes('forward_auth')).textContent")
        )
        walk.actions += ["copy the lines for Caddy", "reload Caddy"]

        # Caddy runs these lines. The browser reaches its host elsewhere, so its steps there are asked one by one.
        async with proxy("caddy", base, "", lines) as caddy:
            asked = await caddy.get("/page", f"Accept: {PAGE}")
            begun = await caddy.get(asked.header("location"), f"Accept: {PAGE}")
            await walk.open("open the application", begun.header("location"))
            await page.arrived(f"https://{HOST}/.postern/return")
            back = urlsplit(elsewhere.visits[-1].partition(" ")[2])
            kept = "; ".join(f"{name}={value}" for name, value in begun.cookies.items())
            returned = await caddy.get(f"{back.path}?{back.query}", f"Accept: {PAGE}", f"Cookie: {kept}")
            assert returned.header("location") == "/page"
            answer = await caddy.get("/page", f"Cookie: {COOKIE}={returned.cookies[COOKIE]}")
    assert answer.status == 200
    assert caddy.trusting.heard[-1].values("remote-user") == ["owner@postern.local"]
    assert len(walk.actions) <= MOST_ACTIONS, "\n".join(walk.actions)
