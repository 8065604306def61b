"""keycloak-js as it comes, in Chromium, with the lines of the guide for those who come from Keycloak: a front end without a server of its
own signs a person in, asks who they are, refreshes its tokens and signs the person out.

npm installs it with what else is in ops/middleware/package.json; without it, there is no test.
"""

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any, Final
from urllib.parse import urlsplit

import pytest
import trio

from ops.browser.chromium import PROGRAM, Chromium, Refused
from ops.browser.page import Page, new_page
from ops.guides.pages import ROOT
from ops.guides.pages import Page as Guide
from ops.guides.tenants import PASSWORD, Tenant, tenant
from ops.middleware.installed import INSTALLED
from tests.browser.checks import enter
from tests.browser.conftest import browser_process, chromium
from tests.patience import PATIENCE
from tests.tools import needs

__all__ = ["browser_process", "chromium"]  # fixtures

GUIDE: Final = Guide("from-keycloak", ROOT / "docs" / "guides")
LIBRARY: Final = INSTALLED / "node_modules" / "keycloak-js" / "lib" / "keycloak.js"
_PAGE: Final = """<!doctype html>
<title>Front end</title>
<script type="importmap">{"imports": {"keycloak-js": "/keycloak.js"}}</script>
<script type="module" src="/front-end.js"></script>
"""
# The lines of the guide keep the object to their module. The test goes on with it, as the front end would.
_SHOWN: Final = "\nglobalThis.keycloak = keycloak;\ndocument.body.textContent = `Hello ${keycloak.idTokenParsed.name}`;\n"
pytestmark = [pytest.mark.slow, needs(PROGRAM)]


@contextmanager
def serving(files: Mapping[str, str]) -> Iterator[str]:
    """Serves these texts by their paths, and returns the address of the site."""

    class Files(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            path = urlsplit(self.path).path
            found = files.get(path)
            self.send_response(404 if found is None else 200)
            self.send_header("Content-Type", "text/javascript" if path.endswith(".js") else "text/html")
            self.end_headers()
            self.wfile.write((found or "").encode())

        def log_message(self, *_told: Any) -> None:
            """Says nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Files) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.fixture(scope="module")
def house() -> Iterator[Tenant]:
    with tenant() as made:
        yield made


@pytest.mark.skipif(not LIBRARY.exists(), reason="make .venv/ready-node installs keycloak-js, by npm")
async def test_keycloak_js_signs_a_person_in_refreshes_and_signs_out(house: Tenant, chromium: Chromium) -> None:
    files: dict[str, str] = {"/": _PAGE}
    with serving(files) as at:
        asked = {"slug": "front", "name": "Front end", "service_type": "web", "sign_in_policy": "members"}
        addresses = {"redirect_uris": [f"{at}/"], "post_logout_redirect_uris": [f"{at}/signed-out"]}
        client_id = house.ada.ask("POST", "/api/organizations/acme/services", {**asked, **addresses})["service"]["client_id"]
        lines = GUIDE.files()["front-end.js"].replace("https://id.example.com", house.issuer).replace("<OIDC_CLIENT_ID>", client_id)
        files |= {"/keycloak.js": LIBRARY.read_text(), "/front-end.js": lines + _SHOWN, "/signed-out": "<p>Signed out</p>"}
        async with new_page(chromium, at, scripts=True) as page:
            await signs_in(page, house)
            told = await page.evaluate("keycloak.loadUserInfo()")
            assert (told["sub"], told["name"]) == (house.ada.id, "Ada Lovelace")
            before, after = [
                await page.evaluate(f"{asking}.then(() => keycloak.token)") for asking in ("Promise.resolve()", "keycloak.updateToken(-1)")
            ]
            assert before != after
            assert await page.evaluate("keycloak.tokenParsed.sub") == house.ada.id
            # The next page of the front end asks Postern again, which knows the person, and asks about programs on the device each time.
            await page.open("/")
            await page.arrived(f"{house.issuer}/ui/consent")
            await page.click("Allow")
            await shows_name(page)
            await page.evaluate(f"void keycloak.logout({{ redirectUri: {at + '/signed-out'!r} }})")
            await page.arrived(f"{at}/signed-out")
            # Signed out of Postern, too.
            await page.open("/")
            await page.arrived(f"{house.issuer}/ui/sign-in")


async def signs_in(page: Page, house: Tenant) -> None:
    await page.open("/")
    await page.arrived(f"{house.issuer}/ui/sign-in")
    await enter(page, {"Email address": house.ada.email})
    await enter(page, {"Password": PASSWORD})
    await page.click("Allow")
    await shows_name(page)


async def shows_name(page: Page) -> None:
    """The front end has read the answer, which scripts do after the page has loaded."""
    shown = ""
    with trio.fail_after(PATIENCE):
        while shown != "Hello Ada Lovelace":
            assert not page.violations, page.violations
            with suppress(AssertionError, Refused):  # between two pages there is no document
                shown = str(await page.evaluate("document.body.textContent.trim()"))
            await trio.sleep(0.05)


def test_the_guide_names_the_version_that_is_tried() -> None:
    pinned = json.loads((ROOT / "ops/middleware/package.json").read_text())["dependencies"]["keycloak-js"]
    assert re.search(rf"\*\*Tested\*\* with keycloak-js {re.escape(pinned)} ", GUIDE.text)
