"""Takes pictures of every page in every state and puts them side by side, so that a person can compare how the pages look.

    .venv/bin/python -m tests.browser.contact_sheet [--of WORD] [--language de] [FOLDER]

The command writes a few PNGs for each width and light to FOLDER, each with a dozen pages. Without a FOLDER, it writes to
build/contact-sheet. `--of consent` takes only the states with that word in their name. `--of console` takes the pages of the console, which
an application answers over a database of its own. `--forty` takes the forty pages that people see most (`settings.py`), in each of the five
settings.
"""

import argparse
import html
import shutil
import tempfile
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final, get_args

import trio

from core.domain.languages import CONSOLE_LANGUAGES, Language
from entrypoints.http.server.limits import ServerSettings
from ops.browser.chromium import PROGRAM, started
from ops.browser.page import NARROW, WIDE, Page, Scheme, new_page
from tests.browser.console_gallery import CONSOLE, OWN, ConsolePage, console_pages
from tests.browser.gallery import gallery, place
from tests.browser.settings import FORTY, SETTINGS, Setting
from tests.browser.states import State, states
from tests.http.running_server import Certificate, application, running
from tests.security.organizations.console import OF_ORGANIZATION

Pictured = State | ConsolePage


ROOT: Final = Path(__file__).resolve().parents[2]
_AT: Final = ("127.42.0.1", 8443)
_BASE_URL: Final = "https://sheet.example"
_ON_A_SHEET: Final = {NARROW: 12, WIDE: 9}
_COLUMNS: Final = {NARROW: 6, WIDE: 3}
# The width of a picture on the sheet.
_SHOWN: Final = {NARROW: NARROW, WIDE: 800}
_GAP: Final = 16
_STYLE: Final = "body { background: #999; font: 16px sans-serif } figure { margin: 0 } img { display: block }"


@dataclass(frozen=True, slots=True)
class Sheets:
    """The sheets of these states in this language, and the folder for them."""

    states: Sequence[Pictured]
    language: Language
    workshop: Path
    folder: Path

    async def take(self, page: Page) -> None:
        for width in (NARROW, WIDE):
            for scheme in get_args(Scheme):
                await self.take_in(page, Setting(name=f"{width}-{scheme}", width=width, scheme=scheme, language=self.language))

    async def take_in(self, page: Page, setting: Setting) -> None:
        near = min((NARROW, WIDE), key=lambda width: abs(width - setting.width))
        pictures = [await self._picture(page, number, setting) for number in range(len(self.states))]
        await page.show(width=_COLUMNS[near] * (_SHOWN[near] + _GAP) + _GAP)
        for number, first in enumerate(range(0, len(pictures), _ON_A_SHEET[near]), 1):
            await page.open(self._sheet(pictures[first : first + _ON_A_SHEET[near]], _COLUMNS[near], _SHOWN[near]))
            self._keep(f"{setting.name}-{number}.png", await page.picture())

    async def _picture(self, page: Page, number: int, setting: Setting) -> tuple[str, Path]:
        await page.show(width=setting.width, scheme=setting.scheme)
        await page.open(place(number, setting.language))
        picture = self.workshop / f"{setting.name}-{number}.png"
        picture.write_bytes(await page.picture())
        return self.states[number].name, picture

    def _sheet(self, pictures: Sequence[tuple[str, Path]], columns: int, shown: int) -> str:
        figures = "".join(
            f'<figure><figcaption>{html.escape(name)}</figcaption><img src="{picture.as_uri()}" width="{shown}"></figure>'
            for name, picture in pictures
        )
        style = f"margin: {_GAP}px; display: grid; grid-template-columns: repeat({columns}, {shown}px); gap: {_GAP}px; align-items: start"
        sheet = self.workshop / "sheet.html"
        sheet.write_text(f"<!doctype html><meta charset=utf-8><style>{_STYLE} body {{ {style} }}</style>{figures}")
        return sheet.as_uri()

    def _keep(self, name: str, picture: bytes) -> None:
        target = self.folder / name
        target.write_bytes(picture)
        print(target)


@asynccontextmanager
async def in_gallery(shown: Sequence[Pictured], program: str, workshop: Path) -> AsyncIterator[Page]:
    """A page in a browser that reaches these states, each under its number (`place`)."""
    certificate = Certificate.make(workshop)
    settings = ServerSettings(certificate=certificate.certificate, certificate_key=certificate.key)
    with started(program, workshop / "chromium", examples_at=f"{_AT[0]}:{_AT[1]}") as process:
        async with (
            running(application(gallery(shown)), settings, address=_AT),
            process.attached() as chromium,
            new_page(chromium, _BASE_URL, scripts=True) as page,
        ):
            yield page


async def take(program: str, of: str, language: Language, folder: Path, workshop: Path) -> None:
    wanted: list[Pictured] = [state for state in states() if of in state.name]
    if language in CONSOLE_LANGUAGES and (CONSOLE.startswith(of) or of.startswith(CONSOLE)):
        wanted += await console_pages([language], workshop, lambda name: of in name)
    async with in_gallery(wanted, program, workshop) as page:
        await Sheets(wanted, language, workshop, folder).take(page)


async def take_forty(program: str, folder: Path, workshop: Path) -> None:
    languages = list({setting.language: None for setting in SETTINGS})
    paths = {path.removeprefix(OF_ORGANIZATION) or "/" for path in FORTY}
    wanted = await console_pages(
        languages, workshop, lambda name: name.partition(": ")[0] in {CONSOLE, OWN} and name.partition(": ")[2] in paths
    )
    async with in_gallery(wanted, program, workshop) as page:
        for setting in SETTINGS:
            await Sheets(wanted, setting.language, workshop, folder).take_in(page, setting)


def browser() -> str:
    """Raises `SystemExit` without one."""
    program = shutil.which(PROGRAM)
    if program is None:
        raise SystemExit(f"{PROGRAM} is not installed; ops/install-test-tools installs it")
    return program


def main() -> None:
    parser = argparse.ArgumentParser(description="Pictures of every page in every state")
    parser.add_argument("folder", nargs="?", type=Path, default=ROOT / "build" / "contact-sheet")
    parser.add_argument("--of", default="", metavar="WORD", help="only states with this word in their name")
    parser.add_argument("--language", type=Language, default=Language.ENGLISH, choices=list(Language))
    parser.add_argument("--forty", action="store_true", help="the forty pages that people see most, in five settings")
    given = parser.parse_args()
    program = browser()
    given.folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as workshop:
        shop = Path(workshop)
        taking = partial(take_forty, program) if given.forty else partial(take, program, given.of, given.language)
        trio.run(taking, given.folder, shop)


if __name__ == "__main__":
    main()
