"""What holds for everybody: the tiers that organizations can have, and the fields of the installation."""

from typing import Final

from core.domain.services.plans import priced
from core.domain.tenancy.tiers import PRICE_CURRENCY
from entrypoints.http.pages.console.cells import number, plain
from entrypoints.http.pages.console.declared_fields import ASKED, BOUNDS, COLUMNS, FACTS, NEW
from entrypoints.http.pages.console.forms import shape
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
        plain(lambda tier: priced(tier.price_cents, PRICE_CURRENCY), "console.plans.price"),
    ),
)

PLATFORM_FIELDS: Final = Resource(
    name="platform_fields",
    position=position(FIELDS_ENTRY, FIELDS_TAB),
    at=FIELDS,
    listed=list_platform_fields,
    columns=COLUMNS,
    parameter="key",
    key=lambda field: field.key,
    called=lambda field: str(field.label),
    facts=(*FACTS, plain("scope")),
    making=Making(shape(create_platform_field, *NEW, "scope")),
    sections=(
        Section("change", shape(change_platform_field, "label", *ASKED, "scope", "position")),
        Section("rule", shape(change_platform_field, *BOUNDS), whole=True),
    ),
    ending=Ending(delete_platform_field, typed=lambda field: str(field.key)),
)

PAGES: Final = (*pages(TIER_LIST), *pages(PLATFORM_FIELDS))
