"""The settings in force, with secrets masked, as `postern config` prints them."""

from typing import Final

from entrypoints.bootstrap import Postern
from entrypoints.http.machinery.answers import Answer
from entrypoints.http.machinery.callers import PLATFORM_OWNER
from entrypoints.http.pages.console.declaring import console
from entrypoints.http.pages.console.handlers import stated
from entrypoints.http.pages.console.platform.places import SETTINGS, SETTINGS_ENTRY, SETTINGS_TAB, spot
from entrypoints.http.pages.console.visit import AnyCall, Head, Page, PageVisit
from entrypoints.settings import in_force_by_group


async def _show_settings(call: AnyCall, postern: Postern) -> Page:
    visit = PageVisit(call, postern)
    groups = [(group, [(one.name, value) for one, value in settings]) for group, settings in in_force_by_group(postern.settings)]
    title = visit.text("console.settings_in_force.title")
    return Answer(visit.show("platform/record/settings.html", spot(SETTINGS_ENTRY, SETTINGS_TAB), Head(title=title), settings=groups), 200)


PAGES: Final = (console.get(SETTINGS, of=PLATFORM_OWNER)(stated(_show_settings, "show_settings_in_force", SETTINGS)),)
