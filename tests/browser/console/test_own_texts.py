"""Own texts in Chromium, with scripts and without: an owner changes what people meet first in two languages and sees it."""

from ops.browser.page import NARROW, WIDE, Page
from tests.browser.checks import require_keyboard, require_sound, tab_to
from tests.browser.console.clicking import CountedClicks, told
from tests.browser.test_invitation_pages import scene
from tests.http.inviting import Inviting
from tests.security.organizations.console import COOKIE, signed_in

__all__ = ["scene"]  # a fixture
HOME = "/ui/o/acme"
TEXTS = f"{HOME}/settings/texts"
MOST = 12


class CountedKeys(CountedClicks):
    """The same with a keyboard alone."""

    async def press(self, name: str) -> None:
        self.actions.append(f"press {name}")
        await tab_to(self.page, name)
        async with self.page.loading():
            await self.page.press("Enter")
        assert self.page.status < 400, await self.page.text()

    async def type(self, label: str, text: str) -> None:
        self.actions.append(f"type {label}")
        await tab_to(self.page, label)
        await self.page.type(text)


async def entered(page: Page, scene: Inviting, at: str, languages: str = "en,de") -> None:
    scene.people.change("update all_organizations set languages = %s", languages)
    await page.keep_cookie(COOKIE, signed_in(scene.postern, scene.people, scene.ada))
    await page.show(width=WIDE)
    await page.open(at)


async def test_title_subject_and_footer_in_two_languages_take_twelve_actions_at_most(page: Page, scene: Inviting) -> None:
    await entered(page, scene, HOME)
    owner = CountedKeys(page)
    await owner.press("Branding")
    await owner.press("Custom text")
    await owner.type("Sign-in: Title \u2013 without an application Sign in", "Welcome to Acme")
    await owner.type("Email: Invitation: Subject Invitation to {organization}", "{organization} asks you in")
    await owner.type("Footer", "Acme GmbH, Berlin")
    await owner.press("Save")
    await owner.reads("Welcome to Acme", "Acme asks you in", "Acme GmbH, Berlin")
    await owner.press("Deutsch")
    await owner.type("Sign-in: Title \u2013 without an application Anmelden", "Willkommen bei Acme")
    await owner.type("Email: Invitation: Subject Einladung zu {organization}", "{organization} lädt Sie ein")
    await owner.type("Footer", "Acme GmbH, Berlin, Deutschland")
    await owner.press("Save")
    await owner.reads("Willkommen bei Acme", "Acme lädt Sie ein", "Acme GmbH, Berlin, Deutschland")
    assert len(owner.actions) <= MOST, told(owner.actions)
    kept = scene.people.rows("select language, key, text from organization_texts order by language, key")
    assert [tuple(row.values()) for row in kept] == [
        ("de", "mail_invitation.subject", "{organization} lädt Sie ein"),
        ("de", "own.footer", "Acme GmbH, Berlin, Deutschland"),
        ("de", "sign_in.title", "Willkommen bei Acme"),
        ("en", "mail_invitation.subject", "{organization} asks you in"),
        ("en", "own.footer", "Acme GmbH, Berlin"),
        ("en", "sign_in.title", "Welcome to Acme"),
    ]
    await require_sound(page)
    await require_keyboard(page)


async def test_pages_of_texts_are_sound_when_they_are_full_and_when_something_is_wrong(page: Page, scene: Inviting) -> None:
    await entered(page, scene, f"{TEXTS}/sign_in/en")
    await require_sound(page)
    await page.fill("Title \u2013 with an application Sign in to {service}", "<b>no</b>")
    # Enter in a field saves, and takes none of ours back.
    async with page.loading():
        await page.press("Enter")
    assert "HTML is not supported and would be shown as text" in await page.text()
    assert "The text must contain {service}" not in await page.described("Title \u2013 with an application Sign in to {service}")
    assert "HTML is not supported" in await page.described("Title \u2013 with an application Sign in to {service}")
    await require_sound(page)
    scene.people.change(
        "insert into organization_texts (id, org_id, key, language, text, based_on, updated_at)"
        " select gen_random_uuid(), id, 'sign_in.title', 'de', 'Willkommen', 'Einloggen', now() from all_organizations where slug = 'acme'"
    )
    for width in (NARROW, WIDE):
        await page.show(width=width, scheme="dark" if width == WIDE else "light")
        for at in (TEXTS, f"{TEXTS}/sign_in/de", f"{TEXTS}/outdated", f"{TEXTS}/mails/invitation/de", f"{TEXTS}/notice"):
            await page.open(at)
            assert page.status == 200, at
            await require_sound(page)
    await page.open(f"{TEXTS}/pages/sign_in/de")
    assert "Bei Shop anmelden" in await page.text()


async def test_a_mail_looks_in_the_console_as_in_a_program_for_mail(page: Page, scene: Inviting) -> None:
    await entered(page, scene, f"{TEXTS}/mails/invitation/de")
    await page.follow("View as HTML")
    colours, lines = {}, set()
    for scheme in ("light", "dark"):
        for width in (NARROW, WIDE):
            await page.show(width=width, scheme=scheme)
            assert await page.overflow() == 0
            assert page.violations == []
        colours[scheme] = await page.evaluate("getComputedStyle(document.querySelector('.card')).backgroundColor")
        lines.add(await page.evaluate("getComputedStyle(document.querySelector('.card')).borderTopColor"))
    assert len(lines) == 1, "the line in the organization's colour is not the same in the dark"
    assert colours == {"light": "rgb(255, 255, 255)", "dark": "rgb(27, 33, 36)"}
    assert await page.evaluate("getComputedStyle(document.querySelector('h1')).fontSize") == "22px"
