"""A person at a console, whose clicks and fields are counted. Names are those that a person reads. What the page itself has comes before
what stands beside it.
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import trio

from ops.browser.page import Page
from tests.patience import PATIENCE

# A count beside a name, such as that of what needs a hand, is no part of the name.
_FOUND: Final = r"""(() => {
  // Long words have places where they may break.
  const bare = text => (text || "").replace(/[\s\u200b\u2060]/g, "");
  const tidy = text => (text || "").replace(/\s+/g, " ").trim();
  const seen = one => one.checkVisibility({ visibilityProperty: true, contentVisibilityAuto: true });
  const named = one => {
    let text = one.innerText || "";
    one.querySelectorAll(".count, .likeness").forEach(part => { text = text.replace(part.innerText, ""); });
    return one.getAttribute("aria-label") || tidy(text) || tidy(one.value);
  };
  return (name, kinds) => {
    const all = [...document.querySelectorAll(kinds)].filter(seen);
    const fitting = all.filter(one => bare(named(one)) === bare(name));
    // A button that is named as the page has done it: the link of the same name leads to where one is.
    const ranks = [one => one.closest("main") && one.localName === "button", one => one.closest("main"), () => true];
    const chosen = ranks.map(rank => fitting.filter(rank)).find(some => some.length) || [];
    const places = new Set(chosen.map(one => one.getAttribute("href") || one));
    if (places.size !== 1) throw new Error(`${chosen.length} of the name ${name} among ${JSON.stringify(all.map(named))}`);
    return chosen[0];
  };
})()"""
_PRESSED: Final = '"a[href], button, summary, label"'
_FIELDS: Final = '"label, [aria-label]"'


class CountedClicks:
    def __init__(self, page: Page) -> None:
        self.page = page
        self.actions: list[str] = []

    @property
    def presses(self) -> Sequence[str]:
        """The actions without the fields that are typed into."""
        return [one for one in self.actions if not one.startswith("type ")]

    async def press(self, name: str) -> None:
        """A link or button that leads to a page."""
        async with self.page.loading():
            await self.pick(name)
        assert self.page.status < 400, await self.page.text()

    async def pick(self, name: str) -> None:
        """What changes only the page itself."""
        self.actions.append(f"press {name}")
        place = await self._of(
            name,
            _PRESSED,
            "one.scrollIntoView({ block: 'center', behavior: 'instant' }); const box = one.getClientRects()[0];"
            " return { x: box.x + box.width / 2, y: box.y + box.height / 2 }",
        )
        for kind in ("mousePressed", "mouseReleased"):
            await self.page._ask("Input.dispatchMouseEvent", type=kind, x=place["x"], y=place["y"], button="left", clickCount=1)

    async def type(self, label: str, text: str) -> None:
        """Into the field with this label, in place of what stands there."""
        self.actions.append(f"type {label}")
        await self._focus(label)
        await self.page.type(text)

    async def type_moment(self, label: str, digits: str) -> None:
        """Month, day, year, Tab, hour, minute and half of the day, as keys."""
        self.actions.append(f"type {label}")
        await self._focus(label)
        for one in digits:
            await self._key(one)

    async def choose(self, label: str, option: str) -> None:
        """By the first letters, as keys choose in a closed list."""
        self.actions.append(f"choose {option}")
        await self._focus(label)
        for one in option:
            await self._key(one)
        chosen = await self.page.evaluate("document.activeElement.selectedOptions[0].label")
        assert chosen.startswith(option), chosen

    async def upload(self, label: str, file: Path) -> None:
        self.actions.append(f"choose a file for {label}")
        await self._focus(label)
        found = await self.page._ask("Runtime.evaluate", expression="document.activeElement")
        await self.page._ask("DOM.setFileInputFiles", files=[str(file)], objectId=found["result"]["objectId"])

    async def search(self, text: str) -> None:
        """The slash key, the words, and Enter."""
        self.actions += ["press /", f"type {text}", "press Enter"]
        await self.page.press("/")
        await self.page.type(text)
        async with self.page.loading():
            await self.page.press("Enter")

    async def download(self, name: str) -> str:
        """A link to a file. Returns what the browser has saved; the page stays."""
        folder = Path.cwd() / "saved"
        folder.mkdir()
        await self.page._ask("Page.setDownloadBehavior", behavior="allow", downloadPath=str(folder))
        await self.pick(name)
        with trio.fail_after(PATIENCE):
            # While the file arrives, it has a name of the browser's own.
            while not (saved := list(folder.glob("*.csv"))):
                await trio.sleep(0.05)
        return saved[0].read_text()

    async def reads(self, *texts: str) -> None:
        """Waits until they stand there: pages that leave by themselves may come before."""
        said = await self.page.text()
        with trio.move_on_after(PATIENCE):
            while any(one not in said for one in texts):
                await trio.sleep(0.05)
                said = await self.page.text()
        assert [one for one in texts if one not in said] == [], f"{await self.page.place()}: {said}"

    async def _focus(self, label: str) -> None:
        field = "const field = one.control || one; field.focus(); if (field.select) field.select(); return true"
        await self._of(label, _FIELDS, field)

    async def _of(self, name: str, kinds: str, done: str) -> dict[str, float]:
        found: dict[str, float] = await self.page.evaluate(f"(one => {{ {done} }})({_FOUND}({json.dumps(name)}, {kinds}))")
        return found

    async def _key(self, one: str) -> None:
        if one == "\t":
            await self.page.press("Tab")
            return
        await self.page._ask("Input.dispatchKeyEvent", type="keyDown", text=one, key=one, unmodifiedText=one)
        await self.page._ask("Input.dispatchKeyEvent", type="keyUp", key=one)


def told(actions: Sequence[str]) -> str:
    return f"{len(actions)}: {', '.join(actions)}"
