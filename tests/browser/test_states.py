"""Every page in every state passes the checks for pages.

Each state is checked on a phone in English, German and Arabic: the first language of each text, one with long words, and the one from right
to left. Of each fourth state, the contrast is checked in the dark. With `POSTERN_TEST_VISITS=every`, each state is checked in all
languages, on a phone and on a desk, in light and dark, as `make check-all` does. With `--rooms due`, a state that looks as it did when it
was last green is not visited, but for one of five (`tests/runs/rooms.py`).
"""

import re
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from itertools import product
from typing import Final

import pytest

from core.domain.languages import Language
from entrypoints.http.pages.kit import shipped_pages
from entrypoints.http.server.limits import ServerSettings
from ops.browser.chromium import Chromium
from ops.browser.page import NARROW, WIDE, Page, same_page
from tests.browser.checks import EVERY, contrast_findings, require_keyboard, require_sound
from tests.browser.conftest import ADDRESS
from tests.browser.gallery import gallery, place
from tests.browser.settings import SETTINGS
from tests.browser.states import State, states
from tests.http.pages.test_look import MOST_BYTES
from tests.http.people import BASE_URL
from tests.http.running_server import Certificate, application, running
from tests.places import templates
from tests.runs.rooms import Sweep
from tests.words import private_phrases

STATES: Final = states()
IN_CI: Final = (Language.ENGLISH, Language.GERMAN, Language.ARABIC)
LANGUAGES: Final = tuple(Language) if EVERY else IN_CI
NARROWEST: Final = 320
# An Arabic letter takes two bytes.
MOST_BYTES_OF_ACCOUNT: Final = 44 << 10
# Twenty organizations with what a membership brings, in scripts whose letters take two bytes.
MOST_BYTES_OF_LIST: Final = 34 << 10
# These templates are the base of others, or are not for people with an account.
NO_PAGES: Final = {
    "shell.html",
    "layout.html",
    "account_layout.html",
    "parts.html",
    "account/details/parts.html",
    "account/terms/parts.html",
    "documentation/frame.html",
    "documentation/parts.html",
    "documentation/contents.html",
    "documentation/guide.html",
    "documentation/guides.html",
    "documentation/chapter.html",
    "documentation/errors.html",
    "account/frame.html",
    "account/parts.html",
    "development/parts.html",
    "look/icons.html",
    "look/menus.html",
}


BESIDE: Final = [one for one in SETTINGS if one.width != NARROW]
WIDTHS: Final = (NARROW, WIDE) if EVERY else (NARROW,)


@asynccontextmanager
async def shown(browser: Chromium, certificate: Certificate) -> AsyncIterator[Page]:
    # The tab stays, and so would its connection.
    settings = ServerSettings(certificate=certificate.certificate, certificate_key=certificate.key, drain=0)
    async with (
        browser.attached() as chromium,
        running(application(gallery(STATES)), settings, address=ADDRESS),
        same_page(chromium, BASE_URL) as page,
    ):
        yield page


@pytest.mark.parametrize("number", range(len(STATES)), ids=[state.name for state in STATES])
async def test_a_page_in_this_state_is_told_in_every_language_light_and_sound(
    number: int, sweep: Sweep, browser_process: Chromium, certificate: Certificate
) -> None:
    told = [STATES[number].page(language) for language in LANGUAGES]
    require_told_and_light(STATES[number], told)
    # Its addresses of styles and scripts have their digests.
    if sweep.is_due(f"state {STATES[number].name}", b"".join(told)):
        async with shown(browser_process, certificate) as page:
            await require_sound_as_it_is(number, page)


async def require_sound_as_it_is(number: int, shown: Page) -> None:
    for language, width in product(LANGUAGES, WIDTHS):
        await shown.show(width=width, scheme="light")
        await shown.open(place(number, language))
        await require_sound(shown)
        if EVERY:
            await shown.show(width=width, scheme="dark")
            assert list(await contrast_findings(shown)) == []
    # Above, each is narrow, and in Arabic. The other three settings take turns.
    setting = BESIDE[number % len(BESIDE)]
    await setting.show(shown)
    await shown.open(place(number))
    await require_sound(shown)
    await require_keyboard(shown)
    await shown.show(width=NARROWEST, scheme="dark")
    # The colours of all pages are the same, and have a test (`test_look.py`).
    if EVERY or number % 4 == 0:
        assert list(await contrast_findings(shown)) == []
    assert await shown.overflow() == 0
    assert await shown._probe("torn") == []


def test_every_page_has_its_states() -> None:
    # The application itself shows pages of the console (`test_console.py`) and of set-up links (`test_setup_links.py`).
    shown = {one for one in templates() if not one.startswith(("console/", "setup/"))}
    assert {state.template for state in STATES} == shown - NO_PAGES
    assert len({state.name for state in STATES}) == len(STATES)


def require_told_and_light(state: State, told: Sequence[bytes]) -> None:
    assert len(set(told)) == len(LANGUAGES)
    assert private_phrases(told[LANGUAGES.index(Language.ENGLISH)]) == []
    for page in told:
        loaded = re.findall(r'(?:href|src)="/assets/(\w+)/([\w.-]+)"', page.decode())
        kinds = [name.rpartition(".")[2] for _, name in loaded]
        # The states show our own mark as the logo of a provider.
        assert [kinds[0], *(kind for kind in kinds[1:] if kind != "svg")] in (
            ["svg", "css"],
            ["svg", "css", "js"],
            ["svg", "css", "js", "js"],
        )
        assets = [shipped_pages().asset(digest, name) or (b"", "") for digest, name in loaded]
        # Whoever is signed in gets the frame of the account pages, too: its menus, and the styles of its cards.
        most = MOST_BYTES_OF_ACCOUNT if any(name.startswith("account") for _, name in loaded) else MOST_BYTES
        if state.name == "listed by many organizations":
            most = MOST_BYTES_OF_LIST
        assert len(page) + sum(len(content) for content, _ in assets) <= most
