"""Ask in Chromium, by the keyboard: the dialog opens, its answers are walked through, close and lead on, and are as sound as any page."""

from typing import Final

import pytest

from ops.browser.page import NARROW, WIDE, Page
from tests.browser.checks import console_findings
from tests.browser.test_console import Town, town
from tests.http.people import BASE_URL
from tests.security.organizations.console import COOKIE, OF_ORGANIZATION

__all__ = ["town"]  # a fixture

# Resolves once the suggestions say this.
_SAID: Final = """new Promise(done => {
  const look = () => {
    const sheet = document.querySelector('.suggested:not([hidden])');
    sheet?.textContent.includes(%r) ? done(true) : setTimeout(look, 20);
  };
  look();
})"""
_FOCUSED: Final = "document.activeElement.name || document.activeElement.textContent.trim()"
_IS_OPEN: Final = "!document.querySelector('.suggested').hidden"
_IS_DIALOG: Final = "document.querySelector('dialog.ask').open"
_CONTROL_K: Final = "document.activeElement.dispatchEvent(new KeyboardEvent('keydown', {key: 'k', ctrlKey: true, bubbles: true}))"
_CLOSED: Final = """new Promise(done => {
  const dialog = document.querySelector('dialog.ask');
  dialog.addEventListener('close', () => done(), {once: true});
  dialog.close();
})"""
# In the reader's language: what somebody types, and what is suggested first.
_ASKED: Final = (
    ("en", "session limits", "Sessions"),
    ("de", "sitzungsgrenzen", "Sitzungen"),
    ("fr", "limites de session", "Sessions"),
    ("es", "límites de sesión", "Sesiones"),
)


async def _suggested(page: Page, text: str, said: str) -> None:
    await page.evaluate("document.querySelector('[name=q]').value = ''")
    await page.press("/")
    assert await page.evaluate(_FOCUSED) == "q"
    await page.type(text)
    await page.evaluate(_SAID % said)


@pytest.mark.parametrize(("language", "text", "said"), _ASKED)
@pytest.mark.parametrize("width", [NARROW, WIDE])
async def test_suggestions_and_results_are_sound(town: Town, language: str, text: str, said: str, width: int) -> None:
    await town.enter(town.owner().cookies[COOKIE])
    page, home = town.page, OF_ORGANIZATION.format(org_slug=town.world.asked.slug)
    faults: list[str] = []
    for scheme in ("light", "dark"):
        await page.show(width=width, scheme=scheme, language=language)
        await page.open(f"{home}/settings")
        await _suggested(page, text, said)
        # Of what lies over a page or beneath it, axe-core cannot tell the ground. The colours have a test of their own (`test_look.py`).
        found = [one for one in await console_findings(page) if "overlap" not in one]
        faults += [f"suggestions, {scheme}: {one}" for one in found]
        if await page.overflow():
            faults.append("the suggestions are wider than the window")
        # Nothing of the open sheet stands outside of the window.
        box = "(({left, right}) => left >= 0 && right <= innerWidth + 1)(document.querySelector('.suggested').getBoundingClientRect())"
        if not await page.evaluate(box):
            faults.append("the suggestions stand outside of the window")
        await page.press("Enter")
        await page.arrived(f"{BASE_URL}{home}/search")
        faults += [f"results, {scheme}: {one}" for one in await console_findings(page)]
        if await page.overflow():
            faults.append("the results are wider than the window")
    assert faults == [], "\n".join(faults)
    assert page.violations == []


async def test_the_keyboard_walks_through_the_suggestions_and_out_of_them(town: Town) -> None:
    await town.enter(town.owner().cookies[COOKIE])
    page, home = town.page, OF_ORGANIZATION.format(org_slug=town.world.asked.slug)
    await page.show(width=WIDE)
    await page.open(home)
    await page.evaluate("document.querySelector('.brand').focus()")
    await page.evaluate(_CONTROL_K)
    assert await page.evaluate(_FOCUSED) == "q"
    assert await page.evaluate(_IS_DIALOG)
    box = await page.evaluate(
        "(({width, top}) => [width, top / innerHeight])(document.querySelector('dialog.ask').getBoundingClientRect())"
    )
    assert box[0] == 640
    assert abs(box[1] - 0.12) < 0.01
    await page.type("webhook")
    await page.evaluate(_SAID % "Webhooks")
    lines = await page.evaluate("[...document.querySelectorAll('.suggested a, .suggested button')].map(one => one.textContent.trim())")
    assert len(lines) > 2
    # Down to the end, where it stays, and up to the field again.
    for line in (*lines, lines[-1]):
        await page.press("Down")
        assert await page.evaluate(_FOCUSED) == line
    for line in (*lines[-2::-1], "q", "q"):
        await page.press("Up")
        assert await page.evaluate(_FOCUSED) == line
    # From a line, Escape closes and leads back to where somebody was; what was typed stays, in the head.
    await page.press("Down")
    await page.press("Escape")
    assert not await page.evaluate(_IS_OPEN)
    assert not await page.evaluate(_IS_DIALOG)
    assert await page.evaluate("document.activeElement.className") == "brand"
    assert await page.evaluate("document.querySelector('header > .asking [name=q]').value") == "webhook"
    # So it does when the browser closes the dialog by itself.
    await page.press("/")
    await page.evaluate(_CLOSED)
    assert await page.evaluate("document.activeElement.className") == "brand"
    assert await page.evaluate("document.querySelector('header > .asking [name=q]').value") == "webhook"
    # With the first letter that is typed there, the form moves into the dialog.
    await page.evaluate("(field => { field.focus(); field.setSelectionRange(7, 7); })(document.querySelector('[name=q]'))")
    assert not await page.evaluate(_IS_DIALOG)
    await page.type("s")
    assert await page.evaluate(_IS_DIALOG)
    assert await page.evaluate("document.activeElement.value") == "webhooks"
    # There, Escape leads back to the field of the head, from which the next letter opens the dialog again.
    await page.press("Escape")
    assert not await page.evaluate(_IS_DIALOG)
    assert await page.evaluate("document.activeElement === document.querySelector('header > .asking [name=q]')")
    await page.type(" ")
    # Enter on a line leads to its page.
    await page.evaluate(_SAID % "Webhooks")
    await page.press("Down")
    await page.press("Enter")
    await page.arrived(f"{BASE_URL}{home}/events")


async def test_an_action_is_pressed_with_the_keyboard_and_fills_its_form(town: Town) -> None:
    await town.enter(town.owner().cookies[COOKIE])
    page, home = town.page, OF_ORGANIZATION.format(org_slug=town.world.asked.slug)
    await page.show(width=NARROW)
    await page.open(home)
    await _suggested(page, "create team Sales of Bremen", "Sales of Bremen")
    await page.press("Down")
    await page.press("Enter")
    await page.arrived(f"{BASE_URL}{home}/people/teams/~new")
    assert await page.evaluate("document.querySelector('main [name=name]').value") == "Sales of Bremen"
    assert await console_findings(page) == []
    assert page.violations == []


async def test_an_act_is_done_with_few_keys_beside_the_words(town: Town) -> None:
    """Open, walk to the answer, choose it; the panel that it opens has the focus and is in sight; choose there, and press."""
    person = town.world.asked.member
    await town.enter(town.owner().cookies[COOKIE])
    page, home = town.page, OF_ORGANIZATION.format(org_slug=town.world.asked.slug)
    await page.show(width=WIDE)
    await page.open(home)
    keys = ["/"]
    await page.press("/")
    await page.type(f"change role of {person.email}")
    await page.evaluate(_SAID % "Change the role of")
    for key in ("Down", "Enter"):
        await page.press(key)
        keys.append(key)
    await page.arrived(f"{BASE_URL}{home}/people/{person.user}/role")
    assert await page.evaluate("document.activeElement.tagName") == "SELECT"
    box = await page.evaluate("(({top, bottom}) => [top, bottom, innerHeight])(document.activeElement.getBoundingClientRect())")
    assert 0 <= box[0] < box[1] <= box[2]
    for key in ("Down", "Tab", "Enter"):
        await page.press(key)
        keys.append(key)
    await page.arrived(f"{BASE_URL}{home}/people/{person.user}")
    assert len(keys) <= 8
    assert page.violations == []


async def test_the_first_answer_of_the_page_has_the_focus(town: Town) -> None:
    await town.enter(town.owner().cookies[COOKIE])
    page, home = town.page, OF_ORGANIZATION.format(org_slug=town.world.asked.slug)
    await page.show(width=WIDE)
    await page.open(home)
    await _suggested(page, "session limits", "Sessions")
    await page.press("Enter")
    await page.arrived(f"{BASE_URL}{home}/search")
    assert await page.evaluate("document.activeElement === document.querySelector('main h3 a')")
