"""Every mail, as a browser of mails shows its HTML on a phone: sound, not cut, and mirrored where lines run from right to left.

Each is visited in English, German and Arabic; with `POSTERN_TEST_VISITS=every` in all languages, on phone and desk, in light and dark.
"""

from collections.abc import AsyncIterator
from itertools import product
from typing import Any, Final
from urllib.parse import parse_qs

import pytest

from core.domain.languages import Language
from entrypoints.http.pages.kit import HTML
from entrypoints.http.server.limits import ServerSettings
from ops.browser.chromium import Chromium
from ops.browser.page import Page, same_page
from tests.adapters.mail.test_templates import TEMPLATES, VALUES
from tests.browser.checks import EVERY, contrast_findings, findings
from tests.browser.conftest import ADDRESS
from tests.browser.states import ENDLESS, FROM_THE_RIGHT
from tests.browser.test_states import LANGUAGES, NARROWEST, WIDTHS
from tests.http.people import BASE_URL
from tests.http.running_server import Certificate, Receive, Send, application, running

NAMES: Final = list(VALUES)
# A mail is shown within a page of the program that people read mails with, which has the landmarks.
_OF_THE_PROGRAM: Final = ("landmark-one-main:", "region:")
# How far the heading begins from the edge of the card, at the side where lines of the language begin.
_BEGINS: Final = """(() => {
  const fromTheRight = getComputedStyle(document.documentElement).direction === "rtl";
  const range = document.createRange();
  range.selectNodeContents(document.querySelector("h1"));
  const parts = [...range.getClientRects()];
  const card = document.querySelector(".card").getBoundingClientRect();
  return fromTheRight ? card.right - Math.max(...parts.map(part => part.right)) : Math.min(...parts.map(part => part.left)) - card.left;
})()"""


async def mailbox(scope: Any, _receive: Receive, send: Send) -> None:
    asked = parse_qs(scope["query_string"].decode())
    name = NAMES[int(scope["path"].removeprefix("/"))]
    # Some are about names that are long, or from right to left.
    brand = ENDLESS if NAMES.index(name) % 2 else FROM_THE_RIGHT
    mail = TEMPLATES.mail(name, "ada@example.org", account=None, language=Language(asked["language"][0]), branding=brand, **VALUES[name])
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", HTML.encode())]})
    await send({"type": "http.response.body", "body": mail.html.encode()})


@pytest.fixture
async def shown(chromium: Chromium, certificate: Certificate) -> AsyncIterator[Page]:
    settings = ServerSettings(certificate=certificate.certificate, certificate_key=certificate.key, drain=0)
    async with running(application(mailbox), settings, address=ADDRESS), same_page(chromium, BASE_URL) as page:
        yield page


@pytest.mark.parametrize("number", range(len(NAMES)), ids=NAMES)
async def test_a_mail_is_sound(number: int, shown: Page) -> None:
    for language, width in product(LANGUAGES, WIDTHS):
        await shown.show(width=width, scheme="light")
        await shown.open(f"/{number}?language={language}")
        assert [one for one in await findings(shown) if not one.startswith(_OF_THE_PROGRAM)] == []
        assert await shown.overflow() == 0
        assert await shown._probe("torn") == []
        assert 20 <= await shown.evaluate(_BEGINS) <= 34, f"the heading does not begin where lines begin in {language}"
        if EVERY:
            await shown.show(width=width, scheme="dark")
            assert list(await contrast_findings(shown)) == []
    await shown.show(width=NARROWEST, scheme="dark")
    assert list(await contrast_findings(shown)) == []
    assert await shown.overflow() == 0
