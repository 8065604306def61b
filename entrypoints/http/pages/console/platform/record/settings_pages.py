"""The settings in force, with secrets masked, as `postern config` prints them."""

from itertools import groupby
from typing import Final

from entrypoints.bootstrap import Postern
from entrypoints.http.machinery.answers import Answer
from entrypoints.http.pages.console.declaring import console
from entrypoints.http.pages.console.handlers import stated
from entrypoints.http.pages.console.platform.platform_tabs import SETTINGS, SETTINGS_ENTRY, SETTINGS_TAB, position
from entrypoints.http.pages.console.visit import AnyCall, Head, Page, PageVisit
from entrypoints.http.routes.platform.settings_in_force import list_settings


async def _show_settings(call: AnyCall, postern: Postern) -> Page:
    visit = PageVisit(call, postern)
    settings = (await visit.ask(list_settings)).settings
    groups = [(group, [(one.name, one.value) for one in some]) for group, some in groupby(settings, lambda one: one.group)]
    head = Head(title=visit.text("console.settings_in_force.title"), curl=visit.curl(list_settings))
    return Answer(visit.show("platform/record/settings.html", position(SETTINGS_ENTRY, SETTINGS_TAB), head, settings=groups), 200)


PAGES: Final = (console.get(SETTINGS, of=list_settings)(stated(_show_settings, "show_settings_in_force", SETTINGS)),)
