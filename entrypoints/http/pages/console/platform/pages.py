"""All pages of the installation."""

from typing import Final

from entrypoints.http.pages.console.organization import hooks, risk
from entrypoints.http.pages.console.platform import for_everybody, keys, organizations, overview, people, providers, record, search_pages
from entrypoints.http.pages.console.platform.people import person_pages

PAGES: Final = (
    *overview.PAGES,
    *search_pages.PAGES,
    *organizations.PAGES,
    *people.PAGES,
    *person_pages.PAGES,
    *for_everybody.PAGES,
    *providers.PAGES,
    *keys.PAGES,
    *hooks.PAGES_OF_INSTALLATION,
    *risk.PAGES_OF_INSTALLATION,
    *record.PAGES,
)
