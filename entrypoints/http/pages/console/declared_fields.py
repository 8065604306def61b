"""The form of a declared field, of an organization or of the installation: each kind of field asks for its own bounds alone."""

from typing import Final

from core.domain.tenancy.profile_fields import FieldKind, FieldPrompt, FieldWriter
from entrypoints.http.pages.console.cells import code, listed, number, plain, when, words, yes_or_no
from entrypoints.http.pages.console.forms import Asked, InputKind, ShortName


def _bound(kind: FieldKind, name: str, hint: str = "") -> Asked:
    return Asked(
        f"rule.{name}",
        kind=InputKind.LINES if name == "choices" else None,
        under=("kind", kind),
        label=f"console.declared_fields.{name}",
        hint=hint,
    )


BOUNDS: Final = (
    _bound(FieldKind.TEXT, "min_length"),
    _bound(FieldKind.TEXT, "max_length"),
    _bound(FieldKind.NUMBER, "minimum"),
    _bound(FieldKind.NUMBER, "maximum"),
    _bound(FieldKind.DATE, "earliest", "console.declared_fields.date_hint"),
    _bound(FieldKind.DATE, "latest", "console.declared_fields.date_hint"),
    _bound(FieldKind.CHOICE, "choices", "console.declared_fields.choices_hint"),
    _bound(FieldKind.LIST, "choices", "console.declared_fields.list_hint"),
    _bound(FieldKind.LIST, "max_items"),
    _bound(FieldKind.LIST, "max_length"),
)
ASKED: Final = ("written_by", Asked("asked_at", hint="console.declared_fields.asked_at_hint"), "required")
"""Who writes values, and when a person is asked for one."""
NEW: Final = (
    "label",
    Asked("key", hint="console.declared_fields.key_hint", derived=ShortName("label", "field", "_")),
    Asked("kind", kind=InputKind.CARDS),
    *BOUNDS,
    *ASKED,
)
COLUMNS: Final = (
    plain("label"),
    code("key"),
    words("kind", FieldKind),
    words("written_by", FieldWriter),
    words("asked_at", FieldPrompt),
    yes_or_no("required"),
)
FACTS: Final = (
    code("key"),
    words("kind", FieldKind),
    words("written_by", FieldWriter),
    words("asked_at", FieldPrompt),
    yes_or_no("required"),
    number("position"),
    listed("rule.choices"),
    yes_or_no("rule_is_lost"),
    when("created_at"),
    when("updated_at"),
)
