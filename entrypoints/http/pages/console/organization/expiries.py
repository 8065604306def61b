"""What ends soon in an organization: certificates, keys, tokens, and domains whose proof was not found."""

from collections.abc import Mapping
from typing import Any, Final

from core.domain.platform.todos import ExpiryKind
from entrypoints.http.pages.console.cells import Column, Tone, linked, plain, state, when, words
from entrypoints.http.pages.console.navigation import address
from entrypoints.http.pages.console.organization.applications import application_tabs
from entrypoints.http.pages.console.organization.organization_tabs import APIS, DIRECTORIES, EXPIRIES, KEYS, SETTINGS
from entrypoints.http.pages.console.organization.overview import OVERVIEW
from entrypoints.http.pages.console.resource_pages import pages
from entrypoints.http.pages.console.resources import Resource
from entrypoints.http.routes.platform.expiries import list_expiries

_PLACES: Final[Mapping[ExpiryKind, str]] = {
    ExpiryKind.APPLICATION_CERTIFICATE: application_tabs.SAML_CERTIFICATE,
    ExpiryKind.DIRECTORY_CERTIFICATE: f"{DIRECTORIES}/{{id}}",
    ExpiryKind.OWN_CERTIFICATE: f"{DIRECTORIES}/{{id}}",
    ExpiryKind.MANAGEMENT_KEY: f"{KEYS}/{{id}}",
    ExpiryKind.API_KEY: f"{application_tabs.API_KEYS}/{{id}}",
    ExpiryKind.SCIM_TOKEN: f"{DIRECTORIES}/scim/{{id}}",
    ExpiryKind.DOMAIN: f"{DIRECTORIES}/domains/{{id}}",
    ExpiryKind.OWN_DOMAIN: f"{SETTINGS}/domain",
    ExpiryKind.API_HOST: f"{APIS}/{{id}}",
}
_STATES: Final = {
    "unproved": ("console.state.unproved", Tone.BAD),
    "succeeded": ("console.state.has_successor", Tone.GOOD),
    "ends": ("console.state.ends", Tone.WARN),
}


def _place(one: Any, path: Mapping[str, str]) -> str:
    return address(_PLACES[one.kind], {**path, "id": str(one.id), "service_slug": one.service_slug or ""})


def _state(one: Any) -> str:
    if one.ends_at is None:
        return "unproved"
    return "succeeded" if one.has_successor else "ends"


NAMED: Final = plain("name")
OF_EACH: Final[tuple[Column, ...]] = (
    words("kind", ExpiryKind, "console.field.kind"),
    state(_state, _STATES),
    when("last_used_at"),
    when("ends_at", "console.field.expires_at"),
)
_APPLICATION: Final = linked(
    plain("service_slug", "console.field.application"),
    lambda one, path: address(application_tabs.ONE, {**path, "service_slug": one.service_slug}) if one.service_slug else "",
)

EXPIRIES_OF_ORGANIZATION: Final = Resource(
    name="expiries",
    position=OVERVIEW,
    at=EXPIRIES,
    listed=list_expiries,
    rows="expiries",
    columns=(linked(NAMED, _place), _APPLICATION, *OF_EACH),
    exported=True,
    crumbs=lambda visit: ((visit.text("console.overview.title"), visit.here(OVERVIEW.tab.at)),),
)

PAGES: Final = pages(EXPIRIES_OF_ORGANIZATION)
