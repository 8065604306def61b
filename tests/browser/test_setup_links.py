"""From a set-up link to an active connection, in a browser and without an account: with SimpleSAMLphp as the customer's directory."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import trio

from entrypoints.bootstrap import Postern
from ops.browser.page import Page
from ops.stand_ins.saml import pair
from tests.browser.checks import require_sound
from tests.browser.conftest import Site
from tests.conftest import CapturedLog
from tests.http.federation.arriving import SESSION_COOKIE
from tests.http.people import People
from tests.http.tenancy.proving import proving
from tests.http.tenancy.setup.scene import SetupScene
from tests.http.tenancy.setup.test_handed_over import Swapping, begun, swapping_on
from tests.simplesamlphp import PASSWORD, USER, SimpleSamlPhp, simplesamlphp

LONGEST = 180.0
"""In seconds, from the first page to the active connection."""


@pytest.fixture
async def scene(postern: Postern, people: People, log: CapturedLog, tmp_path: Path) -> AsyncIterator[SetupScene]:
    async with proving(SetupScene, postern, people, log, tmp_path, "example.org") as scene:
        yield scene


@pytest.fixture
def directory(tmp_path: Path) -> Iterator[SimpleSamlPhp]:
    with simplesamlphp(tmp_path / "directory") as running:
        yield running


async def sound(page: Page) -> None:
    await require_sound(page)
    await page.show(width=320)
    assert await page.overflow() == 0
    await page.show()


async def test_from_the_link_to_an_active_connection(page: Page, site: Site, scene: SetupScene, directory: SimpleSamlPhp) -> None:
    assert site.visits == []
    scene.people.change("update organizations set primary_color = '#7a3b69'")
    _, url = await scene.link("connection", activates=True)
    metadata = (await trio.to_thread.run_sync(directory.metadata)).decode()
    began = trio.current_time()
    await page.open(url)
    assert await page.title() == "Setup · Acme"
    await sound(page)
    await page.fill("Your name", "Grace Hopper")
    await page.follow("Start setup")
    assert "pts_" not in await page.place()
    await sound(page)
    await page.follow("Single sign-on (SSO)")
    await sound(page)
    await page.evaluate("document.getElementById('directory').value = 'shibboleth'")
    await page.fill("Button label", "Example")
    await page.follow("Continue")
    await sound(page)
    # Leaving and coming back by the link goes on where one stopped.
    await page.open(url)
    assert "In progress" in await page.text()
    await page.follow("Single sign-on (SSO)")
    await page.fill("Or paste the metadata", "<html>")
    await page.follow("Save metadata")
    assert "This is a web page" in await page.text()
    await sound(page)
    await page.fill("Or paste the metadata", metadata)
    await page.follow("Save metadata")
    assert f"Values of {directory.entity_id} saved" in await page.text()
    await sound(page)
    (provider,) = scene.people.rows("select id from upstream_providers")
    ours = await scene.client.get(f"/saml/sp/{provider['id']}")
    await trio.to_thread.run_sync(lambda: directory.trust(ours.body))
    await page.follow("Test sign-in")
    await sound(page)
    await _tried(page, directory)
    assert "All checks passed" in await page.text()
    await sound(page)
    await page.follow("Back")
    assert "These settings passed the test" in await page.text()
    await sound(page)
    await page.follow("Activate setup")
    assert "This setup is active" in await page.text()
    await sound(page)
    assert trio.current_time() - began < LONGEST
    (provider,) = scene.people.rows("select state, enabled from upstream_providers")
    assert (provider["state"], provider["enabled"]) == ("active", True)
    await page.follow("All steps")
    assert "Everything is set up and active" in await page.text()
    await sound(page)


async def _tried(page: Page, directory: SimpleSamlPhp) -> None:
    """Goes to the directory, signs in there, and comes back to the page with every check."""
    await page.click("Start test")
    await page.arrived(directory.url)
    await page.fill("Username", USER)
    await page.fill("Password", PASSWORD)
    if page.scripts:
        await page.click("Login")
    else:
        await page.follow("Login")
        await page.click("Submit")
    await page.arrived(f"{page.base_url}/ui/connections/test")
    # What a browser finds wrong with the directory's own pages is not ours.
    page.heard.violations[:] = [one for one in page.heard.violations if "QuirksMode" not in one]


@pytest.fixture
async def swapping(postern: Postern, people: People, log: CapturedLog, tmp_path: Path) -> AsyncIterator[Swapping]:
    async with swapping_on(postern, people, log, tmp_path) as scene:
        yield scene


async def test_an_owner_sees_what_becomes_active_and_says_yes_to_that_alone(page: Page, site: Site, swapping: Swapping) -> None:
    assert site.visits == []
    link, tab = await begun(swapping)
    await swapping.tested(tab, link)
    await swapping.hand_over(tab, link)
    seen = await swapping.draft(link)
    await page.keep_cookie(SESSION_COOKIE, swapping.owners_browser().cookies[SESSION_COOKIE])
    await page.open(f"/ui/o/acme/directories/setup-links/{link}/drafts/{seen['id']}/activate")
    shown = await page.text()
    connection = seen["connection"]
    for one in (connection["issuer"], connection["saml"]["sso_url"], connection["saml"]["certificates"][0]["fingerprint"], seen["digest"]):
        assert one in shown, one
    await sound(page)
    # Meanwhile whoever has the link gives another certificate, and hands it over.
    swapping.directory.signer = pair("of whoever has the link")
    await swapping.tested(tab, link)
    await swapping.hand_over(tab, link)
    now = await swapping.draft(link)
    await page.follow("Activate")
    shown = await page.text()
    assert "The settings were changed after you opened them" in shown
    assert now["digest"] in shown
    assert now["connection"]["saml"]["certificates"][0]["fingerprint"] in shown
    await sound(page)
    assert (await swapping.draft(link))["state"] == "waiting"
    await page.follow("Activate")
    assert (await swapping.draft(link))["state"] == "active"
