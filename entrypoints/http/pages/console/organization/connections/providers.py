"""The organization's own providers, at which its people sign in."""

from typing import Final

from entrypoints.http.pages.console.cells import Tone, code, copied, listed, plain, state, when
from entrypoints.http.pages.console.forms import Asked, shape
from entrypoints.http.pages.console.organization.places import DIRECTORIES, DIRECTORIES_ENTRY, DIRECTORIES_TAB, spot
from entrypoints.http.pages.console.resource_pages import pages
from entrypoints.http.pages.console.resources import Ending, Making, Resource, Section
from entrypoints.http.routes.tenancy.upstream_providers import (
    change_upstream_provider,
    create_upstream_provider,
    delete_upstream_provider,
    list_upstream_providers,
)

_STATES: Final = {True: ("console.state.active", Tone.GOOD), False: ("console.state.off", Tone.WARN)}
_ISSUER: Final = Asked("issuer", hint="console.providers.issuer_hint")
_SCOPES: Final = Asked("scopes", hint="console.providers.scopes_hint")
_MAPPING: Final = Asked("profile_mapping", hint="console.providers.mapping_hint")

PROVIDERS: Final = Resource(
    name="providers",
    spot=spot(DIRECTORIES_ENTRY, DIRECTORIES_TAB),
    at=DIRECTORIES,
    listed=list_upstream_providers,
    columns=(plain("name"), code("issuer"), state("enabled", _STATES), when("created_at")),
    parameter="provider_id",
    state=(lambda one: one.enabled, _STATES.__getitem__),
    facts=(
        copied("callback_url"),
        code("issuer"),
        code("client_id"),
        listed("scopes"),
        copied("id"),
        when("created_at"),
        when("updated_at"),
    ),
    making=Making(shape(create_upstream_provider, "name", _ISSUER, "client_id", "client_secret", _SCOPES)),
    sections=(
        Section(
            "change",
            shape(
                change_upstream_provider,
                "name",
                "client_id",
                Asked("client_secret", hint="console.siem.secret_hint"),
                "enabled",
                _SCOPES,
                _MAPPING,
            ),
        ),
    ),
    ending=Ending(delete_upstream_provider),
)

PAGES: Final = pages(PROVIDERS)
