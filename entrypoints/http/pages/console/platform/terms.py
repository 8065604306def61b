"""What holds for everybody: the tiers that organizations can have, and the fields of the installation."""

from typing import Final

import msgspec

from entrypoints.http.pages.console.cells import code, number, plain, words, yes_or_no
from entrypoints.http.pages.console.forms import Asked, InputKind, shape
from entrypoints.http.pages.console.platform.platform_tabs import FIELDS, FIELDS_ENTRY, FIELDS_TAB, TIERS, TIERS_ENTRY, TIERS_TAB, position
from entrypoints.http.pages.console.resource_pages import pages
from entrypoints.http.pages.console.resources import Ending, Making, Resource, Section
from entrypoints.http.routes.platform.governance import list_tiers
from entrypoints.http.routes.platform.platform_fields import (
    change_platform_field,
    create_platform_field,
    delete_platform_field,
    list_platform_fields,
)

TIER_LIST: Final = Resource(
    name="tiers",
    position=position(TIERS_ENTRY, TIERS_TAB),
    at=TIERS,
    listed=list_tiers,
    columns=(
        plain("display_name", "console.field.name", beside="name"),
        number("default_max_users", "console.field.max_users"),
        number("default_max_services", "console.field.max_services"),
        number("price_cents"),
    ),
)

_WRITERS: Final = Asked("written_by")
_ASKED_AT: Final = Asked("asked_at", hint="console.platform_fields.asked_at_hint")
# A change replaces all bounds, so it is one input.
_BOUNDS: Final = Asked(
    "rule",
    kind=InputKind.JSON,
    label="console.field.bounds",
    hint="console.platform_fields.bounds_hint",
    shown=lambda field: {name: value for name, value in msgspec.to_builtins(field.rule).items() if value not in (None, [], ())},
)
_BOUND: Final = ("min_length", "max_length", "minimum", "maximum", "earliest", "latest", "choices", "max_items")
_EACH_BOUND: Final = tuple(Asked(f"rule.{name}", label=f"console.platform_fields.{name}") for name in _BOUND)

PLATFORM_FIELDS: Final = Resource(
    name="platform_fields",
    position=position(FIELDS_ENTRY, FIELDS_TAB),
    at=FIELDS,
    listed=list_platform_fields,
    columns=(plain("label", beside="key"), words("kind"), words("written_by"), yes_or_no("required"), number("position")),
    parameter="key",
    key=lambda field: field.key,
    called=lambda field: str(field.label),
    facts=(code("key"), words("kind"), words("written_by"), words("asked_at"), plain("scope"), yes_or_no("required"), number("position")),
    making=Making(shape(create_platform_field, "key", "label", "kind", _WRITERS, "required", _ASKED_AT, "scope", *_EACH_BOUND)),
    sections=(Section("change", shape(change_platform_field, "label", _BOUNDS, _WRITERS, "required", _ASKED_AT, "scope", "position")),),
    ending=Ending(delete_platform_field, typed=lambda field: str(field.key)),
)

PAGES: Final = (*pages(TIER_LIST), *pages(PLATFORM_FIELDS))
