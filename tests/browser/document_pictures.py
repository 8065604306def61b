"""Takes the pictures of README.md and docs/console.md into docs/pictures: `make pictures`. They show the pages of an application over a
database of its own, so they are of the same names and of the same widths each time. A picture whose name is here no longer goes.
"""

import tempfile
from pathlib import Path
from typing import Final

import trio

from core.domain.languages import Language
from core.frozen import Frozen
from ops.browser.page import NARROW, WIDE, Page
from ops.pictures import MADE_OF, PICTURES, ROOT, made_of
from tests.browser.console_gallery import CONSOLE, console_pages
from tests.browser.contact_sheet import Pictured, browser, in_gallery
from tests.browser.gallery import place
from tests.browser.states import states

_QUALITY: Final = 80


class Picture(Frozen):
    file: str
    state: str
    """Its name in the gallery."""
    width: int = WIDE
    whole: bool = True
    """All of the page, or what the window shows at first."""


ON_THE_FIRST_PAGE: Final = (
    Picture(file="console", state=f"{CONSOLE}: /people", whole=False),
    Picture(file="sign-in", state="sign in, with providers", width=NARROW, whole=False),
)
OF_THE_CONSOLE: Final = (
    Picture(file="overview", state=f"{CONSOLE}: /"),
    Picture(file="person", state=f"{CONSOLE}: /people/{{user_id}}"),
    Picture(file="sign-ins", state=f"{CONSOLE}: /sign-ins"),
    Picture(file="application", state=f"{CONSOLE}: /applications/{{service_slug}}"),
    Picture(file="rules", state=f"{CONSOLE}: /sign-in"),
    Picture(file="platform", state=f"{CONSOLE}: /ui/platform"),
)
ALL: Final = (*ON_THE_FIRST_PAGE, *OF_THE_CONSOLE)


async def take(page: Page, picture: Picture, number: int, folder: Path) -> None:
    await page.show(width=picture.width)
    await page.open(place(number))
    file = folder / f"{picture.file}.webp"
    file.write_bytes(await page.picture(quality=_QUALITY, whole=picture.whole))
    print(file.relative_to(ROOT))


async def renew(program: str, folder: Path, workshop: Path) -> None:
    wanted = {one.state for one in ALL}
    shown: list[Pictured] = [
        *(one for one in states() if one.name in wanted),
        *await console_pages([Language.ENGLISH], workshop, wanted.__contains__),
    ]
    numbers = {one.name: number for number, one in enumerate(shown)}
    async with in_gallery(shown, program, workshop) as page:
        for picture in ALL:
            await take(page, picture, numbers[picture.state], folder)


def main() -> None:
    folder = ROOT / PICTURES
    # A change of a page while pictures are taken makes these old.
    digest = made_of(ROOT)
    program = browser()
    with tempfile.TemporaryDirectory() as workshop:
        trio.run(renew, program, folder, Path(workshop))
    for former in set(folder.glob("*.webp")) - {folder / f"{one.file}.webp" for one in ALL}:
        former.unlink()
    (ROOT / MADE_OF).write_text(f"{digest}\n")


if __name__ == "__main__":
    main()
