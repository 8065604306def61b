"""What every page has to stand: axe-core, its policy, a keyboard alone, a narrow window."""

import json
import sys
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Final

import pytest

from tests.browser.page import Page

# `make` puts the package that carries axe-core there, and nothing else of what it would bring.
AXE: Final = Path(sys.prefix) / "axe" / "axe_playwright_python" / "axe.min.js"
_RULES: Final[Mapping[str, Any]] = {
    "runOnly": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"],
    "rules": {"target-size": {"enabled": True}},
    "resultTypes": ["violations", "incomplete"],
}


@cache
def _axe() -> str:
    if not AXE.is_file():
        pytest.fail("axe-core is not installed: `make test` installs it, as `make .venv/ready-dev` does")
    return AXE.read_text()


async def findings(page: Page) -> Sequence[str]:
    """What axe-core finds on the page. What it cannot decide counts, too."""
    return await _findings(page, _RULES)


async def contrast_findings(page: Page) -> Sequence[str]:
    """Only whether all texts can be read: for the same page in another light."""
    return await _findings(page, {"runOnly": {"type": "rule", "values": ["color-contrast"]}, "resultTypes": ["violations", "incomplete"]})


async def _findings(page: Page, rules: Mapping[str, Any]) -> Sequence[str]:
    if not page.scripts:
        # The page has loaded without them. This switch does not run what it passed over then.
        await page.chromium.ask("Emulation.setScriptExecutionDisabled", page.session, value=False)
    try:
        if not await page.evaluate("'axe' in window"):
            await page.evaluate(_axe() + "; true")
        found = json.loads(await page.evaluate(f"axe.run(document, {json.dumps(rules)}).then(JSON.stringify)"))
    finally:
        if not page.scripts:
            await page.chromium.ask("Emulation.setScriptExecutionDisabled", page.session, value=True)
    return [_told(rule, node) for kind in ("violations", "incomplete") for rule in found[kind] for node in rule["nodes"]]


def _told(rule: dict[str, Any], node: dict[str, Any]) -> str:
    return f"{rule['id']}: {node['html']}: {node.get('failureSummary', rule['help'])}"


async def require_sound(page: Page) -> None:
    """Everything that can be said about a page without knowing what it is for."""
    assert list(await findings(page)) == []
    assert list(page.violations) == []
    assert await page.overflow() == 0, "the page is wider than its window"
    assert await page._probe("bulleted") == []
    assert await page._probe("torn") == []
    title = await page.title()
    assert title.count(" · ") >= 1, f"the title names the page and whose it is: {title}"


async def require_keyboard(page: Page) -> Sequence[str]:
    """Tab leads through everything that can be used, in the order of the page; each can be seen to have the focus, and none holds it."""
    wanted = await page._probe("reachable")
    await page._probe("fromTheTop")
    reached: list[str] = []
    begun = False
    # The groups of radio buttons come on top of what is wanted.
    for _ in range(len(wanted) + 20):
        await page.press("Tab")
        standing = await page._probe("standing")
        # After the last comes the browser's own bar, or the first again.
        if standing is None or (begun and standing["first"]):
            break
        begun = True
        assert standing["visible"], f"the focus on {standing} cannot be seen"
        assert standing["inside"], f"{standing} has the focus outside of the window"
        if standing["type"] != "radio":
            reached.append(standing["name"])
    assert reached == wanted
    # Some browsers stand on the first again, which may be a link that shows, and covers others, only while it has the focus.
    await page._probe("fromTheTop")
    return reached


async def tab_to(page: Page, name: str) -> None:
    """As a person without a mouse gets there."""
    passed: list[str] = []
    while await page.focused() != name:
        assert len(passed) < 60, f"{name} is not among what the keyboard reaches: {passed}"
        await page.press("Tab")
        passed.append(await page.focused())


async def enter(page: Page, values: Mapping[str, str]) -> None:
    """Fill in a form and send it as people do who use no mouse: Tab from field to field, and Enter in the last one."""
    for label, value in values.items():
        await tab_to(page, label)
        await page.fill(label, value)
    async with page.loading():
        await page.press("Enter")
