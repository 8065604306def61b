"""A page in Chromium, as a person uses it: names and labels instead of selectors, and real keys and clicks. Meanwhile faults are collected:
violations of the policy, errors of scripts, requests to other addresses.
"""

import base64
import json
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Final, Literal
from urllib.parse import urljoin

import trio

from ops.browser.chromium import Chromium
from ops.browser.heard import BrowserEvents, Loaded
from ops.browser.in_page import PROBES
from ops.browser.keys import KEYS

Scheme = Literal["light", "dark"]
NARROW: Final = 390
WIDE: Final = 1280
_TALL: Final = {NARROW: 844, WIDE: 800}


@dataclass
class Page:
    chromium: Chromium
    session: str
    base_url: str
    scripts: bool
    heard: BrowserEvents = field(default_factory=BrowserEvents)

    # Going somewhere.

    async def open(self, place: str) -> None:
        """Opens a path of ours, or a whole address."""
        async with self.loading():
            answer = await self._ask("Page.navigate", url=urljoin(self.base_url, place))
            assert not answer.get("errorText"), f"{place}: {answer['errorText']}"

    async def follow(self, name: str) -> None:
        """Click on the link or button of this name, and wait for the page that it leads to."""
        async with self.loading():
            await self.click(name)

    async def leave(self, name: str, to: str) -> str:
        """Clicks a control that leads to an address that no browser opens here, such as an application's own scheme. Returns
        that address.
        """
        seen = len(self.documents)

        def found() -> list[str]:
            return [one.location for one in self.documents[seen:] if one.location.startswith(to)]

        await self.click(name)
        await self.heard.until(found)
        return found()[0]

    async def back(self) -> None:
        history = await self._ask("Page.getNavigationHistory")
        async with self.loading():
            await self._ask("Page.navigateToHistoryEntry", entryId=history["entries"][history["currentIndex"] - 1]["id"])

    async def reload(self) -> None:
        async with self.loading():
            await self._ask("Page.reload")

    @asynccontextmanager
    async def loading(self) -> AsyncIterator[None]:
        """Wraps an action that leads to another page, and waits until that page is loaded."""
        before = self.heard.loads
        yield
        await self.heard.until(lambda: self.heard.loads > before)

    async def arrived(self, place: str) -> None:
        """Waits until the page is at this address, or at one that begins so; pages that leave by themselves may come before."""
        await self.heard.until(lambda: self.heard.place.startswith(place))

    # Using it.

    async def fill(self, label: str, value: str) -> None:
        """Replaces the text in the field with this label."""
        await self._probe("focusField", label)
        await self._ask("Input.insertText", text=value)

    async def click(self, name: str) -> None:
        """Clicks the link, button, box or heading that has this name for a person."""
        place = await self._probe("placeOf", name)
        for kind in ("mousePressed", "mouseReleased"):
            await self._ask("Input.dispatchMouseEvent", type=kind, x=place["x"], y=place["y"], button="left", clickCount=1)

    async def press(self, key: str, *, shift: bool = False) -> None:
        parameters = {**KEYS[key], "modifiers": 8 if shift else 0}
        await self._ask("Input.dispatchKeyEvent", type="keyDown", **parameters)
        await self._ask("Input.dispatchKeyEvent", type="keyUp", **{name: value for name, value in parameters.items() if name != "text"})

    async def type(self, text: str) -> None:
        """Types into the focused element."""
        await self._ask("Input.insertText", text=text)

    # Looking at it.

    async def text(self) -> str:
        """The text that a person reads, in one line, without the joiners that keep short parts of words together. A page that arrives has
        none yet.
        """
        return " ".join(str(await self.evaluate("document.body?.innerText ?? ''")).replace("\u2060", "").split())

    async def title(self) -> str:
        return str(await self.evaluate("document.title"))

    async def place(self) -> str:
        return str(await self.evaluate("location.href"))

    async def focused(self) -> str:
        """The name of the focused element; empty if no element has the focus."""
        return str(await self._probe("focused"))

    async def described(self, label: str) -> str:
        """The descriptions of the field with this label: an error first, then a hint."""
        return str(await self._probe("described", label))

    @property
    def documents(self) -> Sequence[Loaded]:
        """Every document so far, redirects among them."""
        return self.heard.documents

    @property
    def violations(self) -> Sequence[str]:
        return self.heard.violations

    @property
    def status(self) -> int:
        return self.documents[-1].status

    async def cookies(self) -> Mapping[str, Mapping[str, Any]]:
        answer = await self._ask("Network.getCookies")
        return {one["name"]: one for one in answer["cookies"]}

    async def keep_cookie(self, name: str, value: str) -> None:
        """Sets the cookie as Postern would, for a person who has signed in already."""
        await self._ask(
            "Network.setCookie", url=self.base_url, name=name, value=value, path="/", secure=True, httpOnly=True, sameSite="Lax"
        )

    async def show(self, *, width: int = NARROW, scheme: Scheme = "light", language: str = "en") -> None:
        """Sets the window's size and the person's preferences, from the next page on."""
        await self._ask("Emulation.setDeviceMetricsOverride", width=width, height=_TALL.get(width, 800), deviceScaleFactor=1, mobile=False)
        await self._ask("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
        await self._ask("Network.setExtraHTTPHeaders", headers={"Accept-Language": language})

    async def overflow(self) -> int:
        """The number of pixels by which the page is wider than its window."""
        return int(await self._probe("wider"))

    async def picture(self, *, quality: int | None = None, whole: bool = True) -> bytes:
        """All of the page, or what the window shows, as a PNG; with a quality, as a WebP of it."""
        kind = {"format": "png"} if quality is None else {"format": "webp", "quality": quality}
        metrics = await self._ask("Page.getLayoutMetrics")
        size = metrics["cssContentSize"] if whole else _extent(metrics["cssVisualViewport"])
        clip = {"x": 0, "y": 0, "width": size["width"], "height": size["height"], "scale": 1}
        # Chromium moves a page from right to left aside when it reaches beyond a window that shows all of it.
        beyond = size["height"] > metrics["cssVisualViewport"]["clientHeight"]
        taken = await self._ask("Page.captureScreenshot", **kind, clip=clip, captureBeyondViewport=beyond)
        return base64.b64decode(taken["data"])

    async def evaluate(self, expression: str) -> Any:
        answer = await self._ask("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in answer:
            details = answer["exceptionDetails"]
            raise AssertionError(details.get("exception", {}).get("description", details["text"]))
        return answer["result"].get("value")

    async def _probe(self, name: str, *arguments: str) -> Any:
        return await self.evaluate(f"({PROBES}).{name}({', '.join(json.dumps(argument) for argument in arguments)})")

    async def _ask(self, method: str, **parameters: Any) -> Mapping[str, Any]:
        return await self.chromium.ask(method, self.session, **parameters)


def _extent(window: Mapping[str, Any]) -> Mapping[str, Any]:
    return {"width": window["clientWidth"], "height": window["clientHeight"]}


@asynccontextmanager
async def new_page(chromium: Chromium, base_url: str, *, scripts: bool) -> AsyncIterator[Page]:
    """A page in a new context: no cookies, no cache, no history."""
    context = (await chromium.ask("Target.createBrowserContext"))["browserContextId"]
    try:
        yield await page_in(chromium, context, base_url, scripts=scripts)
    finally:
        with trio.CancelScope(shield=True):
            await chromium.ask("Target.disposeBrowserContext", browserContextId=context)


@asynccontextmanager
async def same_page(chromium: Chromium, base_url: str) -> AsyncIterator[Page]:
    """The tab of earlier tests in this browser, so that the scripts that each test runs are compiled only once. For tests that leave
    nothing behind in the tab.
    """
    if chromium.kept_target is None:
        chromium.kept_target = await _new_target(chromium, (await chromium.ask("Target.createBrowserContext"))["browserContextId"])
    page = await _page_of(chromium, chromium.kept_target, base_url, scripts=True)
    try:
        yield page
    finally:
        with trio.CancelScope(shield=True):
            await chromium.ask("Target.detachFromTarget", sessionId=page.session)


async def page_in(chromium: Chromium, context: str, base_url: str, *, scripts: bool) -> Page:
    """One more tab of the same person."""
    return await _page_of(chromium, await _new_target(chromium, context), base_url, scripts=scripts)


async def tab_beside(page: Page) -> Page:
    """One more tab in the browser of this page, with the same cookies."""
    target = (await page.chromium.ask("Target.getTargetInfo", page.session))["targetInfo"]
    return await page_in(page.chromium, target["browserContextId"], page.base_url, scripts=page.scripts)


async def _new_target(chromium: Chromium, context: str) -> str:
    return str((await chromium.ask("Target.createTarget", url="about:blank", browserContextId=context))["targetId"])


async def _page_of(chromium: Chromium, target: str, base_url: str, *, scripts: bool) -> Page:
    session = (await chromium.ask("Target.attachToTarget", targetId=target, flatten=True))["sessionId"]
    page = Page(chromium, session, base_url, scripts)
    chromium.listen(session, page.heard)
    for domain in ("Page", "Network", "Log", "Runtime", "Audits"):
        await chromium.ask(f"{domain}.enable", session)
    await chromium.ask("Page.setLifecycleEventsEnabled", session, enabled=True)
    if not scripts:
        await chromium.ask("Emulation.setScriptExecutionDisabled", session, value=True)
    await page.show()
    return page
