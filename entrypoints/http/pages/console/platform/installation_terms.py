"""The terms that the installation asks everybody to accept."""

from typing import Final

from entrypoints.http.pages.console.forms import shape
from entrypoints.http.pages.console.organization.settings.terms import ASKED, COLUMNS, shown
from entrypoints.http.pages.console.platform.platform_tabs import SETTINGS_ENTRY, TERMS, TERMS_TAB, position
from entrypoints.http.pages.console.resource_pages import pages
from entrypoints.http.pages.console.resources import Ending, Resource, Section
from entrypoints.http.routes.platform.installation_terms import (
    end_installation_terms,
    get_installation_terms,
    set_installation_terms,
)

INSTALLATION_TERMS: Final = Resource(
    name="installation_terms",
    position=position(SETTINGS_ENTRY, TERMS_TAB),
    at=TERMS,
    is_single=True,
    listed=get_installation_terms,
    of_record=shown,
    columns=COLUMNS,
    # A version is used once, so nothing can be put back.
    sections=(Section("change", shape(set_installation_terms, *ASKED), whole=True, undone=False),),
    ending=Ending(end_installation_terms),
)

PAGES: Final = pages(INSTALLATION_TERMS)
