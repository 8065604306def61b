"""The name of the organization, its limits, and how much of them is used."""

from typing import Any, Final

from entrypoints.http.pages.console.cells import Tone, code, copied, plain, state, when
from entrypoints.http.pages.console.forms import Asked, InputKind, shape
from entrypoints.http.pages.console.organization.organization_tabs import GENERAL_TAB, SETTINGS, SETTINGS_ENTRY, position
from entrypoints.http.pages.console.resource_pages import pages
from entrypoints.http.pages.console.resources import Resource, Section
from entrypoints.http.routes.tenancy.organizations import change_organization, get_organization

_STATES: Final = {
    "active": ("console.value.state.active", Tone.GOOD),
    "pending": ("console.value.state.pending", Tone.WARN),
    "rejected": ("console.value.state.rejected", Tone.BAD),
    "suspended": ("console.value.state.suspended", Tone.BAD),
}


def _used(count: int, limit: int) -> str:
    return f"{count} / {limit}"


def _members(found: Any) -> str:
    own = found.organization.max_users
    return _used(found.member_count, found.tier.default_max_users if own is None else own)


def _applications(found: Any) -> str:
    own = found.organization.max_services
    return _used(found.service_count, found.tier.default_max_services if own is None else own)


GENERAL: Final = Resource(
    name="general",
    position=position(SETTINGS_ENTRY, GENERAL_TAB),
    at=SETTINGS,
    is_single=True,
    listed=get_organization,
    columns=(
        plain("organization.name", "console.field.name"),
        copied("organization.slug", "console.field.slug"),
        state("organization.status", _STATES),
        plain("tier.display_name", "console.field.tier"),
        plain(_members, "console.general.members"),
        plain(_applications, "console.general.applications"),
        code("organization.id", "console.field.id"),
        when("organization.created_at", "console.field.created_at"),
    ),
    sections=(
        Section(
            "change",
            shape(
                change_organization,
                Asked("name", shown=lambda found: found.organization.name),
                Asked("metadata", kind=InputKind.JSON, hint="console.general.metadata_hint"),
            ),
        ),
    ),
)

PAGES: Final = pages(GENERAL)
