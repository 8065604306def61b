"""What ends soon in the whole installation."""

from collections.abc import Mapping
from typing import Any, Final

from entrypoints.http.pages.console.cells import linked, plain
from entrypoints.http.pages.console.navigation import address
from entrypoints.http.pages.console.organization.expiries import NAMED, OF_EACH
from entrypoints.http.pages.console.platform.platform_tabs import EXPIRIES, EXPIRIES_TAB, KEYS, ORGANIZATIONS, OVERVIEW_ENTRY, position
from entrypoints.http.pages.console.resource_pages import pages
from entrypoints.http.pages.console.resources import Resource
from entrypoints.http.routes.platform.expiries import list_expiries_of_platform


def _place(one: Any, _path: Mapping[str, str]) -> str:
    """The page of the thing's organization, since platform owners need not be its members; of a key of the platform, the key's own."""
    if one.organization_id is None:
        return address(f"{KEYS}/{{id}}", {"id": one.id})
    return address(f"{ORGANIZATIONS}/{{id}}", {"id": one.organization_id})


EXPIRIES_OF_PLATFORM: Final = Resource(
    name="expiries",
    position=position(OVERVIEW_ENTRY, EXPIRIES_TAB),
    at=EXPIRIES,
    listed=list_expiries_of_platform,
    rows="expiries",
    columns=(
        linked(NAMED, _place),
        linked(plain(lambda one: one.organization_name or one.organization_slug, "console.field.organization"), _place),
        *OF_EACH,
    ),
)

PAGES: Final = pages(EXPIRIES_OF_PLATFORM)
