"""docs/guides/running/move-passkeys.md in Chromium: a passkey from the old host signs in on the new one, and one is added there."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import pytest
import trio

from core.domain.identity.passkeys import RELATED_ORIGINS, RelyingParty
from core.frozen import replace
from entrypoints.bootstrap import Postern
from entrypoints.http.application import build_application
from entrypoints.http.server.heads import Scope
from entrypoints.http.server.limits import ServerSettings
from ops.browser.chromium import Chromium
from ops.browser.page import Page, new_page
from tests.browser.checks import enter, require_sound
from tests.browser.conftest import ADDRESS, Site
from tests.browser.test_passkeys import SIGN_IN, Authenticator, made, only_by_button, said, scripted, signed_out
from tests.changed_fields import put
from tests.http.conftest import SETTINGS, postern_on, with_keys
from tests.http.pages.account.conftest import COOKIE, AccountPagesScene, home
from tests.http.people import BASE_URL
from tests.http.running_server import Certificate, Receive, Send, running
from tests.http.signing_in import PASSWORD

__all__ = ["home"]  # a fixture

OLD: Final = "https://id.old.example"
WITHOUT_RELATED: Final = """
    if (window.PublicKeyCredential) {
        PublicKeyCredential.getClientCapabilities = async () => ({ relatedOrigins: false, conditionalCreate: true });
        PublicKeyCredential.isConditionalMediationAvailable = undefined;
    }
"""
"""What an older browser says."""


class TwoHosts(Site):
    """The old host, which leads everything but one path to the new one, and the new host."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        host = dict(scope.get("headers", ())).get(b"host", b"").decode()
        if host == urlsplit(OLD).netloc and scope["path"] == RELATED_ORIGINS:
            self.visits.append(f"{scope['method']} {OLD}{scope['path']}")
            await self.application(scope, receive, send)
        else:
            await super().__call__(scope, receive, send)


@pytest.fixture
async def postern(database_url: str, tmp_path: Path) -> AsyncIterator[Postern]:
    async with postern_on(database_url, tmp_path, {"POSTERN_PASSKEY_ID": urlsplit(OLD).netloc}) as opened:
        await with_keys(opened)
        yield opened


@pytest.fixture
async def site(postern: Postern, certificate: Certificate) -> AsyncIterator[TwoHosts]:
    site = TwoHosts(build_application(postern, SETTINGS))
    settings = ServerSettings(certificate=certificate.certificate, certificate_key=certificate.key)
    async with running(site, settings, address=ADDRESS):
        yield site


@pytest.fixture
async def page(site: TwoHosts, chromium: Chromium, home: AccountPagesScene) -> AsyncIterator[Page]:  # noqa: ARG001 - it must run
    async with new_page(chromium, BASE_URL, scripts=True) as opened:
        await opened.keep_cookie(COOKIE, home.tabs.cookies[COOKIE])
        yield opened
        assert opened.violations == []


async def test_a_passkey_of_the_old_host_signs_in_on_the_new_one(page: Page, site: TwoHosts, home: AccountPagesScene) -> None:
    await only_by_button(page)
    authenticator = await Authenticator.added(page)
    # It is made here and belongs there, so it is the same as one that was made there before.
    await made(page)
    assert f"GET {OLD}{RELATED_ORIGINS}" in site.visits
    (kept,) = await authenticator.passkeys()
    assert kept["rpId"] == urlsplit(OLD).netloc
    await signed_out(page)
    await page.open(SIGN_IN)
    await require_sound(page)
    await page.follow("Sign in with a passkey")
    assert await page.place() == f"{BASE_URL}/ui"
    assert home.people.rows("select from sessions where authenticated_by @> array['mfa'] and revoked_at is null") != []


async def test_without_the_document_the_browser_uses_none(page: Page, site: TwoHosts, postern: Postern) -> None:
    await only_by_button(page)
    await Authenticator.added(page)
    party = postern.identity.passkeys.relying_party
    assert isinstance(party, RelyingParty)
    # As if the operator had named other origins there.
    put(postern.identity.passkeys, relying_party=replace(party, origin="https://another.example"))
    await page.open("/ui/passkeys/add")
    await page.click("Add passkey")
    await said(page, "No passkey was created.")
    assert f"GET {OLD}{RELATED_ORIGINS}" in site.visits


async def test_a_browser_without_related_origins_is_offered_none_and_says_why(page: Page, site: TwoHosts, home: AccountPagesScene) -> None:
    await home.has_password(PASSWORD)
    await scripted(page, WITHOUT_RELATED)
    await Authenticator.added(page)
    why = "This browser cannot use passkeys here, because they belong to id.old.example."
    await page.open("/ui/passkeys/add")
    await said(page, why)
    assert not await visible(page, "form[data-passkey]")
    await require_sound(page)
    await signed_out(page)
    await page.open(SIGN_IN)
    await said(page, why)
    assert not await visible(page, "form[data-passkey]")
    await require_sound(page)
    # The password is no reason to offer one.
    await enter(page, {"Email address": home.ada.email})
    await enter(page, {"Password": PASSWORD})
    assert await page.place() == f"{BASE_URL}/ui"
    assert [one for one in site.visits if RELATED_ORIGINS in one] == []


async def visible(page: Page, selector: str) -> bool:
    with trio.fail_after(30):
        return bool(await page.evaluate(f"!!document.querySelector({selector!r})?.checkVisibility()"))
