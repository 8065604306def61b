"""The fields in which the organization keeps what it knows of people."""

from typing import Final

from entrypoints.http.pages.console.declared_fields import ASKED, BOUNDS, COLUMNS, FACTS, NEW
from entrypoints.http.pages.console.forms import shape
from entrypoints.http.pages.console.organization.organization_tabs import FIELDS_TAB, PEOPLE, PEOPLE_ENTRY, position
from entrypoints.http.pages.console.resource_pages import pages
from entrypoints.http.pages.console.resources import Ending, Making, Resource, Section
from entrypoints.http.routes.tenancy.profile_fields import change_field, create_field, delete_field, list_fields

FIELDS: Final = Resource(
    name="fields",
    position=position(PEOPLE_ENTRY, FIELDS_TAB),
    at=f"{PEOPLE}/fields",
    listed=list_fields,
    columns=COLUMNS,
    parameter="key",
    key=lambda field: field.key,
    called=lambda field: field.label,
    facts=FACTS,
    making=Making(shape(create_field, *NEW)),
    sections=(
        Section("change", shape(change_field, "label", *ASKED, "position")),
        Section("rule", shape(change_field, *BOUNDS), whole=True),
    ),
    ending=Ending(delete_field, typed=lambda field: field.key),
)

PAGES: Final = pages(FIELDS)
