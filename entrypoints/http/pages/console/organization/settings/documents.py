"""The objects that configuration documents manage, of an organization and of the installation, and which of them were changed by hand."""

from typing import Any, Final

from entrypoints.http.machinery.endpoints import Endpoint
from entrypoints.http.pages.console.cells import Tone, code, plain, state, when
from entrypoints.http.pages.console.navigation import PagePosition
from entrypoints.http.pages.console.organization import organization_tabs as of_organization
from entrypoints.http.pages.console.platform import platform_tabs as of_platform
from entrypoints.http.pages.console.resource_pages import pages
from entrypoints.http.pages.console.resources import Resource
from entrypoints.http.routes.configuration.documents import get_organization_configuration, get_platform_configuration
from entrypoints.http.routes.configuration.proposals import list_proposals

_DRIFT: Final = {False: ("console.state.as_documented", Tone.GOOD), True: ("console.state.changed_by_hand", Tone.WARN)}


def _list(at: str, position: PagePosition, listed: Endpoint, *beneath: tuple[str, str, Endpoint]) -> Resource:
    return Resource(
        name="documents",
        position=position,
        at=at,
        listed=listed,
        rows="managed",
        columns=(
            code("place"),
            state("has_drifted", _DRIFT),
            when("managed_at", "console.field.happened_at"),
            plain("managed_by"),
            code(_beginning, "console.field.document"),
        ),
        beneath=beneath,
    )


def _beginning(managed: Any) -> str:
    return str(managed.document[:12])


DOCUMENTS: Final = _list(
    of_organization.DOCUMENTS,
    of_organization.position(of_organization.SETTINGS_ENTRY, of_organization.DOCUMENTS_TAB),
    get_organization_configuration,
    ("console.proposals.title", of_organization.PROPOSALS, list_proposals),
)
PLATFORM_DOCUMENTS: Final = _list(
    of_platform.DOCUMENTS, of_platform.position(of_platform.SETTINGS_ENTRY, of_platform.DOCUMENTS_TAB), get_platform_configuration
)

PAGES: Final = (*pages(DOCUMENTS), *pages(PLATFORM_DOCUMENTS))
