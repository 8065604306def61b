"""Forms of the console in Chromium: label and field stand beside each other where there is room, and Save stays in sight and covers
neither the field with the focus nor its label.
"""

import pytest

from ops.browser.page import NARROW, WIDE, Page
from tests.browser.console.test_risk_rules import HOME, entered
from tests.browser.test_invitation_pages import scene
from tests.http.inviting import Inviting

__all__ = ["scene"]  # a fixture
WEBHOOK = f"{HOME}/events/~new"
HOOK = f"{HOME}/events/hooks/change"
LOOKS = f"{HOME}/settings/looks"
SWATCH = "document.querySelector('input[type=color]')"
# What the button's bar covers of the element with the focus and of its labels.
COVERED = """(() => {
  const one = document.activeElement, bar = one.form?.querySelector(':scope > .buttons')
  if (!bar || bar.contains(one)) return []
  const above = bar.getBoundingClientRect()
  return [one, ...one.labels ?? []].filter(part => {
    const here = part.getBoundingClientRect()
    return here.bottom > above.top + 1 && here.top < above.bottom - 1
  }).map(part => part.name || part.textContent)
})()"""
FIELDS = "document.querySelector('main form:has(.field)').elements.length"
IN_BUTTONS = "Boolean(document.activeElement.closest('main form > .buttons'))"
# Where the first field begins, beside its label or below it.
BESIDE = """(() => {
  const field = document.querySelector('main form > .field > input'), label = field.labels[0]
  return field.getBoundingClientRect().left >= label.getBoundingClientRect().right
})()"""


@pytest.mark.parametrize("at", [WEBHOOK, HOOK])
@pytest.mark.parametrize("width", [WIDE, NARROW])
async def test_save_covers_no_field_with_the_focus_and_no_label_of_it(scripted_page: Page, scene: Inviting, at: str, width: int) -> None:
    page = scripted_page
    await entered(page, scene, at)
    await page.show(width=width)
    await page.open(at)
    await page.evaluate("for (const one of document.querySelectorAll('main form details')) one.open = true")
    await page.evaluate("document.querySelector('main form:has(.field) .field :is(input, select, textarea)').focus()")
    covered, seen = list[str](), 0
    for _ in range(int(await page.evaluate(FIELDS)) * 2):
        covered += await page.evaluate(COVERED)
        if await page.evaluate(IN_BUTTONS):
            break
        seen += 1
        await page.press("Tab")
    assert await page.evaluate(IN_BUTTONS), "the walk ends at the button"
    assert (seen > 2, covered) == (True, [])
    # And back: a field that comes into sight from above is not covered either.
    for _ in range(seen):
        await page.press("Tab", shift=True)
        covered += await page.evaluate(COVERED)
    assert covered == []


async def test_the_label_stands_beside_the_field_where_there_is_room(plain_page: Page, scene: Inviting) -> None:
    await entered(plain_page, scene, WEBHOOK)
    for width, beside in ((WIDE, True), (800, True), (740, False), (NARROW, False)):
        await plain_page.show(width=width)
        await plain_page.open(WEBHOOK)
        assert (width, await plain_page.evaluate(BESIDE)) == (width, beside)
        assert not await plain_page.overflow()


async def test_a_swatch_and_its_field_say_the_same_color(scripted_page: Page, scene: Inviting) -> None:
    page = scripted_page
    await entered(page, scene, LOOKS)
    assert not await page.evaluate(f"{SWATCH}.hidden")
    await page.evaluate(f"{SWATCH}.value = '#aa0000'")
    await page.evaluate(f"{SWATCH}.dispatchEvent(new Event('input'))")
    assert await page.evaluate(f"{SWATCH}.previousElementSibling.value") == "#aa0000"
    await page.evaluate(f"{SWATCH}.previousElementSibling.select()")
    for typed, shown in (("#00AA00", "#00aa00"), (" or so", "#00aa00")):
        await page.type(typed)
        assert await page.evaluate(f"{SWATCH}.value") == shown


async def test_without_a_script_a_color_is_a_text_alone(plain_page: Page, scene: Inviting) -> None:
    await entered(plain_page, scene, LOOKS)
    assert await plain_page.evaluate(f"{SWATCH}.hidden")
