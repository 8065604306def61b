"""All pages of the console."""

from typing import Final

from entrypoints.http.machinery.endpoints import Endpoints
from entrypoints.http.pages.console.organization import events

CONSOLE: Final = Endpoints([*events.PAGES])
