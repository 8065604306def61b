"""Takes pictures of every page in every state and puts them side by side, so that a person can compare how the pages look.

    .venv/bin/python -m tests.browser.contact_sheet [--of WORD] [--language de] [FOLDER]

The command writes a few PNGs for each width and light to FOLDER, each with a dozen pages. Without a FOLDER, it writes to
build/contact-sheet. `--of consent` takes only the states with that word in their name. `--of console` takes the pages of the console, which
an application answers over a database of its own.

    .venv/bin/python -m tests.browser.contact_sheet --documents

writes smaller sheets of the console to docs/console, for docs/console.md.

    .venv/bin/python -m tests.browser.contact_sheet --first-page

writes one window of the console and one of a sign-in to docs/pictures, for README.md.
"""

import argparse
import html
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import partial
from pathlib import Path
from typing import Final, get_args

import trio

from core.domain.languages import CONSOLE_LANGUAGES, Language
from entrypoints.http.server.limits import ServerSettings
from ops.browser.chromium import PROGRAM, started
from ops.browser.page import NARROW, WIDE, Page, Scheme, new_page
from tests.browser.console_gallery import CONSOLE, ConsolePage, console_pages
from tests.browser.gallery import gallery, place
from tests.browser.states import State, states
from tests.http.running_server import Certificate, application, running

Pictured = State | ConsolePage


class Purpose(Enum):
    LOOKING = "build/contact-sheet"
    DOCUMENTS = "docs/console"
    FIRST_PAGE = "docs/pictures"


ROOT: Final = Path(__file__).resolve().parents[2]
_AT: Final = ("127.42.0.1", 8443)
_BASE_URL: Final = "https://sheet.example"
_ON_A_SHEET: Final = {NARROW: 12, WIDE: 9}
_COLUMNS: Final = {NARROW: 6, WIDE: 3}
# The width of a picture on the sheet.
_SHOWN: Final = {NARROW: NARROW, WIDE: 800}
_GAP: Final = 16
# Of the sheets in the documents: columns, rows, and the size of one picture, whose page is cut off below.
_IN_DOCUMENTS: Final[Mapping[int, tuple[int, int, int, int]]] = {WIDE: (4, 8, 400, 300), NARROW: (8, 6, 195, 300)}
_QUALITY: Final = 25
# Of README.md: the file, the name of the state, and the window.
_ON_FIRST_PAGE: Final = (("console", "console: /people", WIDE), ("sign-in", "sign in, with providers", NARROW))
_QUALITY_ON_FIRST_PAGE: Final = 80
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
                pictures = [await self._picture(page, number, width, scheme) for number in range(len(self.states))]
                await page.show(width=_COLUMNS[width] * (_SHOWN[width] + _GAP) + _GAP)
                for number, first in enumerate(range(0, len(pictures), _ON_A_SHEET[width]), 1):
                    await page.open(self._sheet(pictures[first : first + _ON_A_SHEET[width]], _COLUMNS[width], _SHOWN[width]))
                    self._keep(f"{width}-{scheme}-{number}.png", await page.picture())

    async def take_reduced(self, page: Page) -> None:
        """The pages at the size of stamps, wide in light and narrow in dark."""
        for width, scheme in ((WIDE, get_args(Scheme)[0]), (NARROW, get_args(Scheme)[1])):
            columns, rows, shown, high = _IN_DOCUMENTS[width]
            pictures = [await self._picture(page, number, width, scheme) for number in range(len(self.states))]
            await page.show(width=columns * (shown + _GAP) + _GAP)
            for number, first in enumerate(range(0, len(pictures), columns * rows), 1):
                await page.open(self._sheet(pictures[first : first + columns * rows], columns, shown, high))
                self._keep(f"{width}-{number}.webp", await page.picture(quality=_QUALITY))

        shown_on = self.folder.parent / "console.md"
        words, _, _ = shown_on.read_text().partition("![")
        names = sorted((file.name for file in self.folder.glob("*.webp")), key=lambda name: (len(name), name))
        shown_on.write_text(words + "\n".join(f"![Pages of the console](console/{name})" for name in names) + "\n")

    async def take_first(self, page: Page) -> None:
        """The windows that README.md shows."""
        names = [one.name for one in self.states]
        for file, state, width in _ON_FIRST_PAGE:
            await page.show(width=width)
            await page.open(place(names.index(state), self.language))
            self._keep(f"{file}.webp", await page.picture(quality=_QUALITY_ON_FIRST_PAGE, whole=False))

    async def _picture(self, page: Page, number: int, width: int, scheme: Scheme) -> tuple[str, Path]:
        await page.show(width=width, scheme=scheme)
        await page.open(place(number, self.language))
        picture = self.workshop / f"{width}-{scheme}-{number}.png"
        picture.write_bytes(await page.picture())
        return self.states[number].name, picture

    def _sheet(self, pictures: Sequence[tuple[str, Path]], columns: int, shown: int, high: int = 0) -> str:
        """`high` is the height of a picture that is cut off. 0 shows whole pages."""
        # A picture that is shorter stays whole, at its full width.
        cut = f' style="height: {high}px; overflow: hidden"' if high else ""
        figures = "".join(
            f'<figure><figcaption>{html.escape(name)}</figcaption><div{cut}><img src="{picture.as_uri()}" width="{shown}"></div></figure>'
            for name, picture in pictures
        )
        style = f"margin: {_GAP}px; display: grid; grid-template-columns: repeat({columns}, {shown}px); gap: {_GAP}px; align-items: end"
        style += "; font-size: 12px; overflow-wrap: anywhere" if high else "; align-items: start"
        sheet = self.workshop / "sheet.html"
        sheet.write_text(f"<!doctype html><meta charset=utf-8><style>{_STYLE} body {{ {style} }}</style>{figures}")
        return sheet.as_uri()

    def _keep(self, name: str, picture: bytes) -> None:
        target = self.folder / name
        target.write_bytes(picture)
        print(target)


async def take(program: str, of: str, language: Language, folder: Path, workshop: Path, *, purpose: Purpose) -> None:
    wanted: list[Pictured] = [] if purpose is Purpose.DOCUMENTS else [state for state in states() if of in state.name]
    if language in CONSOLE_LANGUAGES and (CONSOLE.startswith(of) or of.startswith(CONSOLE)):
        wanted += [one for one in await console_pages(language, workshop) if of in one.name]
    certificate = Certificate.make(workshop)
    settings = ServerSettings(certificate=certificate.certificate, certificate_key=certificate.key)
    with started(program, workshop / "chromium", examples_at=f"{_AT[0]}:{_AT[1]}") as process:
        async with (
            running(application(gallery(wanted)), settings, address=_AT),
            process.attached() as chromium,
            new_page(chromium, _BASE_URL, scripts=True) as page,
        ):
            sheets = Sheets(wanted, language, workshop, folder)
            match purpose:
                case Purpose.LOOKING:
                    await sheets.take(page)
                case Purpose.DOCUMENTS:
                    await sheets.take_reduced(page)
                case Purpose.FIRST_PAGE:
                    await sheets.take_first(page)


def main() -> int:
    parser = argparse.ArgumentParser(description="Pictures of every page in every state")
    parser.add_argument("folder", nargs="?", type=Path)
    parser.add_argument("--of", default="", metavar="WORD", help="only states with this word in their name")
    parser.add_argument("--language", type=Language, default=Language.ENGLISH, choices=list(Language))
    for purpose, what in ((Purpose.DOCUMENTS, "smaller sheets of the console"), (Purpose.FIRST_PAGE, "two windows for README.md")):
        option = f"--{purpose.name.lower().replace('_', '-')}"
        parser.add_argument(option, dest="purpose", action="store_const", const=purpose, help=f"{what}, into {purpose.value}")
    parser.set_defaults(purpose=Purpose.LOOKING)
    given = parser.parse_args()
    # The folders of the documents are fixed, because the documents name them.
    folder: Path = given.folder if given.folder and given.purpose is Purpose.LOOKING else ROOT / given.purpose.value
    program = shutil.which(PROGRAM)
    if program is None:
        print(f"{PROGRAM} is not installed; ops/install-test-tools installs it")
        return 1
    folder.mkdir(parents=True, exist_ok=True)
    if given.purpose is Purpose.DOCUMENTS:
        for former in folder.glob("*.webp"):
            former.unlink()
    with tempfile.TemporaryDirectory() as workshop:
        trio.run(partial(take, program, given.of, given.language, folder, Path(workshop), purpose=given.purpose))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
