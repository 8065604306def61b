"""Checks that every page must pass: axe-core, its policy, use by keyboard alone, a narrow window."""

import json
import os
import sys
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Final

import pytest

from ops.browser.page import Page

# `make` puts the package that contains axe-core there, without the package's dependencies.
AXE: Final = Path(sys.prefix) / "axe" / "axe_playwright_python" / "axe.min.js"
_RULES: Final[Mapping[str, Any]] = {
    "runOnly": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"],
    "rules": {"target-size": {"enabled": True}},
    "resultTypes": ["violations", "incomplete"],
}


EVERY: Final = os.environ.get("POSTERN_TEST_VISITS") == "every"
"""Whether what was visited once is visited again: in each language, under each name. `make check-all` does."""
# What is out of sight, such as the end of a row that scrolls, or covered by buttons that stay in sight.
_WHOLE: Final = (
    "for (const one of document.querySelectorAll('.tabs ul')) one.style.flexWrap = '{}';"
    "for (const one of document.querySelectorAll('.rows > .buttons, .panel > form > .buttons, .saving')) one.style.position = '{}'"
)


@cache
def _axe() -> str:
    if not AXE.is_file():
        pytest.fail("axe-core is not installed: `make test` installs it, as `make .venv/ready-dev` does")
    return AXE.read_text()


async def findings(page: Page) -> Sequence[str]:
    """The findings of axe-core on the page. Undecided checks count, too."""
    return await _findings(page, _RULES)


async def console_findings(page: Page) -> Sequence[str]:
    """Those of a page of the console, where what one sees of a menu or a button is a part of its name, too."""
    rules = {**_RULES["rules"], "label-content-name-mismatch": {"enabled": True}}
    return await _findings(page, {**_RULES, "rules": rules})


async def contrast_findings(page: Page) -> Sequence[str]:
    """Only the findings about contrast, for the same page in another colour scheme."""
    return await _findings(page, {"runOnly": {"type": "rule", "values": ["color-contrast"]}, "resultTypes": ["violations", "incomplete"]})


async def _findings(page: Page, rules: Mapping[str, Any]) -> Sequence[str]:
    if not page.scripts:
        # The page has loaded without them. This switch does not run what it passed over then.
        await page.chromium.ask("Emulation.setScriptExecutionDisabled", page.session, value=False)
    try:
        if not await page.evaluate("'axe' in window"):
            await page.evaluate(_axe() + "; true")
        # axe-core does not decide about this.
        await page.evaluate(_WHOLE.format("wrap", "static"))
        found = json.loads(await page.evaluate(f"axe.run(document, {json.dumps(rules)}).then(JSON.stringify)"))
        await page.evaluate(_WHOLE.format("", ""))
    finally:
        if not page.scripts:
            await page.chromium.ask("Emulation.setScriptExecutionDisabled", page.session, value=True)
    # axe-core does not decide about texts in drawings. `test_look.py` covers the contrast of their colours.
    undecided = [rule for rule in found["incomplete"] if not all(node["html"].startswith("<text ") for node in rule["nodes"])]
    return [_told(rule, node) for rule in (*found["violations"], *undecided) for node in rule["nodes"]]


def _told(rule: dict[str, Any], node: dict[str, Any]) -> str:
    return f"{rule['id']}: {node['html']}: {node.get('failureSummary', rule['help'])}"


async def require_sound(page: Page) -> None:
    """Runs all checks that need no knowledge of the page's purpose."""
    found = await findings(page)
    assert found == [], found
    assert list(page.violations) == []
    assert await page.overflow() == 0, "the page is wider than its window"
    for probe in ("bulleted", "torn", "collided"):
        found = await page._probe(probe)
        assert found == [], f"{probe}: {found}"
    title = await page.title()
    assert title.count(" · ") >= 1, f"the title names the page and whose it is: {title}"


async def require_keyboard(page: Page) -> Sequence[str]:
    """Tab leads through all controls in the order of the page. Each control shows its focus, and none keeps the focus."""
    wanted = await page._probe("reachable")
    await page._probe("fromTheTop")
    reached: list[str] = []
    begun = False
    # Each group of radio buttons adds a stop to the expected ones.
    for _ in range(len(wanted) + 20):
        await page.press("Tab")
        standing = await page._probe("standing")
        # After the last comes the browser's own bar, or the first again.
        if standing is None or (begun and standing["first"]):
            break
        begun = True
        assert standing["visible"], f"the focus on {standing} cannot be seen"
        assert standing["inside"], f"{standing} has the focus outside of the window"
        # A moment has a stop for each of its parts.
        if standing["type"] != "radio" and (standing["type"] != "datetime-local" or reached[-1] != standing["name"]):
            reached.append(standing["name"])
    assert reached == wanted
    # Some browsers stand on the first again, which may be a link that shows, and covers others, only while it has the focus.
    await page._probe("fromTheTop")
    return reached


async def tab_to(page: Page, name: str) -> None:
    """Moves the focus there by keys, as a person without a mouse does."""
    passed: list[str] = []
    while await page.focused() != name:
        assert len(passed) < 60, f"{name} is not among what the keyboard reaches: {passed}"
        await page.press("Tab")
        passed.append(await page.focused())


async def enter(page: Page, values: Mapping[str, str]) -> None:
    """Fills in a form and sends it as people without a mouse do: Tab from field to field, and Enter in the last one."""
    for label, value in values.items():
        await tab_to(page, label)
        await page.fill(label, value)
    async with page.loading():
        await page.press("Enter")
