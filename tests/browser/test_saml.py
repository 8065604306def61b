"""SAML in a browser: browsers send no cookies with forms of another site. Our forms lead there by script, or by a button
without scripts.
"""

from base64 import b64decode
from urllib.parse import parse_qs

import pytest

from entrypoints.bootstrap import Postern
from ops.browser.page import Page
from tests.browser.checks import require_keyboard
from tests.browser.conftest import Site
from tests.conftest import CapturedLog
from tests.http.client import Client
from tests.http.federation.providing import (
    ACS,
    SLO,
    Providing,
    asking,
    authn_request,
    in_form,
    logout_request,
    metadata,
    redirect_logout,
    slo,
    sso,
)
from tests.http.people import BASE_URL, People
from tests.http.signing_in import PASSWORD

_START = "https://crm.example.com/start"


@pytest.fixture
def provider(postern: Postern, people: People, client: Client, log: CapturedLog) -> Providing:
    return Providing(postern, people, client, log)


def _form(action: str, document: str) -> bytes:
    """On a page of the service provider's."""
    fields = "".join(f'<input type="hidden" name="{name}" value="{value}">' for name, value in in_form(document, "here").items())
    return f'<form method="post" action="{BASE_URL}{action}">{fields}<button>Go</button></form>'.encode()


async def _arrived(page: Page, site: Site, at: str, field: str) -> dict[str, list[str]]:
    """By the page's script, or by its button."""
    if not page.scripts:
        await page.click("Continue")
    await page.arrived(at)
    method, address, body = site.visits[-1].split(" ")
    assert (method, address) == ("POST", at)
    fields = parse_qs(body)
    assert fields[field]
    return fields


async def _sent(page: Page, label: str) -> None:
    """With scripts, a page that leaves by itself is left before it has loaded."""
    if page.scripts:
        await page.click(label)
    else:
        await page.follow(label)


async def test_in_by_a_form_and_out_by_another(page: Page, site: Site, provider: Providing) -> None:
    await provider.ready(slo_url=SLO)
    person = await provider.with_password("ada@example.org")
    site.forms[_START] = _form(sso(), authn_request())
    await page.open(_START)
    await page.follow("Go")
    assert "Sign in to App" in await page.text()
    await page.fill("Email address", person.email)
    async with page.loading():
        await page.click("Continue")
    await page.fill("Password", PASSWORD)
    await _sent(page, "Sign in")
    assert (await _arrived(page, site, ACS, "SAMLResponse"))["RelayState"] == ["here"]
    # The second time the person is not asked, although the browser sends no cookies with the form of another site.
    site.forms[_START] = _form(sso(), authn_request())
    await page.open(_START)
    await _sent(page, "Go")
    await _arrived(page, site, ACS, "SAMLResponse")
    (kept,) = provider.people.rows("select * from saml_sessions")
    site.forms[_START] = _form(slo(), logout_request(person.email, str(kept["id"])))
    await page.open(_START)
    await _sent(page, "Go")
    told = await _arrived(page, site, SLO, "SAMLResponse")
    assert b"UnknownPrincipal" not in b64decode(told["SAMLResponse"][0])
    assert provider.people.rows("select * from sessions where revoked_at is null and user_id = %s", person.user) == []
    await page.open(asking())
    assert "Sign in to App" in await page.text()


async def test_out_here_and_on_by_an_address(page: Page, site: Site, provider: Providing) -> None:
    """“Sign out” is a form, which may not redirect to another site."""
    await provider.ready()
    (await provider.upload(metadata(slo=redirect_logout()))).ok()
    person = await provider.with_password("ada@example.org")
    await page.open(asking())
    await page.fill("Email address", person.email)
    async with page.loading():
        await page.click("Continue")
    await page.fill("Password", PASSWORD)
    await _sent(page, "Sign in")
    await _arrived(page, site, ACS, "SAMLResponse")
    await page.open("/ui")
    await page.click("Your account: ada@example.org")
    await _sent(page, "Sign out")
    await page.arrived(SLO)
    method, _, query = site.visits[-1].partition(" ")
    assert (method, "SAMLRequest=" in query, page.violations) == ("GET", True, [])


async def test_in_by_way_of_the_question(page: Page, site: Site, provider: Providing) -> None:
    """The page asks behind a form of ours, and its own form brings the page that leaves."""
    await provider.ready()
    person = await provider.people.with_password(PASSWORD, "ada@example.org")
    await page.open(asking())
    await page.fill("Email address", person.email)
    async with page.loading():
        await page.click("Continue")
    await page.fill("Password", PASSWORD)
    await page.follow("Sign in")
    assert "Allow App to access your account?" in await page.text()
    assert {"Allow", "Deny"} <= set(await require_keyboard(page))
    await _sent(page, "Allow")
    await _arrived(page, site, ACS, "SAMLResponse")
    assert page.violations == []
    await page.open(asking())
    await _arrived(page, site, ACS, "SAMLResponse")


async def test_back_by_way_of_the_question(page: Page, site: Site, provider: Providing) -> None:
    await provider.ready()
    person = await provider.people.with_password(PASSWORD, "ada@example.org")
    await page.open(asking())
    await page.fill("Email address", person.email)
    async with page.loading():
        await page.click("Continue")
    await page.fill("Password", PASSWORD)
    await page.follow("Sign in")
    await _sent(page, "Deny")
    told = await _arrived(page, site, ACS, "SAMLResponse")
    assert b"RequestDenied" in b64decode(told["SAMLResponse"][0])


async def test_the_sign_in_works_by_keyboard(plain_page: Page, provider: Providing) -> None:
    await provider.ready()
    await plain_page.open(asking())
    assert "Continue" in await require_keyboard(plain_page)
