"""The way of somebody who has just installed Postern: from the first sign-in to a working sign-in of an application of their own, in a
browser, without reading anything elsewhere.
"""

import re
from typing import Final
from urllib.parse import parse_qs, urlencode, urlsplit

import pytest

from core.domain.email import Email
from core.domain.federation.oauth.metadata import TOKEN_ENDPOINT
from core.domain.secrets import Password
from entrypoints.bootstrap import Postern
from tests.browser.checks import enter, require_sound
from tests.browser.conftest import Site
from tests.browser.page import NARROW, WIDE, Page
from tests.http.client import Client
from tests.http.federation.arriving import AUTHORIZE, CALLBACK, CHALLENGE, VERIFIER
from tests.http.people import BASE_URL
from tests.http.signing_in import PASSWORD

OWNER: Final = "ada@example.org"


@pytest.mark.parametrize("width", [WIDE, NARROW])
async def test_from_the_first_sign_in_to_an_application_of_ones_own(
    width: int, plain_page: Page, site: Site, postern: Postern, client: Client
) -> None:
    page = plain_page
    assert await postern.platform.platform_owners.create_first(Email(OWNER), Password(PASSWORD)) is not None
    await page.show(width=width)

    # The owner signs in with the address that the first start has printed.
    await page.open("/ui/first-steps")
    await enter(page, {"E-mail address": OWNER})
    await enter(page, {"Password": PASSWORD})
    assert await page.place() == f"{BASE_URL}/ui/first-steps"
    await require_sound(page)

    # An organization of their own is active at once, since its founder is who would approve it. Its console says what comes next.
    await page.follow("Create an organization")
    await require_sound(page)
    await enter(page, {"Name": "Acme Metals", "Short name": "acme"})
    assert await page.place() == f"{BASE_URL}/ui/o/acme"
    assert "Begin here" in await page.text()
    await require_sound(page)

    # Their application, in three questions. The answer shows the values to copy.
    await page.follow("Connect an application")
    assert await page.place() == f"{BASE_URL}/ui/o/acme/applications/~new"
    await require_sound(page)
    await page.fill("Name", "My application")
    await page.click("A web application with a server")
    await page.fill("2. Where do people come back to? (redirect URI)", CALLBACK)
    await page.click("Members of the organization")
    await page.follow("Add the application")
    await require_sound(page)
    found = re.search(r"\(client_id\) ([0-9a-f-]{36}) ", await page.text())
    assert found is not None
    client_id = found[1]
    secret = str(await page.evaluate("document.getElementById('secret').innerText")).strip()

    # The application sends its first person, who is signed in already and allows it.
    asked = {
        "client_id": client_id,
        "redirect_uri": CALLBACK,
        "response_type": "code",
        "scope": "openid email",
        "state": "s",
        "code_challenge": CHALLENGE,
        "code_challenge_method": "S256",
    }
    await page.open(f"{AUTHORIZE}?{urlencode(asked)}")
    await page.click("Allow")
    await page.arrived(CALLBACK)
    told = parse_qs(urlsplit(site.visits[-1].partition(" ")[2]).query)
    form = urlencode(
        {
            "grant_type": "authorization_code",
            "code": told["code"][0],
            "redirect_uri": CALLBACK,
            "client_id": client_id,
            "client_secret": secret,
            "code_verifier": VERIFIER,
        }
    )
    answer = await client.request(
        "POST", TOKEN_ENDPOINT, body=form.encode(), headers=[("content-type", "application/x-www-form-urlencoded")]
    )
    userinfo = await client.get("/oauth/userinfo", token=answer.ok()["access_token"])
    assert userinfo.ok()["email"] == OWNER

    # The organization sees the sign-in.
    await page.open("/ui/o/acme")
    assert "1 application" in await page.text()
