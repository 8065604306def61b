"""Passkeys in Chromium, with the authenticator that its DevTools protocol offers: made, used, and refused."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import pytest
import trio

from ops.browser.page import Page
from tests.browser.checks import enter, require_keyboard, require_sound, tab_to
from tests.http.pages.account.conftest import COOKIE, AccountPagesScene, home
from tests.http.people import BASE_URL
from tests.http.postbox import Postbox
from tests.http.signing_in import PASSWORD
from tests.patience import PATIENCE

__all__ = ["home"]  # a fixture

SIGN_IN = "/ui/sign-in"


@dataclass
class Authenticator:
    """An authenticator that is built into the device, and unlocks by itself."""

    page: Page
    id: str

    @classmethod
    async def added(cls, page: Page, **more: Any) -> "Authenticator":
        await page.chromium.ask("WebAuthn.enable", page.session, enableUI=False)
        options = {
            "protocol": "ctap2",
            "transport": "internal",
            "hasResidentKey": True,
            "hasUserVerification": True,
            "isUserVerified": True,
            "automaticPresenceSimulation": True,
            **more,
        }
        made = await page.chromium.ask("WebAuthn.addVirtualAuthenticator", page.session, options=options)
        return cls(page, made["authenticatorId"])

    async def ask(self, method: str, **parameters: Any) -> Mapping[str, Any]:
        return await self.page.chromium.ask(f"WebAuthn.{method}", self.page.session, authenticatorId=self.id, **parameters)

    async def passkeys(self) -> list[dict[str, Any]]:
        return list((await self.ask("getCredentials"))["credentials"])


@pytest.fixture
async def signed_in(scripted_page: Page, home: AccountPagesScene) -> Page:
    home.people.change("update users set email_verified_at = now()")
    await scripted_page.keep_cookie(COOKIE, home.tabs.cookies[COOKIE])
    return scripted_page


ONLY_BY_BUTTON: Final = """
    if (window.PublicKeyCredential) {
        PublicKeyCredential.isConditionalMediationAvailable = undefined;
        const asked = PublicKeyCredential.getClientCapabilities;
        PublicKeyCredential.getClientCapabilities = async () => ({ ...await asked.call(PublicKeyCredential), conditionalCreate: false });
    }
"""


BY_ITSELF: Final = """
    if (window.PublicKeyCredential) {
        PublicKeyCredential.isConditionalMediationAvailable = undefined;
        PublicKeyCredential.getClientCapabilities = async () => ({ conditionalCreate: true });
        const create = navigator.credentials.create.bind(navigator.credentials);
        navigator.credentials.create = ({ mediation, signal, ...asked }) =>
            mediation === "conditional" && !REFUSES ? create(asked) : Promise.reject(new DOMException("", "NotAllowedError"));
    }
"""
"""This build of Chromium has no password manager, which alone would make a passkey by itself. Without the word, its authenticator does, and
without the signal it takes as long as a busy machine needs."""


async def scripted(page: Page, source: str) -> None:
    """Runs this before the scripts of each page from now on."""
    await page.chromium.ask("Page.addScriptToEvaluateOnNewDocument", page.session, source=source)


async def only_by_button(page: Page) -> None:
    """The browser offers passkeys only by a button, and makes none by itself."""
    await scripted(page, ONLY_BY_BUTTON)


@pytest.fixture
async def unoffered(signed_in: Page) -> Page:
    await only_by_button(signed_in)
    return signed_in


async def made(page: Page, name: str = "Laptop") -> None:
    await page.open("/ui/passkeys/add")
    await page.fill("Passkey name", name)
    await page.follow("Add passkey")
    assert "Passkey added" in await page.text()


async def signed_out(page: Page) -> None:
    await page.open("/ui")
    await page.evaluate("document.querySelector('.menu.person > summary').click()")
    await page.follow("Sign out")


async def said(page: Page, words: str) -> None:
    """Waits until the page shows this text without a reload."""
    with trio.fail_after(PATIENCE):
        while words not in await page.text():
            await trio.sleep(0.05)


async def test_a_passkey_is_made_and_signs_in(unoffered: Page, home: AccountPagesScene) -> None:
    page = unoffered
    authenticator = await Authenticator.added(page)
    await page.open("/ui/passkeys")
    await require_sound(page)
    await page.follow("Add a passkey")
    await require_sound(page)
    await require_keyboard(page)
    await page.fill("Passkey name", "Laptop")
    await page.follow("Add passkey")
    assert await page.place() == f"{BASE_URL}/ui/passkeys?done=added"
    assert "Laptop" in await page.text()
    await require_sound(page)
    (kept,) = await authenticator.passkeys()
    assert kept["isResidentCredential"] is True
    await signed_out(page)
    await page.open(SIGN_IN)
    await require_sound(page)
    await require_keyboard(page)
    await tab_to(page, "Sign in with a passkey")
    async with page.loading():
        await page.press("Enter")
    assert await page.place() == f"{BASE_URL}/ui"
    (session,) = home.people.rows("select authenticated_by, second_factor_at is not null as both from sessions where revoked_at is null")
    assert session == {"authenticated_by": ["hwk", "user", "mfa"], "both": True}
    # No authenticator makes a second one.
    await page.open("/ui/passkeys/add")
    await page.click("Add passkey")
    await said(page, "This device already has a passkey for your account.")
    await require_sound(page)


async def test_the_browser_offers_it_in_the_field_of_the_address(signed_in: Page) -> None:
    page = signed_in
    await Authenticator.added(page)
    await made(page)
    await signed_out(page)
    # The authenticator chooses at once, and nothing was pressed.
    await page.open(SIGN_IN)
    await page.arrived(f"{BASE_URL}/ui")
    await page.arrived(f"{BASE_URL}/ui")
    with trio.fail_after(PATIENCE):
        while await page.title() != "Home · Postern":
            await trio.sleep(0.05)


async def test_it_is_the_second_step_and_the_fresh_proof(unoffered: Page, home: AccountPagesScene) -> None:
    page = unoffered
    await home.has_password(PASSWORD)
    await Authenticator.added(page)
    await made(page)
    await page.open("/ui/second-factor")
    await page.follow("Use passkeys")
    await require_sound(page)
    await page.follow("Turn on two-step sign-in")
    assert "Your backup codes" in await page.text()
    await page.follow("I have saved my codes")
    assert "Passkey" in await page.text()
    await require_sound(page)
    await signed_out(page)
    await page.open(SIGN_IN)
    await enter(page, {"Email address": home.ada.email})
    await enter(page, {"Password": PASSWORD})
    assert "Use one of your passkeys, or enter a backup code." in await page.text()
    await require_sound(page)
    await require_keyboard(page)
    await page.follow("Lost your authenticator app or passkey?")
    await require_sound(page)
    await page.follow("Back")
    await page.follow("Use a passkey")
    assert await page.place() == f"{BASE_URL}/ui"
    home.grow_old()
    await page.open("/ui/second-factor/turn-off")
    assert "use a passkey or enter a backup code to continue." in await page.text()
    await require_sound(page)
    await require_keyboard(page)
    await page.follow("Use a passkey")
    assert "Turn off two-step sign-in?" in await page.text()


async def test_a_copy_is_refused(unoffered: Page, home: AccountPagesScene) -> None:
    page = unoffered
    authenticator = await Authenticator.added(page)
    await made(page)
    (copy,) = await authenticator.passkeys()
    await signed_out(page)
    await page.open(SIGN_IN)
    await page.follow("Sign in with a passkey")
    await signed_out(page)
    await authenticator.ask("removeCredential", credentialId=copy["credentialId"])
    await authenticator.ask("addCredential", credential=copy)
    await page.open(SIGN_IN)
    await page.follow("Sign in with a passkey")
    assert "This passkey was not accepted" in await page.text()
    await require_sound(page)
    assert [row["reason"] for row in home.people.rows("select reason from login_events where not success")] == ["copied_passkey"]


async def test_nobody_gets_in_who_is_not_verified(unoffered: Page) -> None:
    page = unoffered
    authenticator = await Authenticator.added(page)
    await made(page)
    await signed_out(page)
    await authenticator.ask("setUserVerified", isUserVerified=False)
    await page.open(SIGN_IN)
    await page.click("Sign in with a passkey")
    await said(page, "No passkey was used.")
    await require_sound(page)
    # No passkey is made without user verification.
    assert await page.focused() == "Sign in with a passkey"


async def test_without_scripts_there_is_nothing_of_it(plain_page: Page, home: AccountPagesScene) -> None:
    page = plain_page
    await page.open(SIGN_IN)
    assert "passkey" not in await page.text()
    await page.keep_cookie(COOKIE, home.tabs.cookies[COOKIE])
    await page.open("/ui/passkeys/add")
    assert "Your browser cannot create a passkey here" in await page.text()
    await require_sound(page)
    await require_keyboard(page)


async def by_password(page: Page, home: AccountPagesScene) -> None:
    await page.open(SIGN_IN)
    await enter(page, {"Email address": home.ada.email})
    await enter(page, {"Password": PASSWORD})


async def test_a_passkey_is_offered_after_a_password_and_made_at_once(unoffered: Page, home: AccountPagesScene) -> None:
    page = unoffered
    await home.has_password(PASSWORD)
    authenticator = await Authenticator.added(page)
    await signed_out(page)
    await by_password(page, home)
    assert "Create a passkey?" in await page.text()
    await require_sound(page)
    await require_keyboard(page)
    await page.follow("Create passkey")
    assert await page.place() == f"{BASE_URL}/ui"
    assert len(await authenticator.passkeys()) == 1
    await page.open("/ui/passkeys")
    assert "On one device only" in await page.text()
    await require_sound(page)
    await signed_out(page)
    await by_password(page, home)
    assert await page.place() == f"{BASE_URL}/ui"


async def test_whoever_declines_goes_on(unoffered: Page, home: AccountPagesScene) -> None:
    page = unoffered
    await home.has_password(PASSWORD)
    await Authenticator.added(page)
    await signed_out(page)
    await by_password(page, home)
    await page.follow("Not now")
    assert await page.place() == f"{BASE_URL}/ui"


async def titled(page: Page, title: str) -> None:
    """Waits until the page has this title. Pages that leave by themselves may come before."""
    with trio.fail_after(PATIENCE):
        while await page.title() != title:
            await trio.sleep(0.05)


async def test_the_browser_makes_one_by_itself_after_a_password(signed_in: Page, home: AccountPagesScene) -> None:
    page = signed_in
    await home.has_password(PASSWORD)
    await scripted(page, BY_ITSELF.replace("REFUSES", "false"))
    authenticator = await Authenticator.added(page)
    await signed_out(page)
    await by_password(page, home)
    # Nobody has pressed anything.
    await titled(page, "Home · Postern")
    assert len(await authenticator.passkeys()) == 1
    assert "A passkey was added to your account" in [mail.subject for mail in await Postbox(home.postern).empty()]
    await signed_out(page)
    await page.open(SIGN_IN)
    await page.follow("Sign in with a passkey")
    assert await page.place() == f"{BASE_URL}/ui"


async def test_a_browser_that_makes_none_leads_to_the_offer(signed_in: Page, home: AccountPagesScene) -> None:
    page = signed_in
    await home.has_password(PASSWORD)
    await scripted(page, BY_ITSELF.replace("REFUSES", "true"))
    await Authenticator.added(page)
    await signed_out(page)
    await by_password(page, home)
    await titled(page, "Create a passkey? · Postern")
    await require_sound(page)
    await page.follow("Not now")
    assert await page.place() == f"{BASE_URL}/ui"


async def test_nothing_is_offered_without_an_authenticator_or_without_scripts(
    unoffered: Page, plain_page: Page, home: AccountPagesScene
) -> None:
    await home.has_password(PASSWORD)
    await signed_out(unoffered)
    for page in (unoffered, plain_page):
        await by_password(page, home)
        assert await page.place() == f"{BASE_URL}/ui"
    assert home.people.rows("select from users where passkey_offered_at is not null") == []


async def test_the_browser_is_told_of_what_is_gone_and_of_what_has_changed(unoffered: Page, home: AccountPagesScene) -> None:
    page = unoffered
    authenticator = await Authenticator.added(page)

    async def passkeys(number: int) -> list[dict[str, Any]]:
        with trio.fail_after(PATIENCE):
            while len(kept := await authenticator.passkeys()) != number:
                await trio.sleep(0.05)
        return kept

    await made(page)
    assert await page.evaluate("'signalAllAcceptedCredentials' in PublicKeyCredential")
    (kept,) = await passkeys(1)
    await page.open("/ui/profile")
    # Removed on the server, by another browser: the page of passkeys says so.
    home.people.change("delete from passkeys")
    await page.open("/ui/passkeys")
    await passkeys(0)
    # And so does the refusal of one that is used.
    await authenticator.ask("addCredential", credential=kept)
    await signed_out(page)
    await page.open(SIGN_IN)
    await page.follow("Sign in with a passkey")
    assert "This passkey was not accepted" in await page.text()
    await passkeys(0)
