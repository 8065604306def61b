"""Reads the `User-Agent` header with the library `ua-parser` and its built-in expressions."""

import re
from collections.abc import Callable
from functools import cache, lru_cache
from typing import Final

import trio

from core.domain.identity.devices import LONGEST_USER_AGENT, DeviceType, UserAgent

# Texts of a few hundred characters each.
_CACHED: Final = 1024
# The longest part that is shown. The name of a device consists of two parts and " on ", so it stays well below the longest name allowed.
_LONGEST_PART: Final = 40

# (browser, its version, operating system, its version)
_Parts = tuple[str | None, str | None, str | None, str | None]

_MOBILE: Final = frozenset({"iOS", "Android", "Windows Phone", "KaiOS", "HarmonyOS", "Tizen", "BlackBerry OS", "Symbian OS"})
_COMPUTERS: Final = frozenset({"Windows", "Mac OS X"})
# Command-line tools that name their operating system. Without this list they would count as desktop programs.
_TOOLS: Final = re.compile(
    r"curl|wget|python|go-http|httpie|java|apache|powershell|perl|ruby|php|node|git\b|postman|insomnia", re.IGNORECASE
)
_BROWSER: Final = ("Mozilla/", "Opera/")
# A program that the library does not know: `postern-cli/1.2` (RFC 9110 section 10.1.5), or only a name.
_PRODUCT: Final = re.compile(r"([A-Za-z][\w.+-]{0,39})(?:[/ ]v?(\d[\w.]{0,39}))?(?![\w/])")
# An Electron program writes its own name before the name of the browser inside it.
_ELECTRON: Final = re.compile(r"like Gecko\) ([A-Za-z][\w.+-]{0,39})/(\d[\w.]{0,39}) ")


class LibraryUserAgents:
    """Implements `ports.identity.sign_in.UserAgents`.

    The library's Rust engine matches in linear time, so no text can keep the engine busy. Loading the expressions takes time and memory, so
    they are loaded in a thread at the first sign-in.
    """

    def __init__(self) -> None:
        self._loading = trio.Lock()
        self._parse: Callable[[str], UserAgent] | None = None

    async def parse(self, text: str) -> UserAgent:
        if self._parse is None:
            async with self._loading:
                if self._parse is None:
                    self._parse = await trio.to_thread.run_sync(_load)
        # The engine does not accept halves of surrogate pairs.
        return self._parse(text[:LONGEST_USER_AGENT].encode("utf-8", "replace").decode())


# Loading takes a hundred milliseconds, and the whole process shares the result.
@cache
def _load() -> Callable[[str], UserAgent]:
    # Of the three sets of expressions, the one for makers of hardware is the largest and is not needed.
    from ua_parser import Domain  # noqa: PLC0415 - 6 MB that a process without sign-ins does without
    from ua_parser.loaders import load_builtins  # noqa: PLC0415
    from ua_parser.regex import Resolver  # noqa: PLC0415

    browsers, systems, _ = load_builtins()
    resolver = Resolver((browsers, systems, []))
    wanted = Domain.USER_AGENT | Domain.OS

    def look_up(text: str) -> _Parts:
        found = resolver(text, wanted)
        agent, system = found.user_agent, found.os
        return (
            *((None, None) if agent is None else (_part(agent.family), _version(agent.major, agent.minor, agent.patch))),
            *((None, None) if system is None else (_part(system.family), _version(system.major, system.minor, system.patch))),
        )

    @lru_cache(maxsize=_CACHED)
    def parse(text: str) -> UserAgent:
        return _user_agent(text, *look_up(text))

    return parse


def _user_agent(text: str, browser: str | None, version: str | None, system: str | None, system_version: str | None) -> UserAgent:
    is_browser = text.startswith(_BROWSER)
    product = _ELECTRON.search(text) if browser == "Electron" else None
    if browser is None and not is_browser:
        product = _PRODUCT.match(text)
    if product is not None:
        named, version = product[1], product[2]
    else:
        named = browser
    return UserAgent(_type(browser or named, system, is_browser=is_browser), named, version, system, system_version)


def _type(browser: str | None, system: str | None, *, is_browser: bool) -> DeviceType:
    if system in _MOBILE:
        return DeviceType.MOBILE
    if browser == "Electron":
        return DeviceType.DESKTOP
    if browser is not None and _TOOLS.match(browser.removeprefix("Windows")):
        return DeviceType.CLI
    if is_browser:
        return DeviceType.BROWSER
    return DeviceType.DESKTOP if system in _COMPUTERS else DeviceType.CLI


def _part(text: str) -> str | None:
    """Some expressions match any name in the text, so the part is cut to printable characters and a limited length."""
    return "".join(filter(str.isprintable, text)).strip()[:_LONGEST_PART].strip() or None


def _version(*parts: str | None) -> str | None:
    known = []
    for part in parts:
        if part is None:
            break
        known.append(part)
    return _part(".".join(known))
