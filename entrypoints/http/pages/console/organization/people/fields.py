"""The fields in which the organization keeps what it knows of people."""

from typing import Final

from entrypoints.http.pages.console.cells import code, listed, number, plain, when, words, yes_or_no
from entrypoints.http.pages.console.forms import Asked, InputKind, shape
from entrypoints.http.pages.console.organization.organization_tabs import FIELDS_TAB, PEOPLE, PEOPLE_ENTRY, position
from entrypoints.http.pages.console.resource_pages import pages
from entrypoints.http.pages.console.resources import Ending, Making, Resource, Section
from entrypoints.http.routes.tenancy.profile_fields import change_field, create_field, delete_field, list_fields

RULE: Final = (
    Asked("rule.choices", kind=InputKind.LINES, hint="console.fields.choices_hint"),
    Asked("rule.min_length", hint="console.fields.length_hint"),
    "rule.max_length",
    Asked("rule.minimum", hint="console.fields.number_hint"),
    "rule.maximum",
    Asked("rule.earliest", hint="console.fields.date_hint"),
    "rule.latest",
    Asked("rule.max_items", hint="console.fields.items_hint"),
)
COLUMNS: Final = (plain("label"), code("key"), words("kind"), words("written_by"), words("asked_at"), yes_or_no("required"))
FACTS: Final = (
    code("key"),
    words("kind"),
    words("written_by"),
    words("asked_at"),
    yes_or_no("required"),
    number("position"),
    listed("rule.choices"),
    when("created_at"),
    when("updated_at"),
)

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
    making=Making(shape(create_field, "label", Asked("key", hint="console.fields.key_hint"), "kind", "written_by", "asked_at", "required")),
    sections=(
        Section("change", shape(change_field, "label", "written_by", "asked_at", "required", "position")),
        Section("rule", shape(change_field, *RULE)),
    ),
    ending=Ending(delete_field, typed=lambda field: field.key),
)

PAGES: Final = pages(FIELDS)
