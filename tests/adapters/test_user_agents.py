"""What clients say about themselves, and what we read from it. The texts are those of real clients."""

# ruff: noqa: E501 - real clients say much

import subprocess
import sys
import time
from typing import Final

import pytest
import trio
from hypothesis import given, settings
from hypothesis import strategies as st

from adapters.user_agents import LibraryUserAgents, _load, _part
from core.domain.identity.devices import LONGEST_NAME, DeviceType, UserAgent

# fmt: off
CLIENTS: Final = [
    ("Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/131.0.0.0 Safari/537.36", "browser", "Chrome", "131.0.0", "Windows", "10"),
    ("Mozilla/5.0 (Windows NT 10.0; Win64; x64; rv:133.0) Gecko/20100101 Firefox/133.0", "browser", "Firefox", "133.0", "Windows", "10"),
    ("Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/131.0.0.0 Safari/537.36 Edg/131.0.2903.86", "browser", "Edge", "131.0.2903", "Windows", "10"),
    ("Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/131.0.0.0 Safari/537.36 OPR/115.0.0.0", "browser", "Opera", "115.0.0", "Windows", "10"),
    ("Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/18.1 Safari/605.1.15", "browser", "Safari", "18.1", "Mac OS X", "10.15.7"),
    ("Mozilla/5.0 (X11; Linux x86_64; rv:133.0) Gecko/20100101 Firefox/133.0", "browser", "Firefox", "133.0", "Linux", None),
    ("Mozilla/5.0 (X11; Ubuntu; Linux x86_64; rv:133.0) Gecko/20100101 Firefox/133.0", "browser", "Firefox", "133.0", "Ubuntu", None),
    ("Mozilla/5.0 (X11; CrOS x86_64 14541.0.0) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/131.0.0.0 Safari/537.36", "browser", "Chrome", "131.0.0", "Chrome OS", "14541.0.0"),
    ("Mozilla/5.0 (iPhone; CPU iPhone OS 18_1_1 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/18.1.1 Mobile/15E148 Safari/604.1", "mobile", "Mobile Safari", "18.1.1", "iOS", "18.1.1"),
    ("Mozilla/5.0 (iPad; CPU OS 17_5 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/17.5 Mobile/15E148 Safari/604.1", "mobile", "Mobile Safari", "17.5", "iOS", "17.5"),
    ("Mozilla/5.0 (iPhone; CPU iPhone OS 18_1 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) CriOS/131.0.6778.73 Mobile/15E148 Safari/604.1", "mobile", "Chrome Mobile iOS", "131.0.6778", "iOS", "18.1"),
    ("Mozilla/5.0 (iPhone; CPU iPhone OS 14_7 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) FxiOS/133.0 Mobile/15E148 Safari/605.1.15", "mobile", "Firefox iOS", "133.0", "iOS", "14.7"),
    ("Mozilla/5.0 (Linux; Android 10; K) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/131.0.0.0 Mobile Safari/537.36", "mobile", "Chrome Mobile", "131.0.0", "Android", "10"),
    ("Mozilla/5.0 (Android 14; Mobile; rv:133.0) Gecko/133.0 Firefox/133.0", "mobile", "Firefox Mobile", "133.0", "Android", "14"),
    ("Mozilla/5.0 (Linux; Android 14; SM-S921B) AppleWebKit/537.36 (KHTML, like Gecko) SamsungBrowser/26.0 Chrome/122.0.0.0 Mobile Safari/537.36", "mobile", "Samsung Internet", "26.0", "Android", "14"),
    ("Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/537.36 (KHTML, like Gecko) Slack/4.41.97 Chrome/130.0.6723.118 Electron/33.2.0 Safari/537.36", "desktop", "Slack", "4.41.97", "Mac OS X", "10.15.7"),
    ("Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) MyApp/1.95.3 Chrome/128.0.6613.186 Electron/32.2.1 Safari/537.36", "desktop", "MyApp", "1.95.3", "Linux", None),
    ("Mozilla/5.0 (Windows NT 6.1; WOW64; Trident/7.0; rv:11.0) like Gecko", "browser", "IE", "11.0", "Windows", "7"),
    ("Dalvik/2.1.0 (Linux; U; Android 14; Pixel 8 Build/UQ1A.240105.004)", "mobile", "Android", "14", "Android", "14"),
    ("okhttp/4.12.0", "cli", "okhttp", "4.12.0", None, None),
    ("curl/8.5.0", "cli", "curl", "8.5.0", None, None),
    ("curl/7.88.1 (x86_64-pc-linux-gnu) libcurl/7.88.1", "cli", "curl", "7.88.1", "Linux", None),
    ("Wget/1.21.4", "cli", "Wget", "1.21.4", None, None),
    ("python-requests/2.32.3", "cli", "Python Requests", "2.32", None, None),
    ("python-httpx/0.28.1", "cli", "python-httpx", "0.28.1", None, None),
    ("Python/3.11 aiohttp/3.11.9", "cli", "Python aiohttp", "3.11.9", None, None),
    ("Python-urllib/3.11", "cli", "Python-urllib", "3.11", None, None),
    ("Go-http-client/2.0", "cli", "Go-http-client", "2.0", None, None),
    ("HTTPie/3.2.4", "cli", "HTTPie", "3.2.4", None, None),
    ("Java/17.0.9", "cli", "Java", "17.0.9", None, None),
    ("Java-http-client/21.0.5", "cli", "Java-http-client", "21.0.5", None, None),
    ("Apache-HttpClient/4.5.14 (Java/17.0.9)", "cli", "Apache-HttpClient", "4.5.14", None, None),
    ("axios/1.7.9", "cli", "axios", "1.7.9", None, None),
    ("node", "cli", "node", None, None, None),
    ("undici", "cli", "undici", None, None, None),
    ("node-fetch/1.0 (+https://github.com/bitinn/node-fetch)", "cli", "node-fetch", "1.0", None, None),
    ("Deno/2.1.2", "cli", "Deno", "2.1.2", None, None),
    ("Bun/1.1.38", "cli", "Bun", "1.1.38", None, None),
    ("PostmanRuntime/7.43.0", "cli", "PostmanRuntime", "7.43.0", None, None),
    ("insomnia/10.2.0", "cli", "insomnia", "10.2.0", None, None),
    ("Mozilla/5.0 (Windows NT; Windows NT 10.0; en-US) WindowsPowerShell/5.1.19041.4522", "cli", "WindowsPowerShell", "5.1.19041", "Windows", "10"),
    ("libwww-perl/6.77", "cli", "libwww-perl", "6.77", None, None),
    ("Ruby", "cli", "Ruby", None, None, None),
    ("Faraday v2.12.1", "cli", "Faraday", "2.12.1", None, None),
    ("GuzzleHttp/7", "cli", "GuzzleHttp", "7", None, None),
    ("reqwest/0.12.9", "cli", "reqwest", "0.12.9", None, None),
    ("git/2.43.0", "cli", "git", "2.43.0", None, None),
    ("MyApp/3.2 CFNetwork/1568.200.51 Darwin/24.1.0", "mobile", "MyApp", "3.2", "iOS", "18.1"),
    ("MyApp/1.2 (iPhone; iOS 18.1; Scale/3.00)", "mobile", "Mobile Safari UI/WKWebView", None, "iOS", "18.1"),
    ("MyApp/1.2 (Windows NT 10.0)", "desktop", "MyApp", "1.2", "Windows", "10"),
    ("postern-cli/0.1.0", "cli", "postern-cli", "0.1.0", None, None),
    ("Mozilla/5.0", "browser", None, None, None, None),
    ("Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)", "browser", "Googlebot", "2.1", None, None),
    ("Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) HeadlessChrome/131.0.0.0 Safari/537.36", "browser", "HeadlessChrome", "131.0.0", "Linux", None),
    ("", "cli", None, None, None, None),
]
# fmt: on
HOSTILE: Final = [
    *("x" * 512, "(" * 512, "/" * 512, " " * 512, "1." * 256, "a/1 " * 128, "Version/" * 64, "Firefox/" * 64, "Android " * 64),
    *("Mozilla/5.0 " + "a " * 250, "Mozilla/5.0 (Linux; Android " + ";" * 480, "Mozilla/5.0 (" + "iPhone OS " * 50),
    *("Mozilla/5.0 (Windows NT 10.0) " + "Chrome/1 " * 53, "\N{LATIN CAPITAL LETTER I WITH DOT ABOVE}" * 512, "\0" * 512, "\ud800" * 512),
    *("Mozilla/5.0 AppleWebKit (KHTML, like Gecko) " + "a" * 39 + "/1 Electron/", "'; drop table devices; --", "<script>alert(1)</script>"),
]


@pytest.mark.parametrize(("text", "kind", "browser", "version", "system", "system_version"), CLIENTS)
async def test_clients_are_what_they_say(
    text: str, kind: str, browser: str | None, version: str | None, system: str | None, system_version: str | None
) -> None:
    assert _parse(text) == UserAgent(DeviceType(kind), browser, version, system, system_version)


_parse = _load()


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
async def test_no_text_takes_long_or_names_a_device_at_length(text: str) -> None:
    agents = LibraryUserAgents()
    await agents.parse("warm")
    before = time.process_time()
    # A thousand times as long is cut; a different end keeps the cache out of it.
    found = [await agents.parse(f"{number}{text}" * 1000) for number in range(10)] + [await agents.parse(text)]
    assert (time.process_time() - before) / len(found) < 0.002
    for one in found:
        assert 0 < len(one.name) <= LONGEST_NAME
        assert all(part is None or part.isprintable() for part in (one.name, one.browser_version, one.os_version))


@settings(max_examples=50)
@given(st.text(max_size=600) | st.text(st.characters(max_codepoint=127), max_size=600).map("Mozilla/5.0 ".__add__))
def test_nonsense_is_a_client_too(text: str) -> None:
    found = _parse(text)
    assert found.device_type in DeviceType
    assert 0 < len(found.name) <= LONGEST_NAME


def test_what_an_expression_took_from_the_text_is_cleaned_and_cut() -> None:
    assert _part("\N{RIGHT-TO-LEFT OVERRIDE}a\0b\n ") == "ab"
    assert _part("\N{NO-BREAK SPACE}\t") is None
    assert _part("x" * 100) == "x" * 40


async def test_many_first_sign_ins_at_once_load_the_library_once() -> None:
    _load.cache_clear()
    agents = LibraryUserAgents()
    found: list[UserAgent] = []

    async def ask() -> None:
        found.append(await agents.parse("curl/8.5.0"))

    async with trio.open_nursery() as nursery:
        for _ in range(20):
            nursery.start_soon(ask)
    assert len({id(one) for one in found}) == 1


MEASURED: Final = """
import sys
from pathlib import Path
import trio
from adapters.user_agents import LibraryUserAgents

def resident():
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096

agents = LibraryUserAgents()
assert "ua_parser" not in sys.modules
before = resident()
trio.run(agents.parse, "curl/8.5.0")
print((resident() - before) / 1e6)
"""


async def test_a_process_without_sign_ins_does_without_the_library_and_with_them_it_is_light() -> None:
    measured = await trio.run_process([sys.executable, "-c", MEASURED], capture_stdout=True, stderr=subprocess.STDOUT)
    assert float(measured.stdout) < 30
