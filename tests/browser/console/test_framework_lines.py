"""The lines for a framework, in a browser with scripts: a choice fills the address in, and all lines are copied as one paste."""

from entrypoints.http.console.organization.applications.making import CHOSEN
from ops.browser.page import NARROW, WIDE, Page
from ops.starts.pasting import script
from tests.browser.checks import require_sound
from tests.browser.test_invitation_pages import scene
from tests.e2e.starts.shown import shown_on
from tests.http.inviting import Inviting
from tests.security.organizations.console import COOKIE, signed_in

__all__ = ["scene"]
ADDRESSES = "document.getElementById('addresses').value"
ASKED = "Where are people redirected after sign-in?"
KNOWN = "Redirect URI for local development"
# Chromium gives a test no clipboard.
KEPT = "navigator.clipboard.writeText = async (text) => { globalThis.copied = text }"


async def test_a_framework_fills_its_address_in_and_copies_as_one_paste(scripted_page: Page, scene: Inviting) -> None:
    page = scripted_page
    await page.keep_cookie(COOKIE, signed_in(scene.postern, scene.people, scene.ada))
    await page.show(width=WIDE)
    await page.open("/ui/o/acme/applications/~new")
    # Where the address is known, nobody is asked for it.
    assert ASKED in await page.text()
    for name, address in (("Next.js", CHOSEN["nextjs"].address), ("Flask", CHOSEN["flask"].address)):
        await page.click(name)
        assert (ASKED in await page.text(), KNOWN in await page.text()) == (False, True)
        assert await page.evaluate(ADDRESSES) == address
    await page.click("Something else")
    await page.click("Android (AppAuth)")
    assert (ASKED in await page.text(), KNOWN in await page.text()) == (True, False)
    assert await page.evaluate(ADDRESSES) == ""
    await page.click("Device without a browser")
    assert (ASKED in await page.text(), KNOWN in await page.text()) == (False, False)
    await page.click("Application behind a reverse proxy")
    assert (ASKED in await page.text(), "At which host name" in await page.text()) == (False, True)
    await require_sound(page)
    # What somebody has written stays.
    await page.click("Next.js")
    await page.click("Enter another redirect URI now")
    await page.fill(ASKED, "http://localhost:3000/own")
    await page.click("Django")
    assert await page.evaluate(ADDRESSES) == "http://localhost:3000/own"
    await page.fill(ASKED, "")
    await page.click("Enter another redirect URI now")
    await page.click("Next.js")
    await require_sound(page)

    await page.fill("Name", "Board")
    await page.follow("Create application")
    await require_sound(page)
    await page.evaluate(KEPT)
    await page.click("Copy all")
    html = str(await page.evaluate("document.documentElement.outerHTML"))
    program = list(shown_on(html, "nextjs").values())
    assert [one.place for one in program if one.file][1] == "app/api/auth/[...nextauth]/route.js"
    assert await page.evaluate("globalThis.copied") == script(program)
    await page.show(width=NARROW)
    assert await page.overflow() == 0
