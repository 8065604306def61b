"""The settings in force, with secrets masked: those that somebody has set first, the others by their groups, each with its sentence."""

import re
from collections.abc import Sequence
from typing import Final, NamedTuple

import msgspec

from entrypoints.bootstrap import Postern
from entrypoints.http.machinery.answers import Answer
from entrypoints.http.pages.console.declaring import console
from entrypoints.http.pages.console.handlers import stated
from entrypoints.http.pages.console.platform.platform_tabs import SETTINGS, SETTINGS_ENTRY, SETTINGS_TAB, position
from entrypoints.http.pages.console.visit import AnyCall, Head, Page, PageVisit
from entrypoints.http.routes.platform.settings_in_force import list_settings
from entrypoints.settings import in_force_by_group, is_default
from ports.texts import Text

_SECONDS: Final = re.compile(r"(\d{1,12})s")
# The largest unit of which the time is a whole number.
_UNITS: Final = (("days", 86_400), ("hours", 3_600), ("minutes", 60), ("seconds", 1))


class SoughtSetting(msgspec.Struct, frozen=True):
    q: str = ""
    """A part of the name or of the sentence."""


class ShownSetting(NamedTuple):
    name: str
    value: str
    description: str
    """In English, as in the documentation."""


async def _show_settings(call: AnyCall, postern: Postern) -> Page:
    visit = PageVisit(call, postern)
    await visit.ask(list_settings)
    wanted = call.query.q.strip().casefold()
    groups: list[tuple[str, Sequence[ShownSetting]]] = []
    own = []
    for group, settings in in_force_by_group(postern.settings):
        shown = [
            (one, ShownSetting(one.name, in_time(value, visit.text), one.description), is_default(one, value))
            for one, value in settings
            if wanted in f"{one.name} {one.description}".casefold()
        ]
        own += [setting for _, setting, by_itself in shown if not by_itself]
        if others := [setting for _, setting, by_itself in shown if by_itself]:
            groups.append((group, others))
    page = visit.show(
        "platform/record/settings.html",
        position(SETTINGS_ENTRY, SETTINGS_TAB),
        Head(title=visit.text("console.settings_in_force.title"), curl=visit.curl(list_settings)),
        at=SETTINGS,
        wanted=call.query.q.strip(),
        own=own,
        groups_of_settings=groups,
    )
    return Answer(page, 200)


def in_time(value: str, text: Text) -> str:
    """A time in words: `7776000s` is 90 days. Any other value is as it is."""
    found = _SECONDS.fullmatch(value)
    seconds = int(found[1]) if found else 0
    if not seconds:
        return value
    unit, length = next(one for one in _UNITS if seconds % one[1] == 0)
    return str(text(f"console.lasts.{unit}", count=seconds // length))


PAGES: Final = (console.get(SETTINGS, of=list_settings)(stated(_show_settings, "show_settings_in_force", SETTINGS, query=SoughtSetting)),)
